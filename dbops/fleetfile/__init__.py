"""The fleet file: read and checked with line numbers, applied in one transaction, written back. Format: ``docs/reference/fleet.md``."""
