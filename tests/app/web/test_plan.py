"""The plan's page and its confirmation."""

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dbops.engine.errors import Refused
from dbops.engine.plan import Plan
from dbops.engine.states import Severity, Status
from dbops.models import AuditEntry, Instance, Rebuild
from dbops.web.views import plan as view
from tests.app.factories import make_finding, make_plan, make_rebuild, make_trio

pytestmark = pytest.mark.django_db
ADDRESS = "/instances/replica-1/rebuild/"


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, trio: tuple[Instance, Instance, Instance]) -> Callable[..., Plan]:
    """Let the page show a made-up plan: what a plan says is tested where plans are built."""

    def arrange(**values: Any) -> Plan:
        primary, backup, replica = trio

        def plan(*, target: Instance, source: Instance | None = None, keep_old_data: bool = False) -> Plan:
            given = {"keep_old_data": keep_old_data} | values
            return make_plan(target=target, source=source or backup, primary=primary, **given)

        monkeypatch.setattr(view, "plan_rebuild", plan)
        return plan(target=replica)

    return arrange


def refusing(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def refuse(**_: Any) -> Rebuild:
        raise Refused(code, "Requesting", found="<b>found</b>", left="Nothing was changed.", next_step="Read it again.")

    monkeypatch.setattr(view, "request_rebuild", refuse)


def form(shown: Plan, **changes: Any) -> dict[str, Any]:
    return {
        "typed_name": "replica-1",
        "reason": "disk died",
        "source": "backup-1",
        "fingerprint": shown.fingerprint,
        "request_key": str(uuid.uuid4()),
    } | changes


def test_the_plan_shows_both_machines_commands_and_findings_worst_first(
    operator: Client, planned: Callable[..., Plan]
) -> None:
    planned(
        findings=(
            make_finding(Severity.OK, title="Page size"),
            make_finding(Severity.WARNING, title="The target has clients"),
            make_finding(Severity.REFUSAL, title="Not enough room"),
        )
    )
    text = operator.get(ADDRESS).content.decode()
    assert text.index("Not enough room") < text.index("The target has clients") < text.index("Page size")
    for shown in ("root@host-replica-1.example:22", "root@host-backup-1.example:22", "/bin/true # stream", "1.45 TiB"):
        assert shown in text
    assert "Wipe replica-1 and rebuild it from backup-1" in text
    assert "expected —" in text


def test_looking_writes_nothing(operator: Client, planned: Callable[..., Plan]) -> None:
    planned()
    operator.get(ADDRESS)
    assert not Rebuild.objects.exists()
    assert not AuditEntry.objects.exists()


def test_refusals_disable_the_form_and_say_why(operator: Client, planned: Callable[..., Plan]) -> None:
    planned(findings=(make_finding(Severity.REFUSAL, title="Not enough room", seen="310 GiB free"),))
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    assert "“Not enough room” does not hold: 310 GiB free" in text


def test_a_viewer_sees_the_plan_with_a_disabled_form(viewer: Client, planned: Callable[..., Plan]) -> None:
    planned()
    text = viewer.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    assert "Only operators may start a rebuild." in text


def test_a_viewer_who_posts_is_refused(viewer: Client, planned: Callable[..., Plan]) -> None:
    answer = viewer.post(ADDRESS, form(planned()))
    assert answer.status_code == 409
    assert "access.denied" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_a_running_rebuild_of_the_target_disables_the_form(
    operator: Client, planned: Callable[..., Plan], trio: tuple[Instance, Instance, Instance]
) -> None:
    planned()
    rebuild = make_rebuild(target=trio[2], source=trio[1])
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    assert f"Watch rebuild {rebuild.pk}" in text


def test_the_source_and_the_old_data_are_chosen_in_the_address(operator: Client, planned: Callable[..., Plan]) -> None:
    planned()
    text = operator.get(f"{ADDRESS}?source=backup-1&keep_old_data=1").content.decode()
    assert 'name="keep_old_data" value="1"' in text
    assert 'href="/instances/replica-1/rebuild/?source=backup-1&amp;keep_old_data=1"' in text
    assert 'href="/instances/replica-1/rebuild/?source=backup-1"' in text


def test_what_cannot_be_planned_is_explained(operator: Client, monkeypatch: pytest.MonkeyPatch, trio: Any) -> None:
    def refuse(**_: Any) -> Plan:
        raise Refused("plan.no_facts", "Planning", found="backup-1 was never read", next_step="Wait for a probe.")

    monkeypatch.setattr(view, "plan_rebuild", refuse)
    answer = operator.get(ADDRESS)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "plan.no_facts" in text
    assert "backup-1 was never read" in text
    assert "<fieldset" not in text


def test_confirming_asks_for_what_was_shown(
    operator: Client, planned: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch, trio: Any
) -> None:
    shown = planned()
    asked: dict[str, Any] = {}

    def request(**values: Any) -> Rebuild:
        asked.update(values)
        return make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)

    monkeypatch.setattr(view, "request_rebuild", request)
    given = form(shown, keep_old_data="1")
    answer = operator.post(ADDRESS, given)
    assert answer.status_code == 302
    assert answer["Location"] == f"/rebuilds/{Rebuild.objects.get().pk}/"
    assert asked.pop("actor").username == "olga"
    assert asked == {
        "target": trio[2],
        "source": trio[1],
        "typed_name": "replica-1",
        "reason": "disk died",
        "fingerprint": shown.fingerprint,
        "request_key": given["request_key"],
        "keep_old_data": True,
        "start": "soon",
        "expires_hours": None,
    }


