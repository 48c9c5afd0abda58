"""Live updates of rebuild pages: one Server-Sent-Events connection per page, one Redis reader and one renderer for all of them.

A connection begins with a full snapshot from the table. After that the Redis stream announces *that* something changed, and the table
has the change: it is read and rendered once for each rebuild, language and process, for any number of viewers. Without viewers no task
runs. Without Redis the table's revision is polled every few seconds instead.
"""

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix
from django.utils import translation
from django.views.decorators.http import require_GET
from redis.exceptions import RedisError

from dbops.messaging.redis_server import connect_async
from dbops.messaging.updates import STREAM
from dbops.queries.rebuilds import log as rebuild_log
from dbops.queries.rebuilds import pages as queries
from dbops.security.permissions import may_view
from dbops.security.sessions import sessions_that_may_view
from dbops.web.live import fragments
from dbops.web.live import status_bars as bars
from dbops.web.live.entries import entries, number
from dbops.web.live.fragments import RenderedLine, Snapshot

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger(__name__)

RENDER_GAP_SECONDS = 0.5
# A page without messages for longer polls. A stream without news looks at its session this often.
KEEPALIVE_SECONDS = 4.0
RECHECK_SECONDS = 3.0
REDIS_RETRY_SECONDS = 2.0
REDIS_BLOCK_SECONDS = 5.0
LINES_KEPT = rebuild_log.LINES_SHOWN
# A connection ends after this; the browser opens the next one.
CONNECTION_SECONDS = 600.0
# How old the answer may be to which sessions may view. With the keep-alive and the page's poll after it, a page whose session
# has ended says so within 15 s.
SESSIONS_SECONDS = 4.0
RETRY_MILLISECONDS = 1000


@dataclass(eq=False)
class Watched:
    """One rebuild with viewers in one language: its newest rendered moment and the end of its log."""

    rebuild_id: int
    language: str = settings.LANGUAGE_CODE
    snapshot: Snapshot | None = None
    lines: deque[RenderedLine] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    is_cut: bool = False
    is_missing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    clients: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    @property
    def last_event(self) -> int:
        return self.lines[-1].event if self.lines else 0

    def wake_clients(self) -> None:
        """Wake each client. A slow one skips moments, never lines: it continues from its last line."""
        for client in self.clients:
            client.set()


@dataclass(slots=True)
class _Bars:
    """The bars of every page in one language: key and text, and the time of that answer."""

    rendered: tuple[str, str] | None = None
    at: float | None = None


