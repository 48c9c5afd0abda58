"""Command line client of dbops."""

__version__ = "0.1.0"
