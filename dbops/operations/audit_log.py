"""Verify and export the audit log, and record both in it."""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping

from django.db import DatabaseError, transaction
from django.db.models import Count, Exists, Max, Min, OuterRef

from dbops.audit.log import HEAD_MISMATCH, SYSTEM, append, current_anchor, current_head
from dbops.audit.triggers import missing_triggers
from dbops.engine.audit.chain import ChainFinding, ChainHead, Tampering, Verification, covered
from dbops.engine.phrases import phrase
from dbops.models import AuditEntry, AuditSegment, AuditText, Rebuild
from dbops.operations.audit import record_export
from dbops.security.redaction import cell

FORMATS = ("jsonl", "csv")
COLUMNS = (
    *("sequence", "at", "actor", "action", "subject", "instance", "cluster", "outcome", "reason", "address", "request"),
    *("detail", "previous", "hash"),
)


def verify_log(
    rows: Iterable[AuditEntry], *, actor: str, witnesses: Mapping[int, str] | None = None
) -> tuple[list[ChainFinding], ChainHead, int]:
    """Verify the whole log and record the result as its next entry.

    Args:
        rows: all rows as stored, from ``queries.audit.log.stored``, read lazily.
        witnesses: exported heads, hash by number.

    Returns:
        The findings, the verified head, and the number of entries.
    """
    with transaction.atomic():
        # Read before the entries: later entries come after this head.
        head, anchor = current_head(), current_anchor()
    run = Verification(start=anchor, witnesses=witnesses or {})
    for row in rows:
        if row.sequence > head.sequence and current_head().sequence >= row.sequence:
            break
        run.see(row.link)
    # Entries that were archived during this verification are not missing.
    newer = current_anchor()
    archived = newer.sequence if newer != anchor else 0
    found = [item for item in run.end(head) if item.kind is not Tampering.REMOVED or item.last > archived]
    findings = [*_unrecorded(), *found, *_mismatches(), *_without_entry(run.head), *_unguarded()]
    try:
        append(
            actor=actor,
            action="audit.verified",
            subject="audit log",
            outcome="failed" if findings else "",
            detail={"entries": run.count, "head": str(head), "findings": [str(item) for item in findings[:20]]},
        )
    except DatabaseError as error:
        text = phrase("the result of this verification was not recorded: {error}", error=error)
        findings.append(ChainFinding(Tampering.UNWRITABLE, head.sequence + 1, head.sequence + 1, text))
    return findings, head, run.count


def _mismatches() -> list[ChainFinding]:
    """Return the entries that bridge a head that was set back or removed."""
    entries = AuditEntry.objects.filter(action=HEAD_MISMATCH, actor=SYSTEM).order_by("sequence")
    return [
        ChainFinding(
            Tampering.REMOVED,
            entry.sequence,
            entry.sequence,
            f"entry {entry.sequence} records that the head was {entry.detail.get('head')} although number"
            f" {entry.detail.get('highest_number')} was in use: the head was set back or removed",
        )
        for entry in entries
    ]


def _without_entry(end: ChainHead) -> list[ChainFinding]:
    """Return search texts after the last entry that have none: somebody removed entries and set the head back."""
    entry = AuditEntry.objects.filter(sequence=OuterRef("sequence"))
    texts = AuditText.objects.filter(~Exists(entry), sequence__gt=end.sequence)
    ends = texts.aggregate(first=Min("sequence"), last=Max("sequence"), count=Count("sequence"))
    if not ends["count"]:
        return []
    text = phrase(
        "{count} search texts between {first} and {last} have no entry: the entries were removed",
        count=ends["count"],
        first=ends["first"],
        last=ends["last"],
    )
    return [ChainFinding(Tampering.REMOVED, ends["first"], ends["last"], text)]


def _unrecorded() -> list[ChainFinding]:
    """Return segments without an ``audit.archived`` entry or with holes between them: signs of manual removal."""
    segments = list(AuditSegment.objects.order_by("last"))
    findings, before = [], ChainHead()
    for segment in segments:
        if (segment.first, segment.previous) != (before.sequence + 1, before.hash):
            text = phrase(
                "segment {first} to {last} does not follow entry {sequence}",
                first=segment.first,
                last=segment.last,
                sequence=before.sequence,
            )
            findings.append(ChainFinding(Tampering.REMOVED, segment.first, segment.last, text))
        before = segment.anchor
    if segments and not _is_recorded(segments[-1]):
        first, last = segments[-1].first, segments[-1].last
        text = phrase(
            "entries {first} to {last} were removed, but no entry records their archive", first=first, last=last
        )
        findings.append(ChainFinding(Tampering.REMOVED, first, last, text))
    return findings


def _is_recorded(segment: AuditSegment) -> bool:
    """Return whether the ``audit.archived`` entry of a segment exists.

    It is newer than the segment, so it is still in the log.
    """
    candidates = AuditEntry.objects.filter(action="audit.archived", sequence__gt=segment.last)
    wanted = (segment.first, segment.last, segment.hash, segment.file_hash)
    return any(
        tuple(entry.detail.get(key) for key in ("first", "last", "hash", "file_hash")) == wanted for entry in candidates
    )


def _unguarded() -> list[ChainFinding]:
    """Return the missing triggers. The entries may still be unchanged."""
    return [
        ChainFinding(Tampering.UNGUARDED, 0, 0, f"the trigger that refuses {event.upper()} of {table} is missing")
        for table, event in missing_triggers()
    ]


def export_log(entries: Iterable[AuditEntry], kind: str, *, actor: str, wanted: Mapping[str, str]) -> Iterator[str]:
    """Record an export in the log, and return its lines.

    Args:
        entries: the matching entries, from ``queries.audit.log.every``.
        wanted: the filter as text.
        kind: one of ``FORMATS``.
    """
    append(actor=actor, action="audit.exported", subject="audit log", detail={"format": kind, "filter": dict(wanted)})
    rows = ({**covered(entry.link), "hash": entry.hash} for entry in entries)
    return _csv(rows) if kind == "csv" else _json_lines(rows)


def _json_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True) + "\n"


def _csv(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for row in rows:
        detail = json.dumps(row["detail"], sort_keys=True, ensure_ascii=False)
        writer.writerow([cell(detail if name == "detail" else row[name]) for name in COLUMNS])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def take_evidence(html: str, rebuild: Rebuild, *, actor: str, path: str) -> None:
    """Record an export of a rebuild's evidence, with the hash of the file."""
    record_export(
        actor,
        f"evidence of rebuild {rebuild.pk}",
        instance=rebuild.target.name,
        rebuild=rebuild.pk,
        path=path,
        sha256=hashlib.sha256(html.encode()).hexdigest(),
    )
