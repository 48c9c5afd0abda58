"""Append entries to the audit log."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from dbops.database import clock
from dbops.engine.audit.chain import ChainEntry, ChainHead, hash_of, plain
from dbops.engine.audit.entries import outcome_of, subject_is, text_of
from dbops.models import AuditEntry, AuditHead, AuditName, AuditSegment, AuditText, Instance
from dbops.models.audit import NAMED

#: The actor of automatic actions.
SYSTEM = "dbops"
THE_HEAD = 1
#: The action of the entry that bridges a head that somebody set back or removed.
HEAD_MISMATCH = "audit.head_mismatch"
LENGTHS = {field.name: field.max_length for field in AuditEntry._meta.fields}


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The IP address and id of the current web request, with the name of its API token; of a command the logins that run it."""

    address: str = ""
    request: str = ""
    token: str = ""
    logins: tuple[str, ...] = ()


_origin: ContextVar[RequestOrigin] = ContextVar("dbops_audit_origin", default=RequestOrigin())  # noqa: B039 - it is frozen


@contextmanager
def request_origin(origin: RequestOrigin) -> Iterator[None]:
    """Set the origin of entries appended within the block."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def current_origin() -> RequestOrigin:
    """Return the origin of the current web request or command; empty elsewhere."""
    return _origin.get()


def name_token(name: str) -> None:
    """Add the name of an API token to the origin of the current web request: its audit entries name it."""
    _origin.set(replace(_origin.get(), token=name))


def append(
    *,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    reason: str = "",
    outcome: str = "",
    instance: str = "",
    cluster: str = "",
) -> AuditEntry:
    """Add one entry, in the caller's transaction. Make it the last thing that a transaction does.

    The head's row is locked until the transaction ends: every other writer waits. Who locked something else after it
    could meet one who has that and waits for the head.

    Args:
        actor: a person's name, or ``SYSTEM``.
        detail: plain data without secrets.
        reason: as the person typed it.
        outcome: read from the action where it is not given, as are instance and cluster.
    """
    instance, cluster = _about(action, subject, instance, cluster)
    origin = _origin.get()
    wanted = ChainEntry(
        sequence=0,
        previous="",
        hash="",
        at=clock.now(),
        actor=_fitting("actor", actor),
        action=_fitting("action", action),
        subject=_fitting("subject", subject),
        instance=_fitting("instance", instance),
        cluster=_fitting("cluster", cluster),
        outcome=_fitting("outcome", outcome or outcome_of(action)),
        reason=plain(reason),
        address=_fitting("address", origin.address),
        request=_fitting("request", origin.request),
        detail=plain({**(detail or {}), **({"api_token": origin.token} if origin.token else {})}),
    )
    try:
        with transaction.atomic():
            return _add(wanted, _locked_head())
    except IntegrityError:
        with transaction.atomic():
            head = _locked_head()
            is_behind = head.sequence < _highest_number()
            return _add(wanted, _record_mismatch(head) if is_behind else head)


def _add(wanted: ChainEntry, head: ChainHead) -> AuditEntry:
    """Write an entry after ``head``, whose row the caller has locked."""
    # The time is read under the lock, so that times rise with the numbers.
    link = replace(wanted, sequence=head.sequence + 1, previous=head.hash, at=clock.now())
    link = replace(link, hash=hash_of(link))
    entry = AuditEntry.objects.create(**{name: getattr(link, name) for name in ChainEntry.__dataclass_fields__})
    AuditText.objects.create(sequence=link.sequence, text=text_of(link.reason, link.detail))
    _learn_names(link)
    AuditHead.objects.filter(pk=THE_HEAD).update(sequence=link.sequence, hash=link.hash)
    return entry


def _highest_number() -> int:
    """Return the highest number that an entry, a text or an archived segment has."""
    entry = AuditEntry.objects.values_list("sequence", flat=True).first()
    text = AuditText.objects.aggregate(last=Max("sequence"))["last"]
    return max(entry or 0, text or 0, current_anchor().sequence)


def _record_mismatch(head: ChainHead) -> ChainHead:
    """Record that the stored head is older than the log, and return the new head.

    Somebody changed the tables, but a rebuild at night must still be possible. So the log continues after the highest
    number in use, with an entry that every later verification reports.
    """
    highest, last = _highest_number(), AuditEntry.objects.first()
    before = last.hash if last is not None and last.sequence > head.sequence else head.hash
    mismatch = ChainEntry(
        sequence=0,
        previous="",
        hash="",
        at=clock.now(),
        actor=SYSTEM,
        action=HEAD_MISMATCH,
        subject="audit log",
        outcome="failed",
        detail={"head": str(head), "last_entry": last.sequence if last else 0, "highest_number": highest},
    )
    entry = _add(mismatch, ChainHead(highest, before))
    return ChainHead(entry.sequence, entry.hash)


def current_head() -> ChainHead:
    """Return the end of the chain."""
    row = AuditHead.objects.filter(pk=THE_HEAD).first()
    return row.head if row else ChainHead()


def current_anchor() -> ChainHead:
    """Return the predecessor of the oldest entry in the database: the last archived entry, or the start of the log."""
    newest = AuditSegment.objects.last()
    return newest.anchor if newest else ChainHead()


def _locked_head() -> ChainHead:
    row = AuditHead.objects.select_for_update().filter(pk=THE_HEAD).first()
    if row is not None:
        return row.head
    AuditHead.objects.create(pk=THE_HEAD)
    # A new chain would hide the earlier entries.
    return _record_mismatch(ChainHead()) if AuditEntry.objects.exists() else ChainHead()


def _about(action: str, subject: str, instance: str, cluster: str) -> tuple[str, str]:
    """Return instance and cluster of the subject, as far as the inventory knows them."""
    kind = subject_is(action)
    if not instance and kind == "instance":
        instance = subject
    if not cluster and kind == "cluster":
        cluster = subject
    if instance and not cluster:
        cluster = Instance.objects.filter(name=instance).values_list("cluster__name", flat=True).first() or ""
    return instance, cluster


def _fitting(column: str, value: str) -> str:
    """Return a text in the form that its column stores, so that the hash covers the stored text."""
    text: str = plain(value)
    return text[: LENGTHS[column]]


def _learn_names(link: ChainEntry) -> None:
    """Record new values of filter columns. The head's lock excludes other writers."""
    values = {column: getattr(link, column) for column in NAMED if getattr(link, column)}
    known = set(
        AuditName.objects.filter(column__in=values, name__in=set(values.values())).values_list("column", "name")
    )
    AuditName.objects.bulk_create(
        AuditName(column=column, name=name, folded=name.casefold())
        for column, name in values.items()
        if (column, name) not in known
    )
