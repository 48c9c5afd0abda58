"""Pages after an unsuccessful rebuild: retry, rollback, and force-fail of a lost one."""

import re
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from dbops.engine.methods import FOLLOW_UPS, METHODS
from dbops.engine.rebuilds.plan import Plan, PlannedStep
from dbops.engine.states import Role, Status, StepState
from dbops.models import AuditEntry, Hold, Instance, Rebuild, RebuildStep
from dbops.operations.follow_up_options import OPTIONS
from dbops.queries.rebuilds import pages as queries
from dbops.web.live import fragments
from tests.app.factories import make_plan, make_rebuild, make_trio

from .marks import marks, part

pytestmark = pytest.mark.django_db

MEMORY = {
    "touched": True,
    "new_identity": "1:2",
    "aside_path": "/var/lib/mysql.dbops-old-RUN",
    "aside_identity": "1:1",
    "checkpoints": {"backup_type": "full-backuped"},
    "position": {},
}
PROGRAMS = {
    "target.backup": "/usr/bin/mariadb-backup",
    "target.client": "/usr/bin/mariadb",
    "target.server": "/usr/sbin/mariadbd",
}
METHOD = ["rollback", "resume"]
PAGES = [*METHOD, "force-fail"]
REASON = "no <good>"


def plan_of(target: Instance, source: Instance) -> Plan:
    steps = tuple(PlannedStep(step.name, step.title) for step in METHODS["xbstream"].steps)
    return make_plan(target=target, source=source, steps=steps, aside_path=MEMORY["aside_path"], programs=PROGRAMS)


def failed_in(step: str, trio: Any, *, checkpoint: dict[str, Any] | None = None, **values: Any) -> Rebuild:
    """Return a rebuild whose copy failed in this step; what came before is done."""
    given = {"status": Status.FAILED, "plan": plan_of(trio[2], trio[1])} | values
    rebuild = make_rebuild(
        target=trio[2], source=trio[1], checkpoint=MEMORY if checkpoint is None else checkpoint, **given
    )
    names = list(rebuild.steps.values_list("name", flat=True))
    at = names.index(step)
    RebuildStep.objects.filter(rebuild=rebuild, position__lt=at).update(state=StepState.DONE)
    RebuildStep.objects.filter(rebuild=rebuild, position=at).update(state=StepState.FAILED)
    RebuildStep.objects.filter(rebuild=rebuild, position__gt=at).update(state=StepState.SKIPPED)
    return rebuild


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def failed(trio: Any) -> Rebuild:
    return failed_in("set-ownership", trio)


@pytest.fixture
def lost(trio: Any) -> Rebuild:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.LOST)
    for instance, purpose in ((trio[1], "source"), (trio[2], "target")):
        Hold.objects.create(instance=instance, rebuild=rebuild, purpose=purpose, taken_at=rebuild.requested_at)
    return rebuild


