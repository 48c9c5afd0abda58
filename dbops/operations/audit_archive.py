"""Archive the oldest audit entries: write them to a verified file, then remove them from the database."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.db import IntegrityError, transaction

from dbops.audit.log import append, current_anchor
from dbops.database import clock
from dbops.engine.audit.chain import ChainEntry, ChainHead, Verification, covered, read_link
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import AuditEntry, AuditSegment, AuditText

#: More recent entries stay in the log.
MIN_AGE = timedelta(days=90)
BATCH = 2000
OPERATION = phrase("Archiving audit entries")


def archive_entries(*, actor: str, before: datetime, folder: Path) -> AuditSegment:
    """Write the oldest entries to a new file, read it back and verify it, then remove them from the database.

    The file has the format of ``manage.py audit export``: all files and an export, concatenated, are the whole log.
    After an interruption the entries are still in the database; the next call writes the same file again.

    Args:
        before: the first entry at or after this time, and all later entries, stay.
        folder: an existing folder on the machine or mount that keeps the file.

    Raises:
        Refused: the time is too recent (``audit.too_recent``), no entry is older (``audit.nothing_to_archive``), the entries
            were changed (``audit.not_as_written``), or the file cannot be written or verified (``audit.file``).
    """
    if clock.now() - before < MIN_AGE:
        found = phrase("{before} is less than {days} days ago", before=f"{before:%Y-%m-%d}", days=MIN_AGE.days)
        raise _refused("audit.too_recent", found)
    anchor = current_anchor()
    last = _last_before(before, anchor)
    if last is None:
        raise _refused(
            "audit.nothing_to_archive", phrase("no entry is older than {before}", before=f"{before:%Y-%m-%d}")
        )
    path = folder / f"audit-{anchor.sequence + 1:09}-{last:09}.jsonl"
    try:
        head, file_hash = _written(path, anchor, last)
        _verify_file(path, anchor, head)
    except OSError as error:
        raise _refused("audit.file", f"{path}: {error.strerror or error}") from None
    try:
        return _remove(actor, anchor, head, path, file_hash)
    except IntegrityError:
        found = phrase("another process has just archived entry {sequence}", sequence=anchor.sequence + 1)
        raise _refused("audit.nothing_to_archive", found) from None


def _last_before(before: datetime, anchor: ChainHead) -> int | None:
    """Return the last entry before the first one that stays. After a clock step back, more entries stay."""
    entries = AuditEntry.objects.filter(sequence__gt=anchor.sequence).order_by("sequence")
    first_kept = entries.filter(at__gte=before).values_list("sequence", flat=True).first()
    older = entries.filter(sequence__lt=first_kept) if first_kept else entries
    return older.values_list("sequence", flat=True).last()


def _links(anchor: ChainHead, last: int) -> Iterator[ChainEntry]:
    done = anchor.sequence
    while rows := list(AuditEntry.objects.filter(sequence__gt=done, sequence__lte=last).order_by("sequence")[:BATCH]):
        yield from (row.link for row in rows)
        done = rows[-1].sequence


def _written(path: Path, anchor: ChainHead, last: int) -> tuple[ChainHead, str]:
    """Write the complete file or none. Return the segment's end and the file's SHA-256."""
    run, digest, draft = Verification(start=anchor), hashlib.sha256(), path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        for link in _links(anchor, last):
            run.see(link)
            line = json.dumps({**covered(link), "hash": link.hash}, sort_keys=True, separators=(",", ":")) + "\n"
            digest.update(line.encode())
            file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    if findings := run.end():
        draft.unlink()
        found = "; ".join(str(item) for item in findings[:3])
        raise _refused("audit.not_as_written", found)
    os.replace(draft, path)
    return run.head, digest.hexdigest()


def _verify_file(path: Path, anchor: ChainHead, head: ChainHead) -> None:
    """Read the file back and check that it has every removed entry."""
    run = Verification(start=anchor)
    with path.open(encoding="utf-8") as file:
        for link in _read(file):
            run.see(link)
    if run.end() or run.head != head:
        raise _refused("audit.file", phrase("{path} does not contain what dbops wrote", path=path))


def _read(lines: Iterable[str]) -> Iterator[ChainEntry]:
    yield from (read_link(json.loads(line)) for line in lines)


def _remove(actor: str, anchor: ChainHead, head: ChainHead, path: Path, file_hash: str) -> AuditSegment:
    with transaction.atomic():
        segment = AuditSegment.objects.create(
            first=anchor.sequence + 1,
            last=head.sequence,
            previous=anchor.hash,
            hash=head.hash,
            file_name=path.name,
            file_hash=file_hash,
            at=clock.now(),
        )
        # Segment first: the triggers refuse removals without one, and a concurrent archive fails on its number.
        AuditText.objects.filter(sequence__lte=head.sequence).delete()
        AuditEntry.objects.filter(sequence__lte=head.sequence).delete()
        append(
            actor=actor,
            action="audit.archived",
            subject="audit log",
            detail={
                "first": segment.first,
                "last": segment.last,
                "previous": segment.previous,
                "hash": segment.hash,
                "file": segment.file_name,
                "file_hash": file_hash,
            },
        )
    return segment


def _refused(code: str, found: str) -> Refused:
    return Refused(code, OPERATION, cause=found)
