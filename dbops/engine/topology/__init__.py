"""Topology: discovery results, proposals, differences from the inventory, and layout."""
