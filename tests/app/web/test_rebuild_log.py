"""A rebuild's log: its pages, its filters, its search, and text that tries to be more than text."""

import html
import re
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.states import Level
from dbops.models import Rebuild, RebuildEvent
from dbops.queries.rebuilds import log as rebuild_log
from dbops.queries.rebuilds.log import LogFilter
from dbops.web.live import fragments
from tests.app.factories import make_event, make_rebuild, make_trio
from tests.hostile.texts import PIECES

pytestmark = pytest.mark.django_db
HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x1b[38:2::255:0:0mred\x1b[>4;2m",
    "\x1b]0;title\x07red",
    "\x1bPq#0;2\x1b\\red",
    "\x1b_secret\x1b\\red",
    "\x1b(Bred\x1b7\x1bc",
    "</span><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ event.pk }}{% now 'Y' %}",
    "\u202egnp.exe\u2066",
    "\x9b31m\x01\x08\x7f",  # a NUL is taken out before anything is stored
)


@pytest.fixture
def rebuild() -> Rebuild:
    _, backup, replica = make_trio()
    return make_rebuild(target=replica, source=backup)


@pytest.fixture
def keys(rebuild: Rebuild) -> list[int]:
    """1,200 lines: every tenth of the target, every hundredth a warning, one error; another rebuild's lines between."""
    other = make_rebuild(target=rebuild.source, source=rebuild.target)
    events = []
    for number in range(1200):
        level = "error" if number == 650 else "warning" if number % 100 == 0 else "info"
        host = rebuild.target.host.name if number % 10 == 0 else rebuild.source.host.name
        events.append(RebuildEvent(rebuild=rebuild, text=f"line {number}.", at=timezone.now(), level=level, host=host))
        if number % 300 == 0:
            events.append(RebuildEvent(rebuild=other, text="of another", at=timezone.now(), level="info"))
    RebuildEvent.objects.bulk_create(events)
    return list(RebuildEvent.objects.filter(rebuild=rebuild).order_by("pk").values_list("pk", flat=True))


def shown(answer: HttpResponse) -> list[int]:
    return [int(key) for key in re.findall(r'<li id="event-(\d+)"', answer.content.decode())]


def ask(client: Client, rebuild: Rebuild, query: str = "", part: str = "lines/") -> Any:
    return client.get(f"/rebuilds/{rebuild.pk}/log/{part}?{query}")


def sides(answer: Any) -> tuple[str, str]:
    return answer["X-Older"], answer["X-Newer"]


@pytest.mark.parametrize(
    ("query", "first", "last", "has_older", "has_newer"),
    [
        ("", 700, 1200, "1", "0"),
        ("before={700}", 200, 700, "1", "1"),
        ("before={200}", 0, 200, "0", "1"),
        ("after=0", 0, 500, "0", "1"),
        ("after={699}", 700, 1200, "1", "0"),
        ("around={600}", 351, 851, "1", "1"),
        ("around={0}", 0, 251, "0", "1"),
        ("around={1199}", 950, 1200, "1", "0"),
    ],
)
def test_pages_of_the_log_meet_without_gap_and_overlap(
    viewer: Client, rebuild: Rebuild, keys: list[int], query: str, first: int, last: int, has_older: str, has_newer: str
) -> None:
    answer = ask(viewer, rebuild, re.sub(r"\{(\d+)\}", lambda found: str(keys[int(found[1])]), query))
    assert shown(answer) == keys[first:last]
    assert sides(answer) == (has_older, has_newer)


def test_log_answers_404_around_a_line_of_another_rebuild(viewer: Client, rebuild: Rebuild, keys: list[int]) -> None:
    other = RebuildEvent.objects.exclude(rebuild=rebuild)[0]
    assert ask(viewer, rebuild, f"around={other.pk}").status_code == 404
    assert ask(viewer, rebuild, f"around={other.pk}", part="").status_code == 404
    assert ask(viewer, rebuild, "around=999999999999999999").status_code == 404


@pytest.mark.parametrize("nonsense", ["before=x", "after=-1", "around=" + "9" * 40, "level=loud", "before="])
def test_log_shows_its_end_for_an_unreadable_query(
    viewer: Client, rebuild: Rebuild, keys: list[int], nonsense: str
) -> None:
    assert shown(ask(viewer, rebuild, nonsense)) == keys[700:]


def test_lines_are_filtered_by_level_and_host(viewer: Client, rebuild: Rebuild, keys: list[int]) -> None:
    assert shown(ask(viewer, rebuild, "level=error")) == [keys[650]]
    assert shown(ask(viewer, rebuild, "level=warning")) == sorted([keys[650], *keys[::100]])
    target = rebuild.target.host.name
    assert shown(ask(viewer, rebuild, f"host={target}")) == keys[::10]
    assert shown(ask(viewer, rebuild, f"host={target}&level=error&find=line")) == [keys[650]]
    assert shown(ask(viewer, rebuild, f"host={target}&around={keys[651]}")) == keys[::10]
    make_event(rebuild, "of dbops itself")
    assert len(shown(ask(viewer, rebuild, "host=-"))) == 1


def test_search_returns_every_line_with_the_text(viewer: Client, rebuild: Rebuild, keys: list[int]) -> None:
    assert ask(viewer, rebuild, "find=LINE+11.", "matches/").json() == {"events": [keys[11]], "is_cut": False}
    assert ask(viewer, rebuild, "find=line&level=error", "matches/").json()["events"] == [keys[650]]
    # What means something in LIKE means itself here, and no text finds nothing.
    for text in ("%25", "_", "", "%00x"):
        assert ask(viewer, rebuild, f"find={text}", "matches/").json() == {"events": [], "is_cut": False}
    events, is_cut = rebuild_log.matches(rebuild.pk, LogFilter(text="line"), shown=10)
    assert (events, is_cut) == (keys[-10:], True)


def test_log_has_links_without_javascript(viewer: Client, rebuild: Rebuild, keys: list[int]) -> None:
    text = ask(viewer, rebuild, f"around={keys[600]}&level=&host=", part="").content.decode()
    assert f'href="?before={keys[351]}&amp;level=&amp;host="' in text
    assert f'href="?after={keys[850]}&amp;level=&amp;host="' in text
    assert f'href="?around={keys[600]}#event-{keys[600]}"' in text
    assert "log.js" not in text
    whole = viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    assert f'href="/rebuilds/{rebuild.pk}/log/?before={keys[700]}"' in whole
    assert "dbops/log.js" in whole


@pytest.mark.parametrize("text", [*HOSTILE, *PIECES])
def test_log_escapes_hostile_text(viewer: Client, rebuild: Rebuild, text: str) -> None:
    make_event(rebuild, text, host=text[:60])
    for part in ("", "lines/"):
        page = ask(viewer, rebuild, part=part).content.decode()
        line = re.findall(r"<li id=.*?</li>", page, re.DOTALL)[-1]
        assert len(re.findall(r"<[a-z]", line)) == 8, "more elements than a line has"
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.replace("\r\n", "\n"))
    if "red" in text:
        words = re.findall(r'class="log-words">(.*?)</span>', page, re.DOTALL)[-1]
        assert html.unescape(words) == "red"


