"""A rebuild as Server-Sent Events: its state whenever it changes, and each line of its log once.

``Last-Event-ID`` continues a stream that was cut: the id of an event is that of the log's line.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import close_old_connections
from django.http import HttpRequest
from ninja import Header, Router

from dbops.database import clock
from dbops.models import AccessToken, Rebuild
from dbops.queries.rebuilds import log as logs
from dbops.security.permissions import may_view
from dbops.web.api.access import Caller, called_by, clusters_of
from dbops.web.api.rebuilds import find, full
from dbops.web.api.schemas.base import LARGEST, Number
from dbops.web.api.schemas.rebuilds import line
from dbops.web.live import stream as live

router = Router(tags=["rebuilds"])


class Sent:
    """What one connection has been sent: the last line, and the state as it was then."""

    def __init__(self, line: int) -> None:
        self.line, self.state, self.is_final = line, "", False


@router.get(
    "/rebuilds/{rebuild_id}/events",
    summary="Follow a rebuild",
    operation_id="follow_rebuild",
    openapi_extra={
        "responses": {200: {"description": "OK", "content": {"text/event-stream": {"schema": {"type": "string"}}}}}
    },
)
async def events(
    request: HttpRequest,
    rebuild_id: Number,
    last_event_id: Annotated[
        int, Header(alias="Last-Event-ID", ge=0, le=LARGEST, description="Only lines after this event.")
    ] = 0,
) -> Any:
    """Stream a rebuild until it has ended.

    `rebuild` has the rebuild as its own address answers, `log` one line of its log, `end` its last status. The connection ends
    after ten minutes, and when the token ends: connect again with `Last-Event-ID`.
    """
    caller = called_by(request)
    await sync_to_async(find)(caller, rebuild_id)
    await sync_to_async(close_old_connections)()  # the stream needs none while it waits
    return live.EventStream(stream(caller, rebuild_id, last_event_id))


async def stream(caller: Caller, rebuild_id: int, last_line: int) -> AsyncGenerator[str, None]:
    """Yield a rebuild's events."""
    home = live.hub()
    watched, client = home.join(rebuild_id, settings.LANGUAGE_CODE)
    sent, began, checked = Sent(last_line), time.monotonic(), time.monotonic()
    client.set()
    try:
        yield f"retry: {live.RETRY_MILLISECONDS}\n\n"
        while time.monotonic() - began < live.CONNECTION_SECONDS:
            try:
                await asyncio.wait_for(client.wait(), live.KEEPALIVE_SECONDS)
            except TimeoutError:
                yield ": alive\n\n"
            client.clear()
            if time.monotonic() - checked >= live.SESSIONS_SECONDS:
                if not await live.in_database(is_open, caller.token.pk, rebuild_id):
                    return
                checked = time.monotonic()
            has_more = True
            while has_more:
                found, has_more = await live.in_database(news, rebuild_id, sent)
                for text in found:
                    yield text
            if sent.is_final:
                return
    finally:
        home.leave(watched, client)


def news(rebuild_id: int, sent: Sent) -> tuple[list[str], bool]:
    """Return what a connection has not been sent, and whether there is more: the log comes in pages."""
    # The state is read before the log, so that the lines of a rebuild that has ended are complete.
    state = full(rebuild_id)
    page = logs.after(rebuild_id, sent.line)
    out = [_message("log", line(event).model_dump_json(), event.pk) for event in page.events]
    sent.line = page.last_event or sent.line
    if page.has_newer:
        return out, True
    text = state.model_dump_json()
    if text != sent.state:
        sent.state = text
        out.append(_message("rebuild", text))
    if state.is_final:
        sent.is_final = True
        out.append(_message("end", state.status))
    return out, False


def is_open(token_id: int, rebuild_id: int) -> bool:
    """Whether a token is still valid, and still opens a rebuild."""
    token = AccessToken.objects.select_related("user").filter(pk=token_id).first()
    if token is None or token.user is None or not token.is_valid_at(clock.now()) or not may_view(token.user):
        return False
    rows = Rebuild.objects.filter(pk=rebuild_id)
    return Caller(token, token.user, clusters_of(token)).limited(rows, "target__cluster").exists()


def _message(name: str, data: str, number: int | None = None) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {data}\n\n"
