"""The live stream: it begins with the whole state, loses no line and repeats none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import F
from django.test import AsyncClient, Client
from django.utils import timezone

from dbops.engine.errors import RemoteFailure
from dbops.engine.states import Status
from dbops.models import Rebuild, RebuildEvent
from dbops.security.sessions import sessions_that_may_view
from dbops.web.live import stream as live
from dbops.web.live.entries import entries
from dbops.web.live.fragments import RenderedLine, Snapshot
from dbops.web.live.status_bars import ProcessStatus, StatusBar
from tests.app.factories import make_event, make_operator, make_rebuild, make_trio

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _no_redis_and_no_patience(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Redis the table is asked again and again: here so often that tests are quick."""
    settings.REDIS_URL = NOWHERE
    monkeypatch.setattr(live, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(live, "RENDER_GAP_SECONDS", 0.01)
    monkeypatch.setattr(live, "KEEPALIVE_SECONDS", 0.5)


@pytest.fixture
def rebuild(transactional_db: None) -> Rebuild:
    make_operator()
    _, backup, replica = make_trio()
    found = make_rebuild(target=replica, source=backup)
    for number in range(3):
        make_event(found, f"line {number} <script>")
    return found


@sync_to_async
def write(rebuild: Rebuild, *texts: str, **changes: Any) -> None:
    for text in texts:
        make_event(rebuild, text)
    Rebuild.objects.filter(pk=rebuild.pk).update(revision=F("revision") + 1, **changes)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 20)

    async_to_sync(bounded)()


async def connect(rebuild: Rebuild, client: AsyncClient | None = None) -> tuple[Any, AsyncIterator[bytes]]:
    client = client or AsyncClient()
    await client.alogin(username="olga", password="correct horse battery")
    answer = await client.get(f"/rebuilds/{rebuild.pk}/events/")
    return answer, answer.__aiter__()


async def read(stream: AsyncIterator[bytes]) -> tuple[str, str]:
    """Return the name and the data of the next event; comments and ``retry`` are passed over."""
    async for chunk in stream:
        text = chunk.decode()
        if text.startswith("event: "):
            name, *lines = text.rstrip("\n").split("\n")
            assert all(line.startswith("data: ") for line in lines)
            return name.removeprefix("event: "), "\n".join(line.removeprefix("data: ") for line in lines)
    raise AssertionError("the stream ended")


async def read_until(stream: AsyncIterator[bytes], wanted: str) -> str:
    while True:
        name, data = await read(stream)
        if name == wanted:
            return data


def test_stream_begins_with_a_snapshot(rebuild: Rebuild) -> None:
    async def check() -> None:
        answer, stream = await connect(rebuild)
        assert answer["Content-Type"] == "text/event-stream"
        assert answer["X-Accel-Buffering"] == "no"
        assert "no-cache" in answer["Cache-Control"]
        assert (await read(stream))[0] == "bars"
        name, log = await read(stream)
        assert name == "log-snapshot"
        assert log.count("<li") == 3
        assert "<script>" not in log
        name, page = await read(stream)
        assert name == "live"
        assert 'data-revision="1"' in page
        assert "olga" not in page
        assert [(await read(stream))[0] for _ in range(2)] == ["steps", "commands"]
        assert await read(stream) == ("status", "running")
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_holds_no_database_connection(rebuild: Rebuild) -> None:
    async def check() -> None:
        await connect(rebuild)
        assert await sync_to_async(lambda: connection.connection)() is None

    run(check)