def test_log_and_commands_show_the_titles_of_steps(viewer: Client, rebuild: Rebuild) -> None:
    step = rebuild.steps.order_by("position")[0]
    rebuild.steps.filter(pk=step.pk).update(title="Open <access>")
    for name in (step.name, "", "of_no_row"):
        make_event(rebuild, "line", step=name)
    rebuild.commands.create(key="one", step=step.name, place="host", text="true", started_at=timezone.now())
    for part in ("", "lines/"):
        page = ask(viewer, rebuild, part=part).content.decode()
        assert re.findall(r'class="log-step" title="(.*?)">(.*?)<', page) == [
            ("Open &lt;access&gt;", "Open &lt;access&gt;"),
            ("", ""),
            ("of no row", "of no row"),
        ]
    (line,) = fragments.lines_after(rebuild.pk, rebuild.events.order_by("pk")[1].pk)[0]
    assert 'title="of no row"' in line.html
    assert "Open &lt;access&gt;</span>" in viewer.get(f"/rebuilds/{rebuild.pk}/commands/").content.decode()


def test_news_are_cut_to_the_lines_that_are_shown(rebuild: Rebuild, keys: list[int]) -> None:
    log = rebuild_log.newer_lines(rebuild.pk, keys[10], shown=100)
    assert [event.pk for event in log.events] == keys[-100:]
    assert log.has_older
    log = rebuild_log.newer_lines(rebuild.pk, keys[-3])
    assert [event.pk for event in log.events] == keys[-2:]
    assert not log.has_older


@pytest.mark.parametrize(
    ("part", "query", "reads"),
    [
        ("lines/", "", 1),
        ("lines/", "before={0}", 2),
        ("lines/", "after={0}", 2),
        ("lines/", "around={0}&level=warning", 3),
        ("matches/", "find=line", 1),
    ],
)
def test_log_page_takes_a_fixed_number_of_queries(
    viewer: Client, rebuild: Rebuild, part: str, query: str, reads: int
) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            ask(viewer, rebuild, query.replace("{0}", str(first.pk)), part)
        return sum("dbops_rebuildevent" in each["sql"] for each in captured)

    first = make_event(rebuild, "line")
    assert count() == reads
    for _ in range(20):
        make_event(rebuild, "line", level=Level.WARNING)
    assert count() == reads
