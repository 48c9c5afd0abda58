"""Add, remove and test audit sinks: receivers of the audit log outside of dbops."""

from functools import partial

from django.db import IntegrityError, transaction

from dbops.audit.log import append, current_anchor, current_head
from dbops.database import clock
from dbops.engine.audit.sinks import read_address
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.messaging.wakeups import nudge
from dbops.models import AuditEntry, AuditSink
from dbops.models.entered import check_values, refusing
from dbops.models.secret import is_set, vault_detail


def add_sink(
    *, actor: str, name: str, address: str, ca: str = "", token: str = "", after: int | None = None
) -> AuditSink:
    """Add a sink. Workers start to send within seconds.

    Args:
        actor: for the audit log; the caller checks the permission, here and below.
        address: ``syslog+tcp://``, ``syslog+tls://`` or ``https://``.
        ca: certificates of the receiver's authority as PEM; empty for those of the system.
        token: for ``https://``, stored encrypted; or a ``VaultPath``.
        after: send entries after this number; by default new ones. Archived entries are not sent.

    Raises:
        Refused: one of them is invalid, or the name is taken (``audit.sink_invalid``).
    """
    head = current_head().sequence
    sink = AuditSink(
        name=name,
        address=address,
        ca=ca,
        token=token,
        created_by=actor,
        created_at=clock.now(),
        next_try_at=clock.now(),
        sent_sequence=head if after is None else max(after, current_anchor().sequence),
    )
    _check(sink, head)
    # The address tells who gets the log; a token is never written.
    detail = {"address": address, "after": sink.sent_sequence, "token": bool(token), "ca": bool(ca)} | vault_detail(
        sink
    )
    try:
        with transaction.atomic():
            sink.save(force_insert=True)
            append(actor=actor, action="audit.sink_added", subject=name, detail=detail)
            nudge()
    except IntegrityError as error:
        raise _invalid(name, phrase("a sink of this name exists")) from error
    return sink


def remove_sink(*, actor: str, name: str) -> int:
    """Remove a sink with its token. Return the last entry that the receiver has.

    Raises:
        Refused: there is no sink of this name (``audit.sink_not_found``).
    """
    with transaction.atomic():
        sink = _locked(name, phrase("Removing audit sink {name}", name=f"{name!r}"))
        AuditSink.objects.filter(pk=sink.pk).delete()
        detail = {"address": sink.address, "sent": sink.sent_sequence, "dropped": sink.dropped}
        append(actor=actor, action="audit.sink_removed", subject=name, detail=detail)
    return sink.sent_sequence


def test_sink(*, actor: str, name: str) -> AuditEntry:
    """Write an entry, and have workers send all that the sink lacks now, also after a failure. The test is over when it has the entry.

    Raises:
        Refused: there is no sink of this name (``audit.sink_not_found``).
    """
    with transaction.atomic():
        # The sink's row is locked before the log's head, as by a worker.
        sink = _locked(name, phrase("Testing audit sink {name}", name=f"{name!r}"))
        entry = append(actor=actor, action="audit.sink_tested", subject=name, detail={"address": sink.address})
        AuditSink.objects.filter(pk=sink.pk).update(tested_sequence=entry.sequence, next_try_at=clock.now())
        nudge()
    return entry


def _locked(name: str, operation: str) -> AuditSink:
    sink = AuditSink.objects.select_for_update().defer("token").filter(name=name).first()
    if sink is None:
        raise Refused(
            "audit.sink_not_found",
            operation,
            cause=phrase("there is no sink of this name"),
        )
    return sink


def _check(sink: AuditSink, head: int) -> None:
    with refusing(partial(_invalid, sink.name)):
        check_values(sink, {"name", "address"})
        address = read_address(sink.address)
    if sink.ca and not address.is_encrypted:
        raise _invalid(sink.name, phrase("a CA needs syslog+tls:// or https://"))
    if is_set(sink, "token") and not address.is_http:
        raise _invalid(sink.name, phrase("a token needs https://"))
    if not 0 <= sink.sent_sequence <= head:
        raise _invalid(sink.name, phrase("the log has entries 1 to {head}", head=head))


def _invalid(name: str, found: str) -> Refused:
    return Refused.unchanged("audit.sink_invalid", phrase("Adding audit sink {name}", name=f"{name!r}"), found)
