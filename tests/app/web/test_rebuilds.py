"""The list of rebuilds and one rebuild."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.errors import Refused
from dbops.engine.methods import FOLLOW_UPS
from dbops.engine.states import Status, StepState
from dbops.models import ExecutedCommand, Hold, Instance, Rebuild, RebuildStep
from dbops.queries.rebuilds import pages as queries
from dbops.web.views import rebuilds as view
from tests.app.factories import make_event, make_rebuild, make_trio

from .marks import marks, part

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def running(trio: tuple[Instance, Instance, Instance]) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], reason="<script>alert(1)</script>", revision=7)


def set_step(rebuild: Rebuild, name: str, **values: Any) -> None:
    RebuildStep.objects.filter(rebuild=rebuild, name=name).update(**values)


def test_list_is_filtered_by_status_and_paged(viewer: Client, trio: tuple[Instance, Instance, Instance]) -> None:
    _, backup, replica = trio
    failed = make_rebuild(target=replica, source=backup, status=Status.FAILED)
    for _ in range(queries.REBUILDS_ON_A_PAGE):
        make_rebuild(target=replica, source=backup, status=Status.SUCCEEDED)
    answer = viewer.get("/rebuilds/")
    assert (answer.context["page"].number, answer.context["page"].paginator.num_pages) == (1, 2)
    assert 'href="?page=2"' in answer.content.decode()
    assert f'href="/rebuilds/{failed.pk}/"' in viewer.get("/rebuilds/?status=failed").content.decode()
    assert marks(viewer.get("/rebuilds/?status=lost").content.decode(), "empty") == ["lost"]
    assert viewer.get("/rebuilds/?status=nonsense&page=99").status_code == 200


def test_page_shows_progress(viewer: Client, running: Rebuild) -> None:
    known = {
        "bytes": 600 * 1024**3,
        "total_bytes": 1480 * 1024**3,
        "rate_bytes_per_second": 412e6,
        "average_bytes_per_second": 398e6,
        "percent": 40.5,
        "eta_seconds": 2280,
        "note": "./shop/orders.ibd",
    }
    set_step(
        running, "stream", state=StepState.RUNNING, started_at=timezone.now(), progress=known, predicted_seconds=3900
    )
    text = viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    for shown in (
        "600 GiB",
        "of 1.45 TiB",
        "393 MiB/s",
        "380 MiB/s",
        "40.5 %",
        "38 min 00 s",
        "./shop/orders.ibd",
    ):
        assert shown in text
    assert "1 h 05 min" in text
    assert 'data-title="40 % – replica-1' in text


def test_page_shows_unknown_progress_as_unknown(viewer: Client, running: Rebuild) -> None:
    set_step(running, "stream", state=StepState.RUNNING, started_at=timezone.now(), progress={"bytes": 5})
    text = viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    assert (marks(text, "percent")[-1], marks(text, "rate"), marks(text, "left")) == (
        "unknown",
        ["unknown"],
        ["unknown"],
    )
    assert "0 MiB/s" not in text
    assert "None" not in text


def test_page_of_a_failed_rebuild_shows_its_error_and_outcome(viewer: Client, trio: Any) -> None:
    error = Refused(
        "stream.truncated", "Streaming", cause="Broken pipe", state="left-part", next_step="Try."
    ).as_record()
    rebuild = make_rebuild(
        target=trio[2],
        source=trio[1],
        status=Status.FAILED,
        error=error | {"who": "host"},
        outcome="replica-1: stopped",
    )
    result = {"exit_statuses": {"source backup": 1, "unpack": 0}, "tails": {"source": "<b>tail</b>"}}
    set_step(rebuild, "stream", state=StepState.FAILED, result=result)
    text = viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    assert (marks(text, "error"), marks(text, "who")) == (["stream.truncated"], ["host"])
    for shown in (
        "Broken pipe",
        "left-part",
        "Try.",
        "replica-1: stopped",
        "source backup",
        "&lt;b&gt;tail&lt;/b&gt;",
    ):
        assert shown in text
    assert "sse-connect" not in text
    assert "every 5s" not in text


def test_pages_escape_what_people_and_hosts_wrote(viewer: Client, running: Rebuild) -> None:
    make_event(running, "\x1b[31mred\x1b[0m <script>alert(2)</script>\x07\u202e", host="<i>")
    now = timezone.now()
    ExecutedCommand.objects.create(
        rebuild=running, key="a", place="h", text="echo '<script>'", started_at=now, output="\x1b]0;x\x07<b>"
    )
    own = (f"/rebuilds/{running.pk}/{part}" for part in ("", "commands/", "log/", "log/lines/"))
    for address in (*own, "/rebuilds/", "/clusters/shop/"):
        text = viewer.get(address).content.decode()
        assert "<script>alert" not in text
        assert "<script>'" not in text
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    log = b"".join(viewer.get(f"/rebuilds/{running.pk}/log/text/"))  # type: ignore[call-overload]
    assert b"\x1b" not in log
    assert b"red <script>" in log
    assert viewer.get(f"/rebuilds/{running.pk}/log/text/")["Content-Type"] == "text/plain; charset=utf-8"


def test_page_names_what_is_held_and_what_it_waits_for(viewer: Client, trio: Any) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED, waiting_for="backup-1: <1>")
    Hold.objects.create(instance=trio[1], rebuild=rebuild, purpose="source", taken_at=timezone.now())
    text = viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode()
    assert marks(text, "waits") == ["held"]
    assert "backup-1: &lt;1&gt;" in text
    assert marks(text, "hold") == ["source"]
    assert "backup-1" in part(text, 'data-hold="source"', "</span>")
    assert marks(text, "began") == ["no"]


def test_poll_answers_204_when_nothing_has_changed(viewer: Client, running: Rebuild) -> None:
    same = viewer.get(f"/rebuilds/{running.pk}/poll/?revision=7")
    assert same.status_code == 204
    newer = viewer.get(f"/rebuilds/{running.pk}/poll/?revision=6")
    assert newer.status_code == 200
    assert newer["X-Revision"] == "7"
    text = newer.content.decode()
    assert 'id="log-lines" hx-swap-oob="innerHTML"' in text
    assert f'hx-get="/rebuilds/{running.pk}/poll/?revision=7"' in text
    assert "<html" not in text


def test_cancel_is_offered_to_operators_only(operator: Client, viewer: Client, running: Rebuild) -> None:
    address = f"/rebuilds/{running.pk}/actions/"
    assert f"/rebuilds/{running.pk}/cancel/" in operator.get(address).content.decode()
    seen = viewer.get(address).content.decode()
    assert marks(seen, "denied") == ["operate"]
    assert "/cancel/" not in seen
    assert viewer.get(f"/rebuilds/{running.pk}/cancel/").status_code == 403
    assert viewer.post(f"/rebuilds/{running.pk}/cancel/").status_code == 403


def test_cancel_page_writes_nothing(operator: Client, running: Rebuild) -> None:
    answer = operator.get(f"/rebuilds/{running.pk}/cancel/")
    assert answer.status_code == 200
    assert "replica-1" in part(answer.content.decode(), "<h1", "</h1>")
    running.refresh_from_db()
    assert running.cancel_requested_at is None


def test_cancel_is_requested_by_the_person(operator: Client, running: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(view, "cancel_rebuild", lambda *, actor, rebuild: asked.append(f"{actor} {rebuild.pk}"))
    answer = operator.post(f"/rebuilds/{running.pk}/cancel/", follow=True)
    assert asked == [f"olga {running.pk}"]
    assert [message.extra_tags for message in answer.context["messages"]] == ["stopping"]


def test_cancel_of_a_queued_rebuild_ends_it_at_once(operator: Client, running: Rebuild) -> None:
    Rebuild.objects.update(status=Status.QUEUED, started_at=None)
    address = f"/rebuilds/{running.pk}/cancel/"
    assert marks(operator.get(address).content.decode(), "begun") == ["no"]
    answer = operator.post(address, follow=True)
    assert [message.extra_tags for message in answer.context["messages"]] == ["over"]
    running.refresh_from_db()
    assert running.status == Status.CANCELLED
    # Nothing was changed: nothing is offered to undo it, and the page does not explain why.
    text = answer.content.decode()
    assert (marks(text, "unavailable"), "rollback" in text) == ([], False)


def test_cancel_page_says_when_work_has_begun(operator: Client, running: Rebuild) -> None:
    assert marks(operator.get(f"/rebuilds/{running.pk}/cancel/").content.decode(), "begun") == ["yes"]


def test_cancel_shows_its_refusal(operator: Client, running: Rebuild, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise Refused("rebuild.ended", "Cancelling", cause="ended")

    monkeypatch.setattr(view, "cancel_rebuild", refuse)
    answer = operator.post(f"/rebuilds/{running.pk}/cancel/")
    assert answer.status_code == 409
    assert marks(answer.content.decode(), "error") == ["rebuild.ended"]


def test_page_shows_the_newest_commands_and_their_own_page_all(viewer: Client, running: Rebuild) -> None:
    now = timezone.now()
    ExecutedCommand.objects.bulk_create(
        ExecutedCommand(rebuild=running, key=f"k{number}", place="h", text=f"command-{number}.", started_at=now)
        for number in range(queries.COMMANDS_SHOWN + 5)
    )
    page = viewer.get(f"/rebuilds/{running.pk}/").content.decode()
    assert "command-2." not in page
    assert marks(page, "shown") == [f"{queries.COMMANDS_SHOWN}/{queries.COMMANDS_SHOWN + 5}"]
    assert "command-2." in viewer.get(f"/rebuilds/{running.pk}/commands/").content.decode()


def test_pages_take_a_fixed_number_of_queries(
    running: Rebuild, trio: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED)
        make_event(running, "line")
    with django_assert_num_queries(1):
        rebuild = queries.find(running.pk)
    assert rebuild
    with django_assert_num_queries(2):
        assert queries.page(rebuild).title
    with django_assert_num_queries(2):
        page = queries.listed(status="", number=1)
        assert [(item.target.cluster.name, item.source.name, item.requested_by.username) for item in page]


def test_list_names_the_kind_of_a_follow_up(viewer: Client, trio: Any) -> None:
    given = {"target": trio[2], "source": trio[1]}
    failed = make_rebuild(**given, status=Status.FAILED)
    for method in FOLLOW_UPS:
        make_rebuild(**given, status=Status.SUCCEEDED, method=method, follows=failed)
    text = viewer.get("/rebuilds/").content.decode()
    assert sorted(marks(text, "kind")) == sorted(FOLLOW_UPS)
    rows = text.partition("<tbody>")[2].split("<tr>")[1:]
    by_source = {"".join(marks(row, "kind")): f"← {trio[1].name}" in row for row in rows}
    assert by_source == {"": True, "resume": True, "rollback": False}, "nothing is copied in a roll back"


@pytest.mark.parametrize(("method", "compared"), [("xbstream", ["0"]), ("rollback", [])])
def test_only_a_copy_is_compared_with_earlier_rebuilds(
    viewer: Client, trio: Any, method: str, compared: list[str]
) -> None:
    now = timezone.now()
    given = {"status": Status.SUCCEEDED, "started_at": now, "finished_at": now}
    rebuild = make_rebuild(target=trio[2], source=trio[1], method=method, **given)
    assert marks(viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode(), "others") == compared


@pytest.mark.parametrize(
    ("checkpoint", "left"),
    [
        ({"donor_opened": True}, "source server"),
        ({"source_opened": True, "key_forgotten": True}, "source host"),
        ({"source_opened": True, "source_closed": True}, "target host"),
        ({"touched": True, "source_opened": True}, "source host, target host"),
        ({"relaxed": {}}, "target server"),
        ({}, ""),
    ],
)
def test_page_names_what_the_clean_up_has_not_reached(
    viewer: Client, trio: Any, checkpoint: dict[str, Any], left: str
) -> None:
    given = {"status": Status.FAILED, "checkpoint": checkpoint, "sweep_due_at": timezone.now()}
    rebuild = make_rebuild(target=trio[2], source=trio[1], **given)
    assert marks(viewer.get(f"/rebuilds/{rebuild.pk}/").content.decode(), "left") == [left]
