"""Log lines as JSON."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from dbops.lib.logs import busy_with, json_formatter
from dbops.worker.heartbeats import ReportingTask
from dbops.worker.tasks import drive_rebuild


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_each_record_is_one_line_whatever_it_says(written: io.StringIO) -> None:
    logging.getLogger("some.library").warning("two\nlines %s \x1b[31m\u2028", '"quoted"')
    [line] = lines(written)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "warning", "logger": "some.library", "message": 'two\nlines "quoted" \x1b[31m\u2028'}
    assert written.getvalue().isascii()


def test_error_has_its_stack(written: io.StringIO) -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("dbops").exception("failed")
    [line] = lines(written)
    assert (line["exception"][0]["exc_type"], line["exception"][0]["exc_value"]) == ("ValueError", "wrong")
    assert "locals" not in json.dumps(line["exception"])


def test_names_are_only_of_the_block(written: io.StringIO) -> None:
    log = logging.getLogger("dbops")
    with busy_with(rebuild_id=7):
        log.warning("inside")
    log.warning("outside")
    assert [line.get("rebuild_id") for line in lines(written)] == [7, None]


@pytest.mark.django_db
def test_lines_of_a_request_have_the_id_of_its_answer(client: Client, written: io.StringIO) -> None:
    answer = client.get("/no-such-page/")
    [line] = [line for line in lines(written) if line["logger"] == "django.request"]
    assert line["request_id"] == answer.headers["X-Request-ID"]


def test_lines_of_a_task_name_its_row(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.worker.tasks.drive", lambda *_: logging.getLogger("dbops.worker").warning("at work"))
    assert isinstance(drive_rebuild, ReportingTask)
    drive_rebuild(12)
    [line] = lines(written)
    assert (line["task"], line["rebuild_id"]) == ("drive_rebuild", 12)