class Hub:
    """State that the connections of one web process (one event loop) share."""

    def __init__(self) -> None:
        self.watched: dict[tuple[int, str], Watched] = {}
        self.reader: asyncio.Task[None] | None = None
        self.redis_answers = False
        self.bars: dict[str, _Bars] = {}
        self.bars_asked = asyncio.Lock()
        self.sessions: list[str] = []
        self.allowed: set[str] = set()
        self.allowed_at = 0.0
        self.sessions_asked = asyncio.Lock()

    async def current_bars(self, language: str) -> tuple[str, str] | None:
        """Return the key and the text of every page's bars: rendered once per interval, language and process.

        ``None`` until they are known. Pages that poll refresh the same status, so freshness alone does not mean that it is rendered.
        """
        status, known = bars.current, self.bars.setdefault(language, _Bars())
        if (known.at != status.asked_at or not status.is_fresh) and not self.bars_asked.locked():
            async with self.bars_asked:
                try:
                    known.rendered = await in_database(_in_language, language, bars.rendered)
                    known.at = status.asked_at
                except Exception:
                    log.exception("rendering the bars")  # retried later; the stream continues
        return known.rendered

    async def may_still_view(self, session: str) -> bool:
        """Return whether a session may still view rebuilds: checked once per interval and process, for all open streams together."""
        if time.monotonic() - self.allowed_at > SESSIONS_SECONDS and not self.sessions_asked.locked():
            async with self.sessions_asked:
                asked = set(self.sessions)
                try:
                    found = await in_database(sessions_that_may_view, asked)
                except Exception:
                    log.exception("checking sessions")  # retried later; no stream outlives its maximum age
                else:
                    # those that were opened during the query were checked a moment ago
                    self.allowed = found | (set(self.sessions) - asked)
                    self.allowed_at = time.monotonic()
        return session in self.allowed

    def join(self, rebuild_id: int, language: str) -> tuple[Watched, asyncio.Event]:
        """Start watching a rebuild. The table is read again even if it is already watched."""
        watched = self.watched.get((rebuild_id, language))
        if watched is None:
            watched = self.watched[rebuild_id, language] = Watched(rebuild_id, language)
            watched.task = _start(self._follow(watched))
        if self.reader is None or self.reader.done():
            self.reader = _start(self._read())
        client = asyncio.Event()
        watched.clients.add(client)
        watched.changed.set()
        return watched, client

    def leave(self, watched: Watched, client: asyncio.Event) -> None:
        """Stop watching. The last viewer ends the renderer; the last rebuild ends the reader."""
        watched.clients.discard(client)
        key = (watched.rebuild_id, watched.language)
        if not watched.clients and self.watched.get(key) is watched:
            del self.watched[key]
            if watched.task:
                watched.task.cancel()
        if not self.watched and self.reader:
            self.reader.cancel()
            self.reader = None

    async def _follow(self, watched: Watched) -> None:
        """Render a rebuild whenever it has changed, at most twice a second."""
        while True:
            try:
                await asyncio.wait_for(watched.changed.wait(), None if self.redis_answers else RECHECK_SECONDS)
            except TimeoutError:
                pass
            watched.changed.clear()
            try:
                changed = await in_database(_in_language, watched.language, _refresh, watched)
            except Exception:
                # The page polls during that time, and shows that it does.
                log.exception("rendering rebuild %s", watched.rebuild_id)
                await asyncio.sleep(RECHECK_SECONDS)
                watched.changed.set()
                continue
            if changed:
                watched.wake_clients()
                await asyncio.sleep(RENDER_GAP_SECONDS)

    async def _read(self) -> None:
        """Follow the Redis stream and wake the named rebuilds. Any failure of Redis leads to the re-check."""
        while True:
            client = connect_async(
                settings.REDIS_URL,
                decode_responses=True,
                socket_connect_timeout=2,
                socket_timeout=REDIS_BLOCK_SECONDS + 5,
            )
            try:
                await self._read_from(client)
            except (RedisError, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
                if self.redis_answers:
                    log.warning("following %s: %s; the table is asked every %s s", STREAM, error, RECHECK_SECONDS)
                self.redis_answers = False
                self._wake_all()
            finally:
                await client.aclose()
            await asyncio.sleep(REDIS_RETRY_SECONDS)

    async def _read_from(self, client: Any) -> None:
        # Repeated "$" would lose entries that are added between two reads (measured: 31 to 134 of 40,000): pin an id first.
        newest = await client.xrevrange(STREAM, count=1)
        position = newest[0][0] if newest else "0-0"
        self.redis_answers = True
        self._wake_all()
        while True:
            answer = await client.xread({STREAM: position}, count=500, block=int(REDIS_BLOCK_SECONDS * 1000))
            for identity, entry in entries(answer):
                position = identity
                for watched in self._of(number(entry, "rebuild")):
                    if watched.snapshot is None or watched.snapshot.revision != number(entry, "revision"):
                        watched.changed.set()

    def _of(self, rebuild_id: int) -> list[Watched]:
        """Return a rebuild in each language of its viewers."""
        return [found for code, _ in settings.LANGUAGES if (found := self.watched.get((rebuild_id, code)))]

    def _wake_all(self) -> None:
        for watched in self.watched.values():
            watched.changed.set()


def _refresh(watched: Watched) -> bool:
    """Update a watched rebuild from the table, in a worker thread. Return whether it had changed."""
    newest = queries.revision(watched.rebuild_id)
    if newest is None:
        watched.is_missing = True
        return True
    if watched.snapshot is not None and watched.snapshot.revision == newest:
        return False
    # The state is read before the log: the log may then be ahead of the state, and a later render corrects that.
    snapshot = fragments.snapshot(watched.rebuild_id)
    if watched.snapshot is None:
        lines, watched.is_cut = fragments.first_lines(watched.rebuild_id)
    else:
        # At most the kept number: after a burst the page requests the lines between when its reader scrolls there.
        lines, is_cut = fragments.lines_after(watched.rebuild_id, watched.last_event)
        watched.is_cut = watched.is_cut or is_cut or len(watched.lines) + len(lines) > LINES_KEPT
    watched.lines.extend(lines)
    watched.snapshot, watched.is_missing = snapshot, snapshot is None
    return True


def _in_language(language: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that renders: the tasks of the hub have no request, and so no language of their own."""
    with translation.override(language):
        return function(*args, **kwargs)


async def in_database(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a worker thread, without leaving its database connection open."""

    def call() -> R:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return await sync_to_async(call)()


def _start(coroutine: Any) -> asyncio.Task[None]:
    """Start a task that outlives the first request that needs it: with its own context, because asgiref ends the request's.

    Of the request, only the prefix of every link is kept.
    """
    context = contextvars.Context()
    context.run(set_script_prefix, settings.FORCE_SCRIPT_NAME or "/")
    return asyncio.create_task(coroutine, context=context)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


@dataclass(slots=True)
class _Sent:
    """Messages that one connection has already sent."""

    parts: dict[str, str] = field(default_factory=dict)
    status: str = ""
    event: int | None = None
    bars: str | None = None


@lru_cache(maxsize=64)
def message(name: str, data: str) -> str:
    """Return one Server-Sent Event. Each line of the data gets its own field, so no text can end the event.

    Connections with the same message share the result and its bytes.
    """
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join((f"event: {name}\n", *(f"data: {line}\n" for line in lines), "\n"))


def _messages(watched: Watched, sent: _Sent) -> list[str]:
    """Return the messages that bring a connection up to date with the watched rebuild."""
    snapshot = watched.snapshot
    if snapshot is None:
        return []
    out = _log_messages(watched, sent)
    for name, html in snapshot.parts.items():
        if sent.parts.get(name) != html:
            sent.parts[name] = html
            out.append(message(name, html))
    if sent.status != snapshot.status:
        sent.status = snapshot.status
        out.append(message("status", snapshot.status))
    return out


def _log_messages(watched: Watched, sent: _Sent) -> list[str]:
    lines = list(watched.lines)
    # A connection that fell too far behind gets the end of the log again.
    lost = watched.is_cut and sent.event is not None and bool(lines) and sent.event < lines[0].event
    begins = sent.event is None or lost
    new = lines if begins else [line for line in lines if line.event > (sent.event or 0)]
    sent.event = watched.last_event
    if not begins and not new:
        return []
    return [message("log-snapshot" if begins else "log", "\n".join(line.html for line in new))]


async def stream(rebuild_id: int, session: str, language: str) -> AsyncGenerator[str, None]:
    """Yield a rebuild's events until it has ended, the browser leaves, the session ends or loses access, or the connection is old."""
    home = hub()
    home.sessions.append(session)
    home.allowed.add(session)  # it was checked a moment ago
    watched, client = home.join(rebuild_id, language)
    sent, began = _Sent(), time.monotonic()
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        if watched.snapshot is not None:
            client.set()
        while time.monotonic() - began < CONNECTION_SECONDS:
            try:
                await asyncio.wait_for(client.wait(), KEEPALIVE_SECONDS)
            except TimeoutError:
                yield message("alive", "")
            if not await home.may_still_view(session):
                return
            # Also the first time: the page may show bars of an earlier connection.
            found = await home.current_bars(language)
            if found and found[0] != sent.bars:
                sent.bars = found[0]
                yield message("bars", found[1])
            client.clear()
            for text in _messages(watched, sent):
                yield text
            if watched.is_missing or (watched.snapshot and watched.snapshot.is_final):
                yield message("end", "final")
                return
    finally:
        home.sessions.remove(session)
        home.leave(watched, client)


_encoded = lru_cache(maxsize=64)(str.encode)


class EventStream(StreamingHttpResponse):
    """A streamed answer whose generator ends with the connection, not with garbage collection."""

    def __init__(self, parts: AsyncGenerator[str, None]) -> None:
        super().__init__(parts, content_type="text/event-stream")
        self._parts = parts
        self["Cache-Control"] = "no-cache, no-store"
        self["X-Accel-Buffering"] = "no"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._parts) as parts:
            async for part in parts:
                yield _encoded(part)


@require_GET
async def events(request: HttpRequest, rebuild_id: int) -> HttpResponseBase:
    """Stream a rebuild to one browser with access."""
    user = await request.auser()
    if user.pk is None or not await sync_to_async(may_view)(user):
        return HttpResponse("You may not view rebuilds.", status=403, content_type="text/plain")
    if await sync_to_async(queries.revision)(rebuild_id) is None:
        return HttpResponse("There is no such rebuild.", status=404, content_type="text/plain")
    # Django closes the request's database connection with the request, here after minutes: a thousand viewers would hold a
    # thousand.
    await sync_to_async(close_old_connections)()
    return EventStream(stream(rebuild_id, request.session.session_key or "", request.LANGUAGE_CODE))
