"""The monthly availability report: page, and file of the command."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dbops.queries.availability.report import last_month, month_of
from dbops.web.templatetags.dbops import machine_time
from dbops.worker.availability_rollup import count_days
from tests.app.factories import make_trio, make_watched_trio

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    """A trio watched since January, whose replica was away for three hours: two of February, one of March."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    away, back = datetime(2026, 2, 28, 22, tzinfo=UTC), datetime(2026, 3, 1, 1, tzinfo=UTC)
    make_watched_trio(since=datetime(2026, 1, 10, tzinfo=UTC), away=away, back=back, now=NOW)


def words(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def row(text: str, name: str) -> str:
    """Return the row of a gap or of a cluster."""
    mark = f'data-gap="{name}"' if f'data-gap="{name}"' in text else f">{name}<"
    return text[text.index(mark) :].partition("</tr>")[0]


def test_report_months_follow_the_local_clock() -> None:
    found = month_of(date(2026, 3, 1), datetime(2026, 5, 1, tzinfo=UTC), BERLIN)
    assert found
    assert (found.period.seconds / 3600, found.is_over, found.key) == (31 * 24 - 1, True, "2026-03")
    going_on = month_of(date(2026, 3, 1), NOW, BERLIN)
    assert going_on
    assert (going_on.period.end, going_on.is_over) == (NOW, False)
    assert month_of(date(2026, 4, 1), NOW, BERLIN) is None
    assert last_month(datetime(2026, 2, 28, 23, 30, tzinfo=UTC), BERLIN) == date(2026, 2, 1), "it is March in Berlin"
    assert last_month(datetime(2026, 1, 5, tzinfo=UTC), UTC) == date(2025, 12, 1)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("month", "duration"), [("2026-02", "2 h 00 min"), ("2026-03", "1 h 00 min")])
def test_report_covers_all_clusters_or_one(
    viewer: Client, shop: None, month: str, duration: str, counted: bool
) -> None:
    if counted:
        count_days(NOW, seconds=60)
    fleet = words(viewer, f"/availability/report/{month}/")
    assert duration in row(fleet, "short")
    assert duration in row(fleet, "shop")
    one = words(viewer, f"/availability/report/{month}/shop/")
    assert duration in row(one, "short")
    assert 'data-cause="detection"' in one
    assert f'datetime="{machine_time(NOW)}"' in one, "when it was computed"
    assert "<script" not in one + fleet
    assert ("data-unfinished" in fleet) is (month == "2026-03")


@pytest.mark.parametrize("address", ["2026-04/", "2026-13/", "2026-00/", "26-01/", "2026-03/nowhere/"])
def test_report_answers_404_for_a_bad_month(viewer: Client, shop: None, address: str) -> None:
    assert viewer.get(f"/availability/report/{address}").status_code == 404


def test_availability_pages_link_to_reports(viewer: Client, shop: None) -> None:
    assert 'href="/availability/report/2026-02/"' in words(viewer, "/availability/")
    assert 'href="/availability/report/2026-03/shop/"' in words(viewer, "/availability/shop/")


def test_report_needs_login_and_permission(client: Client, shop: None, sam: Any) -> None:
    assert client.get("/availability/report/2026-02/").status_code == 302
    client.force_login(sam)
    assert client.get("/availability/report/2026-02/shop/").status_code == 403


def test_report_takes_a_fixed_number_of_queries(viewer: Client, shop: None, django_assert_max_num_queries: Any) -> None:
    for number in range(10):
        make_trio(f"other-{number}")
    with django_assert_max_num_queries(31):
        words(viewer, "/availability/report/2026-02/")
    with django_assert_max_num_queries(26):
        words(viewer, "/availability/report/2026-02/shop/")


def test_report_works_without_clusters(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    answer = viewer.get("/availability/report/2026-02/")
    assert answer.status_code == 200
    assert list(answer.context["report"].rows) == []


def test_report_command_writes_a_self_contained_file(shop: None, tmp_path: Path) -> None:
    to = tmp_path / "report.html"
    call_command("availability_report", "--html", str(to))
    text = to.read_text()
    assert "February 2026" in text
    for leads_elsewhere in ("href=", "src=", "<link", "@import", "url("):
        assert leads_elsewhere not in text
    call_command("availability_report", "--month", "2026-03", "--cluster", "shop", "--html", str(to))
    assert 'data-cause="detection"' in to.read_text()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["--month", "2026-4"], "'2026-4'"),
        (["--month", "2027-01"], "2027-01"),
        (["--cluster", "nowhere"], "'nowhere'"),
    ],
)
def test_report_command_refuses_wrong_arguments(shop: None, tmp_path: Path, given: list[str], names: str) -> None:
    with pytest.raises(CommandError, match=names):
        call_command("availability_report", *given, "--html", str(tmp_path / "x.html"))
    assert not (tmp_path / "x.html").exists()
