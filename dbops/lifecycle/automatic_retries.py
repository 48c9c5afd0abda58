"""That a branch is to be rebuilt once more by itself is a moment in its own row: set with its end, and taken away by whoever does it."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from dbops.database.errors import locked
from dbops.engine.rebuilds.automatic_retry import ended_on_the_way
from dbops.engine.states import Level, Status, StepState
from dbops.lifecycle.events import announce_later, tell
from dbops.models import Rebuild

#: Between two looks whether it can be planned yet.
LOOK_SECONDS = 10


def note_retry(rebuild: Rebuild, status: Status) -> None:
    """Let one of a shared read be rebuilt once more where its end was one on the way. In the transaction that ends it.

    Never what follows another one: what was done by itself is not done by itself again, also where a person let it join a read.
    """
    if not settings.FAN_OUT_RETRY or status is not Status.FAILED or not ended_on_the_way(rebuild.error):
        return
    if (
        rebuild.reads_with_id is None
        and not Rebuild.objects.filter(reads_with=rebuild.pk, started_at__isnull=False).exists()
    ):
        return  # it read alone
    if rebuild.steps.filter(name="stream", state=StepState.DONE).exists():
        return  # its copy was whole: what failed came after the read
    ended = locked(Rebuild, rebuild.pk).filter(status=Status.FAILED, cancel_requested_at=None, follows=None)
    if ended.update(retry_due_at=timezone.now()):
        text = f"{rebuild.target.name} is rebuilt once more by itself, alone, if another one of the same read gets its copy."
        tell(rebuild, text)


def retries_due(now: datetime) -> list[int]:
    """Return the ids of the ended rebuilds that are to be looked at. One query."""
    return list(Rebuild.objects.filter(retry_due_at__lte=now).order_by("pk").values_list("pk", flat=True))


def claim_retry(rebuild_id: int, now: datetime) -> Rebuild | None:
    """Return the rebuild for one look, ``None`` where another process looks at it or it is over. The next look comes in 10 s."""
    with transaction.atomic():
        due = locked(Rebuild, rebuild_id).filter(retry_due_at__lte=now)
        if not due.update(retry_due_at=now + timedelta(seconds=LOOK_SECONDS)):
            return None
    found = Rebuild.objects.select_related("target__cluster", "target__state", "source__state", "requested_by")
    return found.get(pk=rebuild_id)


def end_retry(rebuild: Rebuild) -> bool:
    """Take the wish away, in the transaction that does it or gives it up. Return whether it was there: of two, one does."""
    still = locked(Rebuild, rebuild.pk).filter(retry_due_at__isnull=False)
    return bool(still.update(retry_due_at=None, revision=F("revision") + 1))


def tell_retry(rebuild: Rebuild, text: str, *, level: Level = Level.INFO, once_for: str = "") -> None:
    """Say in the history of a rebuild that has ended what becomes of it. ``once_for``: how what is told once only begins."""
    with transaction.atomic():
        if once_for and rebuild.events.filter(text__startswith=once_for).exists():
            return
        Rebuild.objects.filter(pk=rebuild.pk).update(revision=F("revision") + 1)
        tell(rebuild, text, level=level)
    announce_later(rebuild.pk)
