"""Attackers: whoever is a database account, a host, a dump or a message."""