def test_stream_sends_new_lines_only(rebuild: Rebuild) -> None:
    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        await write(rebuild, "fresh 1", "fresh 2")
        name, data = await read(stream)
        assert name == "log"
        assert data.count("<li") == 2
        assert "line 2" not in data
        assert 'data-revision="2"' in await read_until(stream, "live")
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_sends_each_line_once_to_every_reader(rebuild: Rebuild) -> None:
    async def collect(stream: AsyncIterator[bytes]) -> list[int]:
        seen: list[int] = []
        while True:
            name, data = await read(stream)
            if name == "log-snapshot":
                seen = []
            if name in ("log", "log-snapshot"):
                seen += [int(part.split('"')[0]) for part in data.split('id="event-')[1:]]
            if name == "end":
                return seen

    async def check() -> None:
        readers = []
        for number in range(30):
            if number % 10 == 0:
                _, stream = await connect(rebuild)
                readers.append(asyncio.create_task(collect(stream)))
            await write(rebuild, f"a {number}", f"b {number}")
            await asyncio.sleep(0.01)
        await write(rebuild, "the last", status=Status.FAILED)
        everything = await sync_to_async(
            lambda: list(RebuildEvent.objects.order_by("pk").values_list("pk", flat=True))
        )()
        for reader in readers:
            assert await reader == everything

    run(check)


def test_stream_of_an_ended_rebuild_sends_its_state_and_closes(rebuild: Rebuild) -> None:
    async def check() -> None:
        await write(rebuild, status=Status.SUCCEEDED, target_slot=None)
        _, stream = await connect(rebuild)
        names = []
        async for chunk in stream:
            if chunk.startswith(b"event: "):
                names.append(chunk.split(b"\n")[0].decode().removeprefix("event: "))
        assert names == ["bars", "log-snapshot", "live", "steps", "commands", "status", "end"]

    run(check)