def test_a_refusal_shows_its_parts_and_the_new_plan(
    operator: Client, planned: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = planned()
    refusing(monkeypatch, "plan.stale")
    answer = operator.post(ADDRESS, form(shown, reason="disk <i>died</i>"))
    assert answer.status_code == 409
    text = answer.content.decode()
    for part in ("plan.stale", "&lt;b&gt;found&lt;/b&gt;", "Nothing was changed.", "Read it again."):
        assert part in text
    assert 'value="disk &lt;i&gt;died&lt;/i&gt;"' in text
    assert shown.fingerprint in text
    assert "replica-1" not in text.split('id="typed-name"')[1].split(">")[0]


@pytest.mark.parametrize("missing", ["source", "fingerprint", "request_key"])
def test_a_form_with_parts_missing_is_refused(operator: Client, planned: Callable[..., Plan], missing: str) -> None:
    given = form(planned())
    del given[missing]
    answer = operator.post(ADDRESS, given)
    assert answer.status_code == 409
    assert "plan.incomplete" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_a_source_of_another_cluster_is_no_source(operator: Client, planned: Callable[..., Plan]) -> None:
    make_trio("legacy")
    answer = operator.post(ADDRESS, form(planned(), source="legacy-backup-1"))
    assert answer.status_code == 409
    assert "plan.incomplete" in answer.content.decode()


def test_a_post_without_the_csrf_token_is_refused(olga: Any, planned: Callable[..., Plan]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    assert client.post(ADDRESS, form(planned())).status_code == 403


def test_from_the_page_to_a_queued_rebuild(operator: Client, trio: tuple[Instance, Instance, Instance]) -> None:
    page = operator.get(ADDRESS).content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="(source|fingerprint|request_key)" value="([^"]+)"', page))
    given = hidden | {"typed_name": "replica-1", "reason": "disk died"}
    first = operator.post(ADDRESS, given)
    assert first.status_code == 302, first.content.decode()
    rebuild = Rebuild.objects.get()
    assert rebuild.status == Status.QUEUED
    assert rebuild.source == trio[1]
    assert AuditEntry.objects.filter(action="rebuild.requested", actor="olga").count() == 1
    assert operator.post(ADDRESS, given)["Location"] == first["Location"]
    assert Rebuild.objects.count() == 1
    shown = operator.get(first["Location"]).content.decode()
    assert "queued" in shown
    assert "disk died" in shown


def test_the_wrong_name_starts_nothing(operator: Client, trio: tuple[Instance, Instance, Instance]) -> None:
    page = operator.get(ADDRESS).content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="(source|fingerprint|request_key)" value="([^"]+)"', page))
    answer = operator.post(ADDRESS, hidden | {"typed_name": "replica-2", "reason": "disk died"})
    assert answer.status_code == 409
    assert "rebuild.name" in answer.content.decode()
    assert not Rebuild.objects.exists()
