"""Restore tests: restore a backup beside the running servers, check every table, and remove the copy."""