def typed(**changes: str) -> dict[str, str]:
    return {"typed_name": "replica-1", "reason": REASON, "request_key": str(uuid.uuid4())} | changes


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def unavailable(page: str) -> dict[str, str]:
    """Return why a page does not offer a follow-up, by the follow-up."""
    return dict(zip(marks(page, "unavailable"), marks(page, "reason"), strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_pages_need_an_operator(client: Client, stranger: Client, viewer: Client, failed: Rebuild, page: str) -> None:
    address = f"/rebuilds/{failed.pk}/{page}/"
    for send in (client.get, client.post):
        assert (
            send(address, headers={"referer": f"http://testserver{address}"})["Location"] == f"/login/?next={address}"
        )
    for person in (stranger, viewer):
        assert person.get(address).status_code == 403
        assert person.post(address, typed()).status_code == 403
    assert Rebuild.objects.count() == 1
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("page", PAGES)
def test_pages_answer_404_for_unknown_rebuilds_and_follow_ups(operator: Client, failed: Rebuild, page: str) -> None:
    assert operator.get(f"/rebuilds/999/{page}/").status_code == 404
    assert operator.get(f"/rebuilds/{failed.pk}/{page}s/").status_code == 404
    assert operator.put(f"/rebuilds/{failed.pk}/{page}/").status_code == 405


@pytest.mark.parametrize("method", METHOD)
def test_page_shows_every_step_and_writes_nothing(operator: Client, failed: Rebuild, method: str) -> None:
    before = Rebuild.objects.values().get()
    answer = operator.get(f"/rebuilds/{failed.pk}/{method}/")
    text = text_of(answer)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert marks(text, "step") == [step.name for step in FOLLOW_UPS[method].steps]
    for step in FOLLOW_UPS[method].steps:
        assert escape(step.title) in text
    assert "/var/lib/mysql.dbops-old-RUN" in text
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert " style=" not in text
    assert Rebuild.objects.values().get() == before
    assert not AuditEntry.objects.exists()


def test_page_shows_what_is_removed(operator: Client, failed: Rebuild) -> None:
    paths = {}
    for method in METHOD:
        answer = operator.get(f"/rebuilds/{failed.pk}/{method}/")
        [destroys] = answer.context["plan"].destroys
        assert escape(destroys) in text_of(answer)
        paths[method] = re.findall(r"/var/lib/[\w.-]*\w", destroys)
    assert paths == {"rollback": ["/var/lib/mysql"], "resume": ["/var/lib/mysql.dbops-old-RUN"]}


def test_retry_page_names_the_steps_that_are_skipped(operator: Client, failed: Rebuild) -> None:
    answer = operator.get(f"/rebuilds/{failed.pk}/resume/")
    assert answer.context["option"].skips == ("prepare",)
    assert FOLLOW_UPS["resume"].step("set-ownership").title in answer.context["option"].reason
    assert escape(answer.context["option"].reason) in text_of(answer)
    assert re.findall(r'data-step="([\w-]+)" data-skipped', text_of(answer)) == ["prepare"]


@pytest.mark.parametrize("method", METHOD)
def test_request_queues_a_rebuild_and_links_both_ways(
    operator: Client, viewer: Client, failed: Rebuild, method: str
) -> None:
    answer = operator.post(f"/rebuilds/{failed.pk}/{method}/", typed())
    following = Rebuild.objects.get(follows=failed)
    assert answer["Location"] == f"/rebuilds/{following.pk}/"
    assert (following.method, following.status, following.reason) == (method, Status.QUEUED, REASON)
    newer, older = (text_of(viewer.get(f"/rebuilds/{item.pk}/")) for item in (following, failed))
    assert re.findall(r'data-follows="(\d+)"', newer) == [str(failed.pk)]
    assert re.findall(r'data-follower="(\d+)"', older) == [str(following.pk)]
    assert f'href="/rebuilds/{failed.pk}/"' in newer
    assert f'href="/rebuilds/{following.pk}/"' in older
    # The plan of a rebuild shows its machines; that of a follow-up only its steps.
    assert 'class="table card-table parties"' in older
    assert 'class="table card-table parties"' not in newer


@pytest.mark.parametrize("method", METHOD)
def test_second_click_returns_the_same_rebuild(operator: Client, failed: Rebuild, method: str) -> None:
    form = typed()
    first, second = (operator.post(f"/rebuilds/{failed.pk}/{method}/", form) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert Rebuild.objects.filter(follows=failed).count() == 1
    assert AuditEntry.objects.filter(action__endswith="_requested").count() == 1


@pytest.mark.parametrize("method", METHOD)
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"typed_name": "backup-1"}, "rebuild.name"),
        ({"typed_name": "REPLICA-1"}, "rebuild.name"),
        ({"typed_name": ""}, "rebuild.name"),
        ({"request_key": ""}, "plan.incomplete"),
        ({"request_key": "1' OR 1=1"}, "plan.incomplete"),
    ],
)
def test_refusal_shows_its_code_and_keeps_the_reason(
    operator: Client, failed: Rebuild, method: str, changes: dict[str, str], code: str
) -> None:
    answer = operator.post(f"/rebuilds/{failed.pk}/{method}/", typed(**changes))
    text = text_of(answer)
    assert answer.status_code == 409
    assert f"<code>{code}</code>" in text
    assert f'value="{escape(REASON)}"' in text
    assert Rebuild.objects.count() == 1
    # what is sent after the refusal is a new request
    key = re.search(r'name="request_key" value="([^"]+)"', text)
    assert key
    assert key[1] != changes.get("request_key")
    assert operator.post(f"/rebuilds/{failed.pk}/{method}/", typed(request_key=key[1])).status_code == 302


@pytest.mark.parametrize("reason", ["", "  ", "ab"])
@pytest.mark.parametrize("method", METHOD)
def test_request_is_refused_without_a_reason(operator: Client, failed: Rebuild, method: str, reason: str) -> None:
    answer = operator.post(f"/rebuilds/{failed.pk}/{method}/", typed(reason=reason))
    assert (answer.status_code, "rebuild.reason" in text_of(answer)) == (409, True)
    assert Rebuild.objects.count() == 1


@pytest.mark.parametrize("method", METHOD)
def test_request_is_refused_without_the_csrf_token(olga: Any, failed: Rebuild, method: str) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(olga)
    assert strict.post(f"/rebuilds/{failed.pk}/{method}/", typed()).status_code == 403
    assert Rebuild.objects.count() == 1