def test_stream_sends_keepalives(rebuild: Rebuild) -> None:
    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        async for chunk in stream:
            assert chunk == b"event: alive\ndata: \n\n"
            break
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_sends_changed_status_bars(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the rebuild itself has no news: with no worker there are none."""

    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        found = [StatusBar(RemoteFailure("worker.away", "x", cause="x"), timezone.now())]
        monkeypatch.setattr(live.bars, "rendered", lambda: (live.bars.key(found), "<p>away</p>"))
        monkeypatch.setattr(ProcessStatus, "is_fresh", False)
        assert "<p>away</p>" in await read_until(stream, "bars")
        assert (await read(stream))[0] == "alive"
        assert (await read(stream))[0] == "alive"
        monkeypatch.setattr(live.bars, "rendered", lambda: ("", "<i></i>"))
        assert await read_until(stream, "bars") == "<i></i>"
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_sends_status_bars_that_a_poll_has_refreshed(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        monkeypatch.setattr(live.bars, "rendered", lambda: ("away", "<p>away</p>"))
        monkeypatch.setattr(live.bars.current, "asked_at", 1.0)
        assert await read_until(stream, "bars") == "<p>away</p>"
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_continues_when_status_bars_fail(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> tuple[str, str]:
        raise OSError("the database is away")

    monkeypatch.setattr(live.bars, "rendered", fails)
    monkeypatch.setattr(ProcessStatus, "is_fresh", False)

    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        await write(rebuild, "news")
        assert "news" in await read_until(stream, "log")
        await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_renders_once_for_all_viewers(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    real = live.fragments.snapshot

    def counting(rebuild_id: int) -> Snapshot | None:
        rendered.append(rebuild_id)
        return real(rebuild_id)

    monkeypatch.setattr(live.fragments, "snapshot", counting)

    async def check() -> None:
        streams = [(await connect(rebuild))[1] for _ in range(4)]
        for stream in streams:
            await read_until(stream, "status")
        assert len(rendered) == 1
        await write(rebuild, "news")
        for stream in streams:
            assert "news" in await read_until(stream, "log")
        assert len(rendered) == 2
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]

    run(check)


def test_stream_stops_its_reader_with_the_last_viewer(rebuild: Rebuild) -> None:
    async def check() -> None:
        _, stream = await connect(rebuild)
        await read_until(stream, "status")
        home = live.hub()
        task, reader = home.watched[rebuild.pk, "en"].task, home.reader
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        assert home.watched == {}
        assert task
        assert task.done()
        assert reader
        assert reader.done()

    run(check)


def log_out(client: AsyncClient) -> None:
    client.logout()


def change_password(client: AsyncClient) -> None:
    user = User.objects.get(username="olga")
    user.set_password("another horse battery")
    user.save()


def deactivate(client: AsyncClient) -> None:
    User.objects.filter(username="olga").update(is_active=False)


def leave_the_group(client: AsyncClient) -> None:
    User.objects.get(username="olga").groups.clear()


def remove_the_session(client: AsyncClient) -> None:
    Session.objects.all().delete()


def expire(client: AsyncClient) -> None:
    Session.objects.update(expire_date=timezone.now())


@pytest.mark.parametrize("end", [log_out, change_password, deactivate, leave_the_group, remove_the_session, expire])
def test_stream_ends_with_its_session(
    rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch, end: Callable[[AsyncClient], None]
) -> None:
    monkeypatch.setattr(live, "SESSIONS_SECONDS", 0.0)
    client = AsyncClient()

    async def check() -> None:
        _, stream = await connect(rebuild, client)
        await read_until(stream, "status")
        await write(rebuild, "while allowed")
        assert (await read(stream))[0] == "log"
        await sync_to_async(end)(client)
        await write(rebuild, "afterwards")
        left = b"".join([chunk async for chunk in stream])
        assert b"afterwards" not in left
        assert b"event: end" not in left, "the browser must ask again: it may have another session"

    run(check)


def test_streams_of_other_sessions_continue(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SESSIONS_SECONDS", 0.0)
    left, stays = AsyncClient(), AsyncClient()

    async def check() -> None:
        streams = [(await connect(rebuild, client))[1] for client in (left, stays)]
        for stream in streams:
            await read_until(stream, "status")
        await sync_to_async(left.logout)()
        await write(rebuild, "afterwards")
        assert b"afterwards" not in b"".join([chunk async for chunk in streams[0]])
        assert "afterwards" in await read_until(streams[1], "log")
        await streams[1].aclose()  # type: ignore[attr-defined]

    run(check)


def test_streams_ask_for_their_sessions_in_two_queries(rebuild: Rebuild, django_assert_num_queries: Any) -> None:
    keys = []
    for _ in range(3):
        client = Client()
        client.login(username="olga", password="correct horse battery")
        keys.append(client.cookies["sessionid"].value)
    with django_assert_num_queries(2):
        assert sessions_that_may_view([*keys, "unknown"]) == set(keys)


def test_stream_ends_after_its_maximum_time(rebuild: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CONNECTION_SECONDS", 0.2)

    async def check() -> None:
        _, stream = await connect(rebuild)
        async for chunk in stream:
            assert not chunk.startswith(b"event: end")

    run(check)


def snapshot(revision: int = 1) -> Snapshot:
    return Snapshot(revision=revision, status="running", is_final=False, parts={"live": f"<p>{revision}</p>"})


def test_slow_stream_gets_a_log_snapshot() -> None:
    async def check() -> None:
        watched = live.Watched(1, snapshot=snapshot())
        watched.lines.extend(RenderedLine(number, f"<li>{number}</li>") for number in range(1, 4))
        sent = live._Sent()
        assert live._messages(watched, sent)[0].startswith("event: log-snapshot")
        watched.lines.extend(RenderedLine(number, f"<li>{number}</li>") for number in range(4, live.LINES_KEPT + 50))
        watched.is_cut = True
        assert live._messages(watched, sent)[0].startswith("event: log-snapshot")
        assert live._messages(watched, sent) == []

    run(check)


def test_stream_text_cannot_end_an_event() -> None:
    assert live.message("log", "a\n\nevent: end\r\ndata: x\r") == (
        "event: log\ndata: a\ndata: \ndata: event: end\ndata: data: x\ndata: \n\n"
    )


@pytest.mark.parametrize(
    "answer",
    [
        [["s", [("1-0", {"rebuild": "1"}), ("2-0", {"rebuild": "2"})]]],
        {"s": [[("1-0", {"rebuild": "1"}), ("2-0", {"rebuild": "2"})]]},
        {"s": [("1-0", {"rebuild": "1"}), ("2-0", {"rebuild": "2"})]},
    ],
)
def test_entries_accept_both_redis_answer_shapes(answer: Any) -> None:
    assert entries(answer) == [("1-0", {"rebuild": "1"}), ("2-0", {"rebuild": "2"})]


def test_entries_are_empty_without_news() -> None:
    assert entries([]) == []
    assert entries(None) == []
