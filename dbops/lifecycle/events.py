"""Add lines to the history of a rebuild or backup run, and announce updates."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

from django.db import transaction
from django.db.models import F

from dbops.database import clock
from dbops.engine.states import Level
from dbops.messaging import updates
from dbops.models import (
    BackupEvent,
    BackupRun,
    LoadTest,
    LoadTestEvent,
    Rebuild,
    RebuildEvent,
    RestoreTest,
    RowComparison,
)
from dbops.security.redaction import redact

LoggedRow: TypeAlias = Rebuild | BackupRun | RestoreTest | LoadTest | RowComparison
#: Rows of one detached job, and their lines.
RunRow: TypeAlias = BackupRun | RestoreTest | LoadTest
RunEvent: TypeAlias = BackupEvent | LoadTestEvent


def new_event(row: RunRow, text: str, *, level: Level = Level.INFO) -> RunEvent:
    """Return a line of a row's history, unsaved. The lines of a restore test are its backup run's."""
    now = clock.now()
    if isinstance(row, LoadTest):
        return LoadTestEvent(load_test_id=row.pk, at=now, level=level, text=text)
    run_id = row.run_id if isinstance(row, RestoreTest) else row.pk
    return BackupEvent(run_id=run_id, at=now, level=level, text=text)


def save_events(events: Iterable[RunEvent]) -> None:
    """Write lines of ``new_event`` in their order."""
    found = list(events)
    BackupEvent.objects.bulk_create(one for one in found if isinstance(one, BackupEvent))
    LoadTestEvent.objects.bulk_create(one for one in found if isinstance(one, LoadTestEvent))


def log_event(row: LoggedRow, text: str, *, level: Level = Level.INFO) -> None:
    """Add one line to the history of a row. The lines of a restore test are its backup run's, those of a row comparison its rebuild's."""
    now, text = clock.now(), redact(text)
    if isinstance(row, RowComparison):
        RebuildEvent.objects.create(rebuild_id=row.rebuild_id, at=now, level=level, text=text)
        return
    if isinstance(row, Rebuild):
        RebuildEvent.objects.create(rebuild=row, at=now, level=level, text=text)
        return
    new_event(row, text, level=level).save()


def log_events(model: type[Rebuild] | type[BackupRun], lines: Mapping[int, str]) -> None:
    """Add one line to the history of each of many rows, given by primary key."""
    now = clock.now()
    if model is Rebuild:
        RebuildEvent.objects.bulk_create(
            RebuildEvent(rebuild_id=pk, at=now, level=Level.INFO, text=redact(text)) for pk, text in lines.items()
        )
    else:
        BackupEvent.objects.bulk_create(
            BackupEvent(run_id=pk, at=now, level=Level.INFO, text=redact(text)) for pk, text in lines.items()
        )


def _owner(row: LoggedRow) -> Rebuild | BackupRun | LoadTest:
    """Return the row whose history has the lines of a row."""
    return row.run if isinstance(row, RestoreTest) else row.rebuild if isinstance(row, RowComparison) else row


def last_line(row: LoggedRow) -> str | None:
    return _owner(row).events.order_by("-pk").values_list("text", flat=True).first()


def was_logged(row: LoggedRow, text: str, since: datetime) -> bool:
    """Return whether the history of a row has a line with that text since a time."""
    return _owner(row).events.filter(at__gte=since, text__contains=redact(text)).exists()


def revision_update(row: LoggedRow) -> None:
    """Announce an update. The page of a backup run polls: it needs no announcement, but a new revision if only its restore test
    changed. So does the part of a page that shows a row comparison, which has its own revision.
    """
    if isinstance(row, Rebuild):
        announce_later(row.pk)
    elif isinstance(row, RestoreTest):
        BackupRun.objects.filter(pk=row.run_id).update(revision=F("revision") + 1)


def announce_later(rebuild_id: int) -> None:
    def publish() -> None:
        revision = Rebuild.objects.values_list("revision", flat=True).filter(pk=rebuild_id).first()
        updates.announce(rebuild_id, revision or 0)

    transaction.on_commit(publish)


def announce_many_later(revisions: Iterable[tuple[int, int]]) -> None:
    """Announce updates of many rebuilds, given as (id, revision)."""
    known = list(revisions)
    transaction.on_commit(lambda: updates.announce_many(known))
