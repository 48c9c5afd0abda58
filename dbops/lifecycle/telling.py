"""One line of a rebuild's history, and the hint that there is news."""

from django.db import transaction
from django.utils import timezone

from dbops import announce
from dbops.cleaner import clean
from dbops.engine.states import Level
from dbops.models import Event, Rebuild


def tell(rebuild: Rebuild, text: str, *, level: Level = Level.INFO) -> None:
    Event.objects.create(rebuild=rebuild, at=timezone.now(), level=level, text=clean(text))


def announce_later(rebuild_id: int) -> None:
    def publish() -> None:
        revision = Rebuild.objects.values_list("revision", flat=True).filter(pk=rebuild_id).first()
        announce.announce(rebuild_id, revision or 0)

    transaction.on_commit(publish)
