"""Putting the oldest part of the audit log away: into a file, and then out of the database. The rest of the chain stays verifiable."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.db import IntegrityError, transaction
from django.utils import timezone

from dbops.audit.log import append, current_anchor
from dbops.engine.audit.chain import Head, Link, Verification, covered, read_link
from dbops.engine.audit.search_index import block_of
from dbops.engine.errors import Refused
from dbops.models import AuditBlock, AuditEntry, AuditSegment, AuditText

#: What is younger stays: whoever looks into something that happened lately finds it in the log itself.
YOUNGEST = timedelta(days=90)
BATCH = 2000
DOING = "Putting entries of the audit log away"


def put_away(*, actor: str, before: datetime, folder: Path) -> AuditSegment:
    """Write the entries up to a time into a new file, read it back and verify it, and only then remove them.

    Whole entries from the oldest on; the file is an export as ``manage.py audit export`` writes it, so that all files and an
    export one after the other are the whole log. Where it stops half-way the entries are still there, and the file is begun anew under
    the same name the next time.

    Args:
        before: entries from the first on that is not older stay.
        folder: is there, and belongs to the machine or the mount on which the file is kept.

    Raises:
        Refused: it is too young (``audit.too_young``), there is nothing (``audit.nothing_to_put_away``), the entries are not as
            they were written (``audit.not_as_written``), or the file is not to be had (``audit.file``).
    """
    if timezone.now() - before < YOUNGEST:
        found = f"{before:%Y-%m-%d} is less than {YOUNGEST.days} days ago"
        raise Refused.unchanged("audit.too_young", DOING, found, "Give an earlier day.")
    anchor = current_anchor()
    last = _last_before(before, anchor)
    if last is None:
        raise Refused.unchanged(
            "audit.nothing_to_put_away", DOING, f"no entry is older than {before:%Y-%m-%d}", "Nothing is to be done."
        )
    path = folder / f"audit-{anchor.sequence + 1:09}-{last:09}.jsonl"
    try:
        head, file_hash = _written(path, anchor, last)
        _hold_against(path, anchor, head)
    except OSError as error:
        raise Refused.unchanged(
            "audit.file", DOING, f"{path}: {error.strerror or error}", "Mend that, and do it again."
        ) from None
    try:
        return _remove(actor, anchor, head, path, file_hash)
    except IntegrityError:
        found = f"entry {anchor.sequence + 1} was put away a moment ago"
        raise Refused.unchanged("audit.nothing_to_put_away", DOING, found, "Look at the audit log.") from None


def _last_before(before: datetime, anchor: Head) -> int | None:
    """Return the last entry before the first that is not older: a clock that stepped back takes nothing away."""
    entries = AuditEntry.objects.filter(sequence__gt=anchor.sequence).order_by("sequence")
    first_kept = entries.filter(at__gte=before).values_list("sequence", flat=True).first()
    older = entries.filter(sequence__lt=first_kept) if first_kept else entries
    return older.values_list("sequence", flat=True).last()


def _links(anchor: Head, last: int) -> Iterator[Link]:
    done = anchor.sequence
    while rows := list(AuditEntry.objects.filter(sequence__gt=done, sequence__lte=last).order_by("sequence")[:BATCH]):
        yield from (row.link for row in rows)
        done = rows[-1].sequence


def _written(path: Path, anchor: Head, last: int) -> tuple[Head, str]:
    """Write the file whole or not at all. Return the segment's end and the file's SHA-256."""
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
        told = "; ".join(str(item) for item in findings[:3])
        raise Refused.unchanged(
            "audit.not_as_written", DOING, told, "Keep everything as it is, and look at manage.py audit verify."
        )
    os.replace(draft, path)
    return run.head, digest.hexdigest()


def _hold_against(path: Path, anchor: Head, head: Head) -> None:
    """Read the file back from where it lies: what leaves the database must be there, whole and verifiable."""
    run = Verification(start=anchor)
    with path.open(encoding="utf-8") as file:
        for link in _read(file):
            run.see(link)
    if run.end() or run.head != head:
        raise Refused.unchanged("audit.file", DOING, f"{path} does not hold what was written", "Use another folder.")


def _read(lines: Iterable[str]) -> Iterator[Link]:
    yield from (read_link(json.loads(line)) for line in lines)


def _remove(actor: str, anchor: Head, head: Head, path: Path, file_hash: str) -> AuditSegment:
    with transaction.atomic():
        segment = AuditSegment.objects.create(
            first=anchor.sequence + 1,
            last=head.sequence,
            previous=anchor.hash,
            hash=head.hash,
            file_name=path.name,
            file_hash=file_hash,
            at=timezone.now(),
        )
        # The segment comes first: the database refuses to remove what none has, and of two at once one finds its number taken.
        AuditText.objects.filter(sequence__lte=head.sequence).delete()
        AuditBlock.objects.filter(number__lt=block_of(head.sequence + 1)).delete()
        AuditEntry.objects.filter(sequence__lte=head.sequence).delete()
        append(
            actor=actor,
            action="audit.put_away",
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
