"""Operations of users: each checks permission, makes one change in one transaction, and records it in the audit log."""
