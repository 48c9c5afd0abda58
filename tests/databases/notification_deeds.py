"""Commands for the processes of the races, for notifications."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils import timezone

from dbops.engine.states import RunStatus
from dbops.models import (
    NotificationChannel,
    NotificationDelivery,
    NotificationEvent,
    NotificationWatch,
    ProcessHeartbeat,
    Rebuild,
)
from dbops.worker.notification_sender import send_due
from dbops.worker.notification_watch import watch
from tests.app import factories
from tests.app.backup_rows import make_run, make_schedule
from tests.app.notifications import rows
from tests.databases.deeds import empty


def listen(address: str) -> None:
    """Send missed backups to a receiver."""
    for model in (NotificationEvent, NotificationChannel, NotificationWatch, ProcessHeartbeat):
        model.objects.all().delete()
    empty()
    allow()
    rows.channel(address)
    rows.rule(events=["backup.missed", "rebuild.failed"])
    watch()


def allow() -> None:
    settings.NOTIFICATION_NETWORKS = ["127.0.0.0/8"]


def miss(name: str) -> None:
    """Miss the backups of a new cluster, and fail a rebuild."""
    trio = factories.make_trio(name)
    make_run(make_schedule(trio[1], name), RunStatus.MISSED, started_at=None, finished_at=timezone.now())
    factories.make_rebuild(target=trio[2], source=trio[1], status="failed")  # type: ignore[arg-type]


def watch_and_send() -> tuple[bool, int]:
    """Do what the tasks do, with receivers on this machine."""
    allow()
    return watch(), send_due(seconds=30)


def notified() -> dict[str, Any]:
    wanted = NotificationEvent.objects.filter(kind__in=("backup.missed", "rebuild.failed"))
    return {
        "events": wanted.count(),
        "sent": NotificationDelivery.objects.filter(status="sent").count(),
        "deliveries": NotificationDelivery.objects.count(),
        "rebuilds": Rebuild.objects.count(),
    }


DEEDS: dict[str, Callable[..., Any]] = {
    "listen": listen,
    "allow": allow,
    "miss": miss,
    "watch_and_send": watch_and_send,
    "notified": notified,
}
