"""Write status, holds, fences, leases, steps and events of rebuilds and backup runs; no other package writes them.

Every change is a conditional update, and the caller checks the row count: the second of two callers changes nothing.
"""
