"""Attackers: a database account, a host, a dump, a message."""
