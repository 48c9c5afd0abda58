"""One line of the history of a rebuild or a backup run, and the hint that there is news."""

from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from dbops.engine.states import Level
from dbops.messaging import updates
from dbops.models import BackupEvent, BackupProof, BackupRun, Event, Rebuild
from dbops.security.redaction import clean


def tell(row: Rebuild | BackupRun | BackupProof, text: str, *, level: Level = Level.INFO) -> None:
    """Add one line to the history of a row. A proof has none of its own: it is told in that of the run that it proves."""
    now, text = timezone.now(), clean(text)
    if isinstance(row, Rebuild):
        Event.objects.create(rebuild=row, at=now, level=level, text=text)
        return
    run_id = row.run_id if isinstance(row, BackupProof) else row.pk
    BackupEvent.objects.create(run_id=run_id, at=now, level=level, text=text)


def tell_many(model: type[Rebuild] | type[BackupRun], lines: Mapping[int, str]) -> None:
    """Add one line to the history of each of many rows, given by primary key."""
    now = timezone.now()
    if model is Rebuild:
        Event.objects.bulk_create(
            Event(rebuild_id=pk, at=now, level=Level.INFO, text=clean(text)) for pk, text in lines.items()
        )
    else:
        BackupEvent.objects.bulk_create(
            BackupEvent(run_id=pk, at=now, level=Level.INFO, text=clean(text)) for pk, text in lines.items()
        )


def last_line(row: Rebuild | BackupRun | BackupProof) -> str | None:
    told = row.run if isinstance(row, BackupProof) else row
    return told.events.order_by("-pk").values_list("text", flat=True).first()


def news_of(row: Rebuild | BackupRun | BackupProof) -> None:
    """Hint at news. The page of a backup run polls: it needs no hint, but another revision where only its proof has changed."""
    if isinstance(row, Rebuild):
        announce_later(row.pk)
    elif isinstance(row, BackupProof):
        BackupRun.objects.filter(pk=row.run_id).update(revision=F("revision") + 1)


def announce_later(rebuild_id: int) -> None:
    def publish() -> None:
        revision = Rebuild.objects.values_list("revision", flat=True).filter(pk=rebuild_id).first()
        updates.announce(rebuild_id, revision or 0)

    transaction.on_commit(publish)


def announce_many_later(revisions: Iterable[tuple[int, int]]) -> None:
    """Hint at news of many rebuilds, given as (id, revision)."""
    known = list(revisions)
    transaction.on_commit(lambda: updates.announce_many(known))
