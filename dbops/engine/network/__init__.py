"""Addresses of other systems, and how often dbops tries to reach them."""
