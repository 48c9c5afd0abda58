"""The bars at the top of every page that report a missing worker, beat or Redis.

They are judged at most once in ``FRESH_SECONDS`` for each web process, by one query and one request to Redis, for any number of
users. Users without login or access see none.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import RemoteFailure
from dbops.queries.admin.configuration import pulses
from dbops.web.templatetags.dbops import duration

FRESH_SECONDS = 5.0
SILENT_SECONDS = 40.0
#: A fresh installation's first tick may come this long after the web process.
GRACE_SECONDS = 60.0
REDIS_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True)
class StatusBar:
    """One missing process: its error, and since when it is missing."""

    error: RemoteFailure
    since: datetime

    @property
    def key(self) -> str:
        return f"{self.error.code}@{self.since.timestamp():.0f}"


def judge(
    reported: dict[str, datetime], *, now: datetime, web_since: datetime, redis_away_since: datetime | None
) -> list[StatusBar]:
    """Return the bars to show, a cause before its effects.

    Args:
        reported: the last sign of life by process, ``queries.admin.configuration.pulses``.
        web_since: start of this web process: a process that never reported is missed from then on, after ``GRACE_SECONDS``.
        redis_away_since: ``None`` while Redis answers. Without Redis workers get no tasks, so their silence is expected.
    """
    if redis_away_since is not None:
        return [StatusBar(_redis_away(), redis_away_since)]
    for name, error in (("beat", _beat_away), ("worker", _worker_away)):
        since = reported.get(name, web_since)
        patience = SILENT_SECONDS if name in reported else GRACE_SECONDS
        if now - since > timedelta(seconds=patience):
            # Without beat a live worker has nothing to do and nothing to report: one bar, not two.
            return [StatusBar(error(), since)]
    return []


def _redis_away() -> RemoteFailure:
    return _away("redis.away", "Sending messages between dbops processes", "Redis is unreachable")


def _worker_away() -> RemoteFailure:
    return _away("worker.away", "Running jobs and starting queued jobs", "No worker has reported")


def _beat_away() -> RemoteFailure:
    return _away("beat.away", "Triggering due work every two seconds", "Beat has not ticked")


def _away(code: str, operation: str, found: str) -> RemoteFailure:
    return RemoteFailure(code, operation, cause=found, state=f"{CATALOGUE[code].state} {_guard_limits()}")


def _guard_limits() -> str:
    """Return when the guard on a source ends a copy without a worker (``GUARD_...``)."""
    patiences = (settings.GUARD_IDLE_SECONDS, settings.GUARD_HEARTBEAT_SECONDS)
    idle, paused = (duration(seconds).removesuffix(" 00 s") for seconds in patiences)
    return (
        f"A copy that still reads its source is stopped after {idle} without a worker, "
        f"or after {paused} if replication was paused for it."
    )


class ProcessStatus:
    """The state of the other processes, refreshed at most once in ``FRESH_SECONDS``."""

    def __init__(
        self,
        *,
        read: Callable[[], dict[str, datetime]] = pulses,
        redis_answers: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.read, self.redis_answers, self.clock = read, redis_answers or ask_redis, clock
        self.web_since = timezone.now()
        self.redis_away_since: datetime | None = None
        self.asking = threading.Lock()
        self.asked_at = float("-inf")
        self.found: list[StatusBar] = []

    @property
    def is_fresh(self) -> bool:
        return self.clock() - self.asked_at < FRESH_SECONDS

    def bars(self) -> list[StatusBar]:
        """Return the bars. One caller refreshes them; others get the previous ones. The sample has none."""
        if settings.SAMPLE:
            return []
        if not self.is_fresh and self.asking.acquire(blocking=False):
            try:
                self._ask()
            finally:
                self.asking.release()
        return self.found

    def _ask(self) -> None:
        self.asked_at, now = self.clock(), timezone.now()
        if self.redis_answers():
            self.redis_away_since = None
        elif self.redis_away_since is None:
            self.redis_away_since = now
        reported = self.read()
        self.found = judge(reported, now=now, web_since=self.web_since, redis_away_since=self.redis_away_since)


_client: redis.Redis | None = None


def ask_redis() -> bool:
    global _client
    if _client is None:
        patience = {"socket_timeout": REDIS_PATIENCE_SECONDS, "socket_connect_timeout": REDIS_PATIENCE_SECONDS}
        _client = redis.Redis.from_url(settings.REDIS_URL, **patience)
    try:
        return bool(_client.ping())
    except (redis.RedisError, OSError):
        return False


current = ProcessStatus()


def bars(request: HttpRequest) -> dict[str, Any]:
    """Context processor: ``bars`` and their ``bars_key``, evaluated when a template shows them to a user with access."""
    find = current.bars if getattr(request, "may_view", False) else list  # web.decorators has checked the access
    return {"bars": find, "bars_key": lambda: key(find())}


def key(found: list[StatusBar]) -> str:
    """Return the key that a page with these bars sends; with the same key there is nothing to send."""
    return ",".join(bar.key for bar in found)


def rendered() -> tuple[str, str]:
    """Return the bars' key and the bars for the live stream, the same for every user."""
    found = current.bars()
    return key(found), render_to_string("includes/_bars.html", {"bars": found, "bars_key": key(found)})
