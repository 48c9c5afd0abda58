"""The one way into the audit log."""

from typing import Any

from django.utils import timezone

from dbops.fleetfile.store import CREATED, UNCHANGED, Item
from dbops.models import AuditEntry

REASON_MINIMUM_CHARACTERS = 3


def says_why(reason: str) -> bool:
    """Tell whether what a person typed as a reason is one that can be read later."""
    return len(reason.strip()) >= REASON_MINIMUM_CHARACTERS


def record(*, actor: str, action: str, subject: str, **detail: Any) -> AuditEntry:
    """Write one entry, in the caller's transaction. ``detail`` is plain data without secrets."""
    return AuditEntry.objects.create(at=timezone.now(), actor=actor, action=action, subject=subject, detail=detail)


def record_item(actor: str, item: Item, *, via: str) -> None:
    """Write what became of one object of the inventory, with before and after of each field; nothing where it stayed."""
    if item.outcome != UNCHANGED:
        told = {name: _told(change, is_new=item.outcome == CREATED) for name, change in item.changes.items()}
        record(actor=actor, action=f"{item.kind}.{item.outcome}", subject=item.name, via=via, **told)


def _told(change: Any, *, is_new: bool) -> str:
    """Return one change in words, as the audit log shows it."""
    if isinstance(change, str):
        return change
    before, after = (", ".join(value) if isinstance(value, list) else str(value) for value in change.values())
    return after if is_new else f"{before or '(empty)'} → {after or '(empty)'}"