def test_page_has_no_form_when_the_follow_up_is_not_possible(operator: Client, trio: Any) -> None:
    rebuild = failed_in("stream", trio, checkpoint={key: MEMORY[key] for key in MEMORY if key != "checkpoints"})
    text = text_of(operator.get(f"/rebuilds/{rebuild.pk}/resume/"))
    assert unavailable(text) == {"resume": "incomplete_copy"}
    assert "typed_name" not in text
    answer = operator.post(f"/rebuilds/{rebuild.pk}/resume/", typed())
    assert (answer.status_code, "rebuild.no_follow_up" in text_of(answer)) == (409, True)
    assert Rebuild.objects.count() == 1


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
def test_page_offers_follow_ups_to_operators_only(operator: Client, viewer: Client, trio: Any, status: Status) -> None:
    rebuild = failed_in("set-ownership", trio, status=status)
    seen, looked = (text_of(person.get(f"/rebuilds/{rebuild.pk}/")) for person in (operator, viewer))
    for method in METHOD:
        assert f'href="/rebuilds/{rebuild.pk}/{method}/"' in seen
        assert f'href="/rebuilds/{rebuild.pk}/{method}/"' not in looked
    assert unavailable(seen) == {}


def test_page_shows_why_a_follow_up_is_not_offered(viewer: Client, operator: Client, trio: Any) -> None:
    checkpoint = {**MEMORY, "aside_path": "", "aside_identity": "", "prepare.begun": True}
    rebuild = failed_in("prepare", trio, checkpoint=checkpoint)
    answer = viewer.get(f"/rebuilds/{rebuild.pk}/")
    assert unavailable(text_of(answer)) == {"rollback": "no_old_data", "resume": "incomplete_prepare"}
    for option in (answer.context["follow_ups"][name] for name in ("rollback", "resume")):
        assert escape(option.reason) in part(text_of(answer), f'data-unavailable="{option.method}"', "</p>")
    actions = text_of(operator.get(f"/rebuilds/{rebuild.pk}/actions/"))
    assert "rollback" not in actions
    assert "resume" not in actions


def test_page_shows_one_reason_when_nothing_was_changed(viewer: Client, trio: Any) -> None:
    rebuild = failed_in("preflight", trio, checkpoint={})
    text = text_of(viewer.get(f"/rebuilds/{rebuild.pk}/"))
    assert unavailable(text) == {"both": "untouched"}


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.EXPIRED, Status.RUNNING, Status.LOST, Status.QUEUED])
def test_page_offers_nothing_after_other_ends(operator: Client, trio: Any, status: Status) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=status, checkpoint=MEMORY)
    text = text_of(operator.get(f"/rebuilds/{rebuild.pk}/"))
    assert "rollback" not in text
    assert unavailable(text) == {}


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        ({"status": Status.SUCCEEDED, "checkpoint": {"touched": True}}, "overtaken"),
        ({"status": Status.FAILED, "checkpoint": {"touched": True}}, "overtaken"),
        ({"status": Status.QUEUED}, "busy"),
        ({"status": Status.LOST}, "busy"),
    ],
)
def test_page_offers_nothing_when_another_rebuild_followed(
    operator: Client, trio: Any, newer: dict[str, Any], why: str
) -> None:
    rebuild = failed_in("set-ownership", trio)
    other = make_rebuild(target=trio[2], source=trio[1], **newer)
    text = text_of(operator.get(f"/rebuilds/{rebuild.pk}/"))
    assert unavailable(text) == {"both": why}
    shown = part(text, 'data-unavailable="both"', "</p>")
    assert f" {other.pk} " in shown
    assert why == "overtaken" or str(newer["status"]) in shown
    for method in METHOD:
        assert f"/{method}/" not in text
        assert operator.post(f"/rebuilds/{rebuild.pk}/{method}/", typed()).status_code == 409
    assert Rebuild.objects.count() == 2


def test_page_offers_follow_ups_when_the_newer_rebuild_changed_nothing(operator: Client, trio: Any) -> None:
    rebuild = failed_in("set-ownership", trio)
    make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED, checkpoint={})
    assert "/rollback/" in text_of(operator.get(f"/rebuilds/{rebuild.pk}/"))


def test_page_offers_nothing_when_the_target_became_the_primary(operator: Client, failed: Rebuild) -> None:
    Instance.objects.filter(role=Role.PRIMARY).update(role=Role.REPLICA)
    Instance.objects.filter(pk=failed.target_id).update(role=Role.PRIMARY)
    assert unavailable(text_of(operator.get(f"/rebuilds/{failed.pk}/"))) == {"both": "primary"}
    for method in METHOD:
        assert operator.post(f"/rebuilds/{failed.pk}/{method}/", typed()).status_code == 409


