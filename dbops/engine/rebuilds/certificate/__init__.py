"""What proves that a copy is the same data: its inventory, tables that open, equal rows. ``docs/explanation/certificate.md``."""
