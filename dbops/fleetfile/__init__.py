"""Import and export of the fleet file. Format: ``docs/reference/fleet.md``."""