def test_lost_rebuild_is_ended_without_its_hosts(operator: Client, viewer: Client, lost: Rebuild) -> None:
    address = f"/rebuilds/{lost.pk}/force-fail/"
    assert address in text_of(operator.get(f"/rebuilds/{lost.pk}/actions/"))
    assert address not in text_of(viewer.get(f"/rebuilds/{lost.pk}/actions/"))
    asked = operator.get(address)
    freed = part(text_of(asked), "data-frees>", "</dd>")
    assert "backup-1" in freed
    assert "replica-1" in freed
    assert "no-store" in asked["Cache-Control"]
    assert (Rebuild.objects.get().status, Hold.objects.count()) == (Status.LOST, 2)

    without = operator.post(address, {"reason": " "})
    assert (without.status_code, "rebuild.reason" in text_of(without)) == (409, True)
    assert Rebuild.objects.get().status == Status.LOST

    answer = operator.post(address, {"reason": "the host burned down"}, follow=True)
    [message] = answer.context["messages"]
    assert (message.level_tag, f" {lost.pk} " in str(message)) == ("success", True)
    assert (Rebuild.objects.get().status, Hold.objects.count()) == (Status.FAILED, 0)

    again = operator.post(address, {"reason": "once <more>"})
    assert (again.status_code, "rebuild.not_lost" in text_of(again)) == (409, True)
    assert AuditEntry.objects.filter(action="rebuild.force_failed").count() == 1


@pytest.mark.parametrize("status", [Status.RUNNING, Status.QUEUED, Status.SUCCEEDED, Status.CANCELLED])
def test_end_is_refused_when_the_rebuild_is_not_lost(operator: Client, trio: Any, status: Status) -> None:
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=status)
    assert "/end/" not in text_of(operator.get(f"/rebuilds/{rebuild.pk}/actions/"))
    page = text_of(operator.get(f"/rebuilds/{rebuild.pk}/force-fail/"))
    assert marks(page, "not-lost") == [status]
    assert 'name="reason"' not in page
    answer = operator.post(f"/rebuilds/{rebuild.pk}/force-fail/", {"reason": "impatience"})
    assert (answer.status_code, "rebuild.not_lost" in text_of(answer)) == (409, True)
    assert Rebuild.objects.get().status == status


def test_page_hides_the_numbers_of_a_silent_host(viewer: Client, lost: Rebuild) -> None:
    known = {"bytes": 5, "total_bytes": 50, "rate_bytes_per_second": 412e6, "percent": 10.0, "eta_seconds": 125}
    RebuildStep.objects.filter(rebuild=lost, name="stream").update(
        state=StepState.RUNNING, started_at=lost.started_at, progress=known
    )
    address = f"/rebuilds/{lost.pk}/"
    text = text_of(viewer.get(address))
    assert "393 MiB/s" in text
    assert "data-last-seen" not in text
    assert "data-silent" not in text
    Rebuild.objects.update(unreachable_since=lost.requested_at)
    text = text_of(viewer.get(address))
    assert "data-last-seen" in text
    assert "data-silent" in text
    assert (marks(text, "rate"), marks(text, "left")) == (["unknown"], ["unknown"])
    assert "393 MiB/s" not in text
    assert "2 min 05 s" not in text


def test_offers_take_a_fixed_number_of_queries(
    trio: Any, operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rebuild = failed_in("set-ownership", trio)
    for _ in range(20):
        make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED)
    found = queries.find(rebuild.pk)
    assert found
    with django_assert_max_num_queries(2):
        assert fragments.follow_ups_of(found)["resume"].is_possible
    running = make_rebuild(target=trio[2], source=trio[1])
    with django_assert_max_num_queries(0):
        assert fragments.follow_ups_of(running) == {}
    with django_assert_max_num_queries(11):  # three of them: its newest points, the last rebuilds, the dumps
        assert fragments.snapshot(rebuild.pk)


def test_every_follow_up_has_its_page() -> None:
    assert set(OPTIONS) == set(FOLLOW_UPS) == set(METHOD)


@pytest.mark.parametrize(("did_run", "said"), [(True, []), (False, ["stopped"])])
def test_rollback_page_warns_of_a_server_that_stays_stopped(
    operator: Client, trio: Any, did_run: bool, said: list[str]
) -> None:
    plan = plan_of(trio[2], trio[1])
    failed = failed_in("stream", trio, plan=replace(plan, target=replace(plan.target, is_answering=did_run)))
    answer = operator.get(f"/rebuilds/{failed.pk}/rollback/")
    assert answer.context["option"].is_possible
    assert marks(answer.content.decode(), "stays") == said
