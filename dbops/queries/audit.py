"""What the audit log shows."""

from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models.functions import Lower
from django.db.models.lookups import Contains

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
    # `icontains` would not do: with MariaDB's binary collation it tells upper from lower case.
    if wanted.actor:
        rows = rows.filter(Contains(Lower("actor"), wanted.actor.lower()))
    if wanted.action:
        rows = rows.filter(action__startswith=wanted.action)
    if wanted.subject:
        rows = rows.filter(Contains(Lower("subject"), wanted.subject.lower()))
    return Paginator(rows, ENTRIES_ON_A_PAGE).get_page(number)
