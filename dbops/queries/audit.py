"""What the audit log shows."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator

from dbops.models import AuditEntry

ENTRIES_ON_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What a reader looks for. Empty means all."""

    actor: str = ""
    action: str = ""
    subject: str = ""


def entries(wanted: AuditFilter, number: str | int) -> Page[AuditEntry]:
    """Return one page of the log, newest first. Two queries."""
    rows = AuditEntry.objects.all()
    conditions: dict[str, Any] = {}
    if wanted.actor:
        conditions["actor__icontains"] = wanted.actor
    if wanted.action:
        conditions["action__startswith"] = wanted.action
    if wanted.subject:
        conditions["subject__icontains"] = wanted.subject
    return Paginator(rows.filter(**conditions), ENTRIES_ON_A_PAGE).get_page(number)
