"""The user's verbs: each checks who asks, does one thing in one transaction, and writes it into the audit log."""
