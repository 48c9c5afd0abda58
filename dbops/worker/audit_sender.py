"""Send new audit entries to the sinks, in order and in batches. No operation waits for it."""

import logging
import socket
import time

from dbops.audit.log import current_head
from dbops.drivers.siem import deliver
from dbops.engine.audit.chain import ChainEntry, canonical
from dbops.engine.audit.sinks import read_address
from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.phrases import phrase
from dbops.lifecycle import audit_sinks
from dbops.models import AuditEntry, AuditSink

log = logging.getLogger(__name__)
#: Most entries and bytes of one delivery; one entry is always sent.
MOST_ENTRIES, MOST_BYTES = 200, 500_000


def send_new(sink_id: int, *, seconds: float) -> int:
    """Send what a sink lacks, for about ``seconds``. Return the number of sent entries.

    The cursor moves after the receiver has a batch. A worker that dies between the two sends the batch again: an entry
    can arrive twice, and none is left out.
    """
    sink = audit_sinks.claim(sink_id)
    if sink is None:
        return 0
    until, sent = time.monotonic() + seconds, 0
    try:
        while batch := _next_batch(sink):
            _deliver(sink, batch)
            if not audit_sinks.mark_sent(sink, batch[-1].sequence):
                break
            sent += len(batch)
            if time.monotonic() > until:
                break
    except DbopsError as error:
        log.warning("audit sink %s: %s", sink.name, error)
        audit_sinks.mark_failed(sink, error)
    except Exception as error:  # also the end of the task's time: looking up a name can take long
        cause = phrase("the delivery was ended ({name})", name=type(error).__name__)
        audit_sinks.mark_failed(
            sink, Unreachable("audit.sink_unreachable", phrase("Sending audit entries"), cause=cause)
        )
        raise
    finally:
        audit_sinks.release(sink)
    return sent


def _deliver(sink: AuditSink, batch: list[ChainEntry]) -> None:
    deliver(batch, read_address(sink.address), ca=sink.ca, token=sink.token, host=socket.gethostname())


def _next_batch(sink: AuditSink) -> list[ChainEntry]:
    """Return the next entries without a gap between them; empty if the sink has all, or another worker has the sink."""
    rows = AuditEntry.objects.filter(sequence__gt=sink.sent_sequence, sequence__lte=current_head().sequence)
    batch: list[ChainEntry] = []
    size = 0
    for row in rows.order_by("sequence")[:MOST_ENTRIES]:
        entry = row.link
        first = sink.sent_sequence + 1
        if not batch and entry.sequence > first and not audit_sinks.skip(sink, first, entry.sequence - 1):
            return []
        size += len(canonical(entry))
        if batch and (entry.sequence != batch[-1].sequence + 1 or size > MOST_BYTES):
            break
        batch.append(entry)
    return batch
