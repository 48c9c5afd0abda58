"""Managed backups: plan, job, completeness check, flags and retention."""
