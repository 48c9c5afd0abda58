"""The bars at the top of every page that report a missing worker, beat or Redis, and a clock that was set back.

They are judged at most once in ``FRESH_SECONDS`` for each web process, by two queries and one request to Redis, for any number of
users. Users without login or access see none.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.http import HttpRequest
from django.template.loader import render_to_string

from dbops.database import clock
from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.age import age_seconds
from dbops.engine.phrases import Phrase, phrase
from dbops.lifecycle import clock_steps
from dbops.messaging.redis_server import connect
from dbops.models import ClockStep
from dbops.queries.admin.configuration import pulses
from dbops.web.figures import duration_phrase, round_duration_phrase

FRESH_SECONDS = 5.0
SILENT_SECONDS = 40.0
#: A fresh installation's first tick may come this long after the web process.
GRACE_SECONDS = 60.0
REDIS_PATIENCE_SECONDS = 0.5
#: A key that is written to find out whether Redis takes writes.
TRIED_KEY = "dbops:tried"
LONGEST_REASON = 120


@dataclass(frozen=True)
class StatusBar:
    """What keeps dbops from working: its error, and since when."""

    error: RemoteFailure
    since: datetime

    @property
    def key(self) -> str:
        return f"{self.error.code}@{self.since.timestamp():.0f}"


def judge(
    reported: dict[str, datetime],
    *,
    now: datetime,
    web_since: datetime,
    redis_problem: tuple[RemoteFailure, datetime] | None,
    step: ClockStep | None = None,
) -> list[StatusBar]:
    """Return the bars to show, a cause before its effects.

    Args:
        reported: the last sign of life by process, ``queries.admin.configuration.pulses``.
        web_since: start of this web process: a process that never reported is missed from then on, after ``GRACE_SECONDS``.
        redis_problem: why Redis is of no use, and since when. Then workers get no tasks, so their silence is expected.
        step: a step back of the clock, while facts of the future are left.
    """
    found = [StatusBar(_stepped_back(step), step.at)] if step else []
    if redis_problem is not None:
        return [*found, StatusBar(*redis_problem)]
    for name, error in (("beat", _beat_away), ("worker", _worker_away)):
        since = reported.get(name, web_since)
        patience = SILENT_SECONDS if name in reported else GRACE_SECONDS
        age = age_seconds(since, now)
        if age is not None and age > patience:
            # Without beat a live worker has nothing to do and nothing to report: one bar, not two.
            return [*found, StatusBar(error(), since)]
    return found


def _stepped_back(step: ClockStep) -> RemoteFailure:
    return RemoteFailure(
        "clock.stepped",
        phrase("Comparing times"),
        cause=phrase("The clock is behind some facts by {duration}", duration=duration_phrase(-step.seconds)),
    )


def _redis_away() -> RemoteFailure:
    return _away("redis.away", phrase("Sending messages between dbops processes"), phrase("Redis is unreachable"))


def _redis_refuses(words: str) -> RemoteFailure:
    return _away(
        "redis.refuses",
        phrase("Sending messages between dbops processes"),
        phrase("Redis takes no writes ({words})", words=words),
    )


def _worker_away() -> RemoteFailure:
    return _away("worker.away", phrase("Running jobs and starting queued jobs"), phrase("No worker has reported"))


def _beat_away() -> RemoteFailure:
    return _away("beat.away", phrase("Triggering due work every two seconds"), phrase("Beat has not ticked"))


def _away(code: str, operation: str, found: str) -> RemoteFailure:
    return RemoteFailure(
        code,
        operation,
        cause=found,
        state=phrase("{state} {limits}", state=phrase(CATALOGUE[code].state), limits=_guard_limits()),
    )


def _guard_limits() -> Phrase:
    """Return when the guard on a source ends a copy without a worker (``GUARD_...``)."""
    return phrase(
        "A copy that still reads its source is stopped after {idle} without a worker, "
        "or after {paused} if replication was paused for it.",
        idle=round_duration_phrase(settings.GUARD_IDLE_SECONDS),
        paused=round_duration_phrase(settings.GUARD_HEARTBEAT_SECONDS),
    )


class ProcessStatus:
    """The state of the other processes, refreshed at most once in ``FRESH_SECONDS``."""

    def __init__(
        self,
        *,
        read: Callable[[], dict[str, datetime]] = pulses,
        ask_redis: Callable[[], RemoteFailure | None] | None = None,
        find_step: Callable[[datetime], ClockStep | None] = clock_steps.step_with_facts_left,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.read, self.ask_redis, self.monotonic = read, ask_redis or redis_problem, monotonic
        self.find_step = find_step
        #: Set at the first request: reading the database's clock when modules are imported would open a connection.
        self.web_since: datetime | None = None
        self.redis_problem: tuple[RemoteFailure, datetime] | None = None
        self.asking = threading.Lock()
        self.asked_at = float("-inf")
        self.found: list[StatusBar] = []

    @property
    def is_fresh(self) -> bool:
        return self.monotonic() - self.asked_at < FRESH_SECONDS

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
        self.asked_at, now = self.monotonic(), clock.now()
        self.web_since = self.web_since or now
        error = self.ask_redis()
        is_known = self.redis_problem is not None and error is not None and error.code == self.redis_problem[0].code
        if not is_known:
            self.redis_problem = (error, now) if error else None
        self.found = judge(
            self.read(),
            now=now,
            web_since=self.web_since,
            redis_problem=self.redis_problem,
            step=self.find_step(now),
        )


_client: redis.Redis | None = None


def redis_problem() -> RemoteFailure | None:
    """Return why Redis is of no use. A write is tried: a read-only replica and a full Redis answer a ping."""
    global _client
    if _client is None:
        patience = {"socket_timeout": REDIS_PATIENCE_SECONDS, "socket_connect_timeout": REDIS_PATIENCE_SECONDS}
        _client = connect(settings.REDIS_URL, **patience)
    try:
        _client.set(TRIED_KEY, "", ex=60)
    except redis.ResponseError as error:
        return _redis_refuses(str(error)[:LONGEST_REASON])
    except (redis.RedisError, OSError):
        return _redis_away()
    return None


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
