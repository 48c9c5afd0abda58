"""Servers that other systems list, and how they differ from the inventory."""
