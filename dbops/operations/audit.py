"""The one way into the audit log."""

from typing import Any

from django.utils import timezone

from dbops.models import AuditEntry


def record(*, actor: str, action: str, subject: str, **detail: Any) -> AuditEntry:
    """Write one entry, in the caller's transaction. ``detail`` is plain data without secrets."""
    return AuditEntry.objects.create(at=timezone.now(), actor=actor, action=action, subject=subject, detail=detail)
