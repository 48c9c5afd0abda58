"""Arbitrary requests for a rebuild's events: always a stream or a problem document, and no connection is left."""

import asyncio
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.core.asgi import get_asgi_application
from django.core.cache import cache
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbops.engine.states import Status
from dbops.models import Rebuild
from dbops.web.live import stream as live
from tests.app import rows
from tests.app.api.calls import Program, program_of
from tests.app.api.test_events import _no_redis_and_no_patience as _no_redis_and_no_patience  # noqa: PLC0414 - a fixture
from tests.app.factories import make_event, make_rebuild

SECONDS = 20
EXAMPLES = 60
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(str.encode) | st.binary(max_size=30)
NUMBERS = st.integers() | st.integers(-(2**70), 2**70)
EVENT_IDS = st.one_of(
    st.sampled_from([b"0", b"-1", b"1e3", b"", b"\0", b"1\0", b" 2 ", b"0x1", "٣".encode(), b"9" * 5000]),
    NUMBERS.map(lambda number: str(number).encode()),
    TEXT,
)
ACCEPTED = (
    st.sampled_from([b"text/event-stream", b"application/json", b"*/*", b"", b"text/html;q=0", b"a/b" * 3000]) | TEXT
)
QUERIES = (
    st.just(b"")
    | st.sampled_from([b"after=1", b"a=%00", b"&&=", b"%ff%fe"])
    | TEXT.map(lambda raw: quote_from_bytes(raw).encode())
)
#: Of the rebuilds of the test, else as it is.
ADDRESSES = st.sampled_from(["running", "ended"]) | NUMBERS.map(str) | TEXT.map(quote_from_bytes)


@pytest.fixture
def rebuilds(transactional_db: None, no_broker: None) -> dict[str, Rebuild]:
    fleet = rows.make_fleet()
    rows.operator()
    running = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"])
    ended = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], status=Status.SUCCEEDED)
    for one in (running, ended):
        make_event(one, "a line")
    return {"running": running, "ended": ended}


@pytest.fixture
def program(rebuilds: dict[str, Rebuild]) -> Program:
    return program_of(rebuilds["running"].requested_by, "read")


def scope(path: str, query: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    raw = path.encode()
    address = {"path": path, "raw_path": raw, "query_string": query, "root_path": ""}
    ends = {"client": ("127.0.0.1", 1), "server": ("testserver", 80), "scheme": "http"}
    return (
        {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "headers": headers}
        | address
        | ends
    )


async def ask(sent: dict[str, Any]) -> tuple[int, str, bytes, bool]:
    """Return status, type and beginning of an answer, and whether the server ended it. We cut a stream that continues."""
    app = ApplicationCommunicator(get_asgi_application(), sent)
    await app.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await app.receive_output(SECONDS)
    kind = dict(start["headers"]).get(b"Content-Type", b"").decode().partition(";")[0]
    body, more = b"", True
    while more and b"event: rebuild" not in body:
        part = await app.receive_output(SECONDS)
        body, more = body + part.get("body", b""), part.get("more_body", False)
    while more and b'"is_final":true' in body:
        part = await app.receive_output(SECONDS)
        body, more = body + part.get("body", b""), part.get("more_body", False)
    if more:
        await app.send_input({"type": "http.disconnect"})
    await app.wait(SECONDS)
    return start["status"], kind, body, not more


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    address=ADDRESSES, query=QUERIES, last=st.none() | EVENT_IDS, accept=st.none() | ACCEPTED, is_known=st.booleans()
)
def test_any_request_gets_a_stream_or_a_problem(
    address: str,
    query: bytes,
    last: bytes | None,
    accept: bytes | None,
    is_known: bool,
    rebuilds: dict[str, Rebuild],
    program: Program,
) -> None:
    cache.clear()
    known = rebuilds.get(address)
    headers = [(b"host", b"testserver")]
    headers += [(b"authorization", f"Bearer {program.secret}".encode())] if is_known else []
    headers += [(b"last-event-id", last)] if last is not None else []
    headers += [(b"accept", accept)] if accept is not None else []
    path = f"/api/v1/rebuilds/{known.pk if known else address}/events"

    async def test() -> None:
        status, kind, body, ended = await asyncio.wait_for(ask(scope(path, query, headers)), 3 * SECONDS)
        if status == 200:
            assert (kind, is_known, b"event: rebuild" in body) == ("text/event-stream", True, True)
            assert ended is (b"event: end" in body)
        else:
            assert (400 <= status < 500, kind, ended) == (True, "application/problem+json", True)
        assert live.hub().watched == {}

    async_to_sync(test)()
    connection.close()
