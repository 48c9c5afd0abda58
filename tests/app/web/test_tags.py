"""Filters and tags."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from dbops.web.templatetags import dbops as tags


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, tags.UNKNOWN),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.50 KiB"),
        (15 * 1024**3, "15.0 GiB"),
        (1480 * 1024**3, "1.45 TiB"),
    ],
)
def test_bytes_are_formatted_with_units(value: int | None, text: str) -> None:
    assert tags.bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, tags.UNKNOWN), (0, "0.0 MiB/s"), (1.5 * 1024**2, "1.5 MiB/s"), (312 * 1024**2, "312 MiB/s")],
)
def test_rate_is_formatted_with_units(value: float | None, text: str) -> None:
    assert tags.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0, "0 s"),
        (-3.2, "0 s"),
        (0.04, "< 0.1 s"),
        (4.24, "4.2 s"),
        (7, "7 s"),
        (7.0, "7 s"),
        ("9.94", "9.9 s"),
        (9.96, "10 s"),
        (10.4, "10 s"),
        (59.6, "1 min 00 s"),
        (3725, "1 h 02 min"),
        (2 * 86400 + 3 * 3600, "2 d 3 h"),
    ],
)
def test_duration_is_formatted_by_size(value: float | None, text: str) -> None:
    assert tags.duration(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (0.4, "now"), (-5, "now"), (12, "12 s ago"), (3725, "1 h ago"), (172799, "1 d ago")],
)
def test_age(seconds: float, text: str) -> None:
    value = timezone.now() - timedelta(seconds=seconds)
    assert tags.age(value) == text
    assert f">{text}<" in tags.ago(value)


def test_elapsed_has_tenths_after_the_end_and_counts_whole_seconds_before() -> None:
    start = timezone.now()
    assert tags.elapsed(start, start + timedelta(seconds=4.24)) == "4.2 s"
    assert 'data-elapsed="0"' in tags.elapsed(start)


def test_when_shows_local_time_with_utc_title() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        text = tags.when(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert 'datetime="2026-01-02T03:04:05.000+00:00"' in text
    assert 'title="2026-01-02 03:04:05 UTC"' in text
    assert ">2026-01-02 04:04:05<" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "none"),
        ("0-1-1000", "0-1-1000"),
        (
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5,\n4e11fa47-71ca-11e1-9e33-c80aa9429562:1-6,5e11fa47-71ca-11e1-9e33-c80aa9429562:1",
            "3e11fa47…:1-5, 4e11fa47…:1-6, +1",
        ),
    ],
)
def test_gtid_is_shortened(value: str, text: str) -> None:
    assert tags.gtid(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("50 %\r100 %\r\nnext", "50 %\n100 %\nnext"),
        ("bell\x07", "bell\ufffd"),
        ("a\u202eb", "a\ufffdb"),
        ("tab\tstays", "tab\tstays"),
        (None, ""),
    ],
)
def test_clean_removes_control_characters(value: str | None, text: str) -> None:
    assert tags.clean(value) == text


def test_state_has_icon_and_word_escaped() -> None:
    text = tags.state("<b>")
    assert "<svg" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
