"""The only writer of status, holds, run tokens, leases, steps and events of rebuilds and backup runs.

Every move is a conditional update, and the caller obeys the row count: the second of two callers changes nothing.
"""
