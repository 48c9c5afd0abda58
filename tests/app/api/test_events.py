"""A rebuild as events of the API: complete, resumed after a cut, and ended with the token."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.db.models import F
from django.test import AsyncClient

from dbops.database import clock
from dbops.models import AccessToken, Rebuild
from dbops.web.live import stream as live
from tests.app import rows
from tests.app.api.calls import Program, program_of
from tests.app.factories import make_event, make_rebuild


@pytest.fixture(autouse=True)
def _no_redis_and_no_patience(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(live, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(live, "RENDER_GAP_SECONDS", 0.01)
    monkeypatch.setattr(live, "KEEPALIVE_SECONDS", 0.2)
    monkeypatch.setattr(live, "SESSIONS_SECONDS", 0.1)


@pytest.fixture
def rebuild(transactional_db: None, no_broker: None) -> Rebuild:
    fleet = rows.make_fleet()
    rows.operator()
    found = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"])
    for number in range(3):
        make_event(found, f"line {number}")
    return found


@pytest.fixture
def program(rebuild: Rebuild) -> Program:
    return program_of(rebuild.requested_by, "read")


@sync_to_async
def write(rebuild: Rebuild, *texts: str, **changes: Any) -> None:
    for text in texts:
        make_event(rebuild, text)
    Rebuild.objects.filter(pk=rebuild.pk).update(revision=F("revision") + 1, **changes)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 60)

    async_to_sync(bounded)()
    connection.close()


async def connect(program: Program, rebuild: Rebuild, after: int | str | None = None) -> Any:
    headers = {**program.headers, **({} if after is None else {"Last-Event-ID": str(after)})}
    return await AsyncClient().get(f"/api/v1/rebuilds/{rebuild.pk}/events", headers=headers)


async def read(parts: AsyncIterator[bytes]) -> tuple[str, int, Any]:
    """Return the name, the id and the data of the next event."""
    async for part in parts:
        fields = dict(line.split(": ", 1) for line in part.decode().splitlines() if line and not line.startswith(":"))
        if "event" in fields:
            data = fields["data"]
            return fields["event"], int(fields.get("id", 0)), json.loads(data) if data[:1] == "{" else data
    raise StopAsyncIteration


async def until(parts: AsyncIterator[bytes], wanted: Callable[[str, Any], bool]) -> list[tuple[str, int, Any]]:
    """Return events up to the first that is wanted."""
    found = []
    while True:
        found.append(await read(parts))
        if wanted(found[-1][0], found[-1][2]):
            return found


def texts(found: list[tuple[str, int, Any]]) -> list[str]:
    return [data["text"] for name, _, data in found if name == "log"]


def test_stream_has_each_line_once_and_the_end(rebuild: Rebuild, program: Program) -> None:
    async def test() -> None:
        answer = await connect(program, rebuild)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/event-stream")
        parts = answer.__aiter__()
        found = await until(parts, lambda name, _: name == "rebuild")
        assert found[-1][2]["status"] == "running"
        await write(rebuild, "line 3")
        found += await until(parts, lambda name, data: name == "log" and data["text"] == "line 3")
        await write(rebuild, "line 4", status="succeeded", finished_at=clock.now(), target_slot=None)
        found += await until(parts, lambda name, _: name == "end")
        assert [text for text in texts(found) if text.startswith("line")] == [f"line {n}" for n in range(5)]
        assert found[-1][2] == "succeeded"
        with pytest.raises(StopAsyncIteration):
            await read(parts)

    run(test)


def test_stream_continues_after_the_last_line(rebuild: Rebuild, program: Program) -> None:
    async def test() -> None:
        first = (await connect(program, rebuild)).__aiter__()
        found = await until(first, lambda name, data: name == "log" and data["text"] == "line 1")
        await first.aclose()  # type: ignore[attr-defined]
        await write(rebuild, "line 3")
        second = (await connect(program, rebuild, after=found[-1][1])).__aiter__()
        rest = await until(second, lambda name, data: name == "log" and data["text"] == "line 3")
        await second.aclose()  # type: ignore[attr-defined]
        assert texts(rest) == ["line 2", "line 3"]

    run(test)


def test_long_log_is_sent_whole(rebuild: Rebuild, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.queries.rebuilds.log.after.__kwdefaults__", {"shown": 2})

    async def test() -> None:
        await write(rebuild, *(f"more {n}" for n in range(7)), status="failed", target_slot=None)
        parts = (await connect(program, rebuild)).__aiter__()
        found = await until(parts, lambda name, _: name == "end")
        assert texts(found)[-7:] == [f"more {n}" for n in range(7)]

    run(test)


@pytest.mark.parametrize("change", ["revoke", "deactivate", "leave", "limit"])
def test_stream_ends_with_the_token(rebuild: Rebuild, program: Program, change: str) -> None:
    @sync_to_async
    def end() -> None:
        user = rebuild.requested_by
        if change == "revoke":
            AccessToken.objects.update(revoked_at=clock.now())
        elif change == "deactivate":
            type(user).objects.update(is_active=False)
        elif change == "leave":
            user.groups.clear()
        else:
            AccessToken.objects.update(is_for_all_clusters=False)

    async def test() -> None:
        parts = (await connect(program, rebuild)).__aiter__()
        await until(parts, lambda name, _: name == "rebuild")
        await end()
        with pytest.raises(StopAsyncIteration):
            await until(parts, lambda *_: False)

    run(test)


@pytest.mark.parametrize(("after", "status"), [("x", 422), ("-1", 422), (str(2**70), 422)])
def test_wrong_last_event_is_refused(rebuild: Rebuild, program: Program, after: str, status: int) -> None:
    async def test() -> None:
        assert (await connect(program, rebuild, after)).status_code == status

    run(test)


def test_stream_needs_a_token_and_a_rebuild(rebuild: Rebuild, program: Program) -> None:
    async def test() -> None:
        assert (await connect(Program("wrong"), rebuild)).status_code == 401
        answer = await AsyncClient().get("/api/v1/rebuilds/999/events", headers=program.headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "api.not_found")

    run(test)
