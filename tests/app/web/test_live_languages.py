"""The live stream in several languages: each viewer gets the own one, rendered once for all who read it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient
from django.utils import timezone

from dbops.models import Rebuild
from dbops.web.live import stream as live
from dbops.web.live.fragments import Snapshot
from dbops.web.live.status_bars import ProcessStatus, StatusBar
from tests.app.catalogues import catalogue
from tests.app.web.test_live import _no_redis_and_no_patience, connect, read_until, rebuild, run, write

__all__ = ["_no_redis_and_no_patience", "rebuild"]


@pytest.fixture
def japanese(tmp_path: Path, settings: Any) -> Iterator[None]:
    yield from catalogue(tmp_path, settings, {"running": "実行中", "{seconds} s": "{seconds}秒"})


def test_stream_renders_once_for_each_language(
    rebuild: Rebuild, japanese: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[int] = []
    real = live.fragments.snapshot

    def counting(rebuild_id: int) -> Snapshot | None:
        rendered.append(rebuild_id)
        return real(rebuild_id)

    monkeypatch.setattr(live.fragments, "snapshot", counting)
    monkeypatch.setattr(ProcessStatus, "_ask", lambda status: setattr(status, "asked_at", status.monotonic()))
    monkeypatch.setattr(live.bars.current, "found", [StatusBar(live.bars._worker_away(), timezone.now())])

    async def check() -> None:
        for language, word in (("en", ">running<"), ("ja", ">実行中<")) * 2:
            client = AsyncClient()
            client.cookies["dbops_language"] = language
            stream = (await connect(rebuild, client))[1]
            streams.append((stream, language, word))
        for stream, language, word in streams:
            assert ("秒</span>" in await read_until(stream, "bars")) == (language == "ja")
            assert word in await read_until(stream, "live")
            assert await read_until(stream, "status") == "running"
        assert len(rendered) == 2
        await write(rebuild, "news")
        for stream, _, word in streams:
            assert "news" in await read_until(stream, "log")
            assert word in await read_until(stream, "live")
        assert len(rendered) == 4
        for stream, *_ in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        assert live.hub().watched == {}

    streams: list[tuple[AsyncIterator[bytes], str, str]] = []
    run(check)
