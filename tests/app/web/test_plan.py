"""The plan's page and its confirmation."""

import html
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.rebuilds.kept_replication import Fate, KeptReplication, KeptSetting
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Severity, Status
from dbops.models import AuditEntry, Instance, Rebuild
from dbops.web.templatetags.dbops import clean
from dbops.web.views import plan as view
from tests.app.factories import (
    make_facts,
    make_finding,
    make_instance,
    make_plan,
    make_rebuild,
    make_run,
    make_schedule,
    make_trio,
)

from .marks import marks, part

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

        def plan(*, target: Instance, source: Instance | None = None, **chosen: bool) -> Plan:
            given = chosen | values
            return make_plan(target=target, source=source or backup, primary=primary, **given)

        monkeypatch.setattr(view, "plan_inputs_for", lambda **asked: asked)
        monkeypatch.setattr(view, "compare", lambda *_: ())
        monkeypatch.setattr(view, "build_plan", lambda asked, _: plan(**asked))
        return plan(target=replica)

    return arrange


def refusing(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def refuse(**_: Any) -> Rebuild:
        raise Refused(code, "Requesting", cause="<b>found</b>", state="left-part", next_step="next-part")

    monkeypatch.setattr(view, "request_rebuild", refuse)


def form(shown: Plan, **changes: Any) -> dict[str, Any]:
    return {
        "typed_name": "replica-1",
        "reason": "disk died",
        "source": "backup-1",
        "fingerprint": shown.fingerprint,
        "request_key": str(uuid.uuid4()),
    } | changes


def test_page_shows_machines_commands_and_the_worst_findings_first(
    operator: Client, planned: Callable[..., Plan]
) -> None:
    planned(
        findings=(
            make_finding(Severity.OK, code="target.page_size"),
            make_finding(Severity.WARNING, code="target.clients"),
            make_finding(Severity.REFUSAL, code="target.space"),
        )
    )
    text = operator.get(ADDRESS).content.decode()
    assert marks(text, "finding") == ["target.space", "target.clients", "target.page_size"]
    for shown in ("root@host-replica-1.example:22", "root@host-backup-1.example:22", "/bin/true # stream", "1.45 TiB"):
        assert shown in text
    button = part(text, "data-once>", "</button>")
    assert "replica-1" in button
    assert "backup-1" in button
    assert set(marks(part(text, 'class="plan-steps"', "</ol>"), "predicted")) == {"unknown"}


def test_page_shows_how_the_target_replicates_afterwards(operator: Client, planned: Callable[..., Plan]) -> None:
    kept = KeptSetting("MASTER_SSL", "1", "1", Fate.KEPT)
    changed = KeptSetting("MASTER_DELAY", "60", "5", Fate.CHANGED, "<b>why</b>")
    planned(replication=KeptReplication(settings=(kept, changed)))
    section = part(operator.get(ADDRESS).content.decode(), 'id="fold-replication"', "</details>")
    assert marks(section, "setting") == ["MASTER_SSL", "MASTER_DELAY"]
    assert marks(section, "fate") == ["kept", "changed"]
    assert "<b>" not in section
    planned()
    assert "fold-replication" not in operator.get(ADDRESS).content.decode()


def test_page_shows_the_reasons_of_the_prepare_step(operator: Client, planned: Callable[..., Plan]) -> None:
    planned(prepare_reasons=("3 GiB.", "4 <threads>."))
    text = operator.get(ADDRESS).content.decode()
    step = text[text.index('data-step="prepare"') : text.index("/bin/true # prepare")]
    assert re.findall("<li>(.*?)</li>", step) == ["3 GiB.", "4 &lt;threads&gt;."]
    assert (text.count("3 GiB."), text.count("4 &lt;threads&gt;.")) == (1, 1)


def test_page_writes_nothing(operator: Client, planned: Callable[..., Plan]) -> None:
    planned()
    operator.get(ADDRESS)
    assert not Rebuild.objects.exists()
    assert not AuditEntry.objects.exists()


def test_form_is_disabled_when_a_check_refuses(operator: Client, planned: Callable[..., Plan]) -> None:
    planned(findings=(make_finding(Severity.REFUSAL, code="target.space", title="Room", seen="310 GiB free"),))
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    reasons = part(text, 'id="blocking-reasons"', "</div>")
    assert marks(reasons, "blocking") == ["finding.target.space"]
    assert "Room" in reasons
    assert "310 GiB free" in reasons


def test_form_is_disabled_for_a_viewer(viewer: Client, planned: Callable[..., Plan]) -> None:
    planned()
    text = viewer.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    assert marks(part(text, 'id="blocking-reasons"', "</div>"), "blocking") == ["access"]


def test_request_of_a_viewer_is_refused(viewer: Client, planned: Callable[..., Plan]) -> None:
    answer = viewer.post(ADDRESS, form(planned()))
    assert answer.status_code == 409
    assert "access.denied" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_form_is_disabled_when_the_target_is_being_rebuilt(
    operator: Client, planned: Callable[..., Plan], trio: tuple[Instance, Instance, Instance]
) -> None:
    planned()
    rebuild = make_rebuild(target=trio[2], source=trio[1])
    text = operator.get(ADDRESS).content.decode()
    assert "<fieldset disabled>" in text
    reasons = part(text, 'id="blocking-reasons"', "</div>")
    assert "busy" in marks(reasons, "blocking")
    assert f'href="/rebuilds/{rebuild.pk}/"' in reasons


def test_plan_page_takes_source_and_old_data_from_the_address(operator: Client, planned: Callable[..., Plan]) -> None:
    planned()
    text = operator.get(f"{ADDRESS}?source=backup-1&keep_old_data=1").content.decode()
    assert 'name="keep_old_data" value="1"' in text
    assert 'href="/instances/replica-1/rebuild/?source=backup-1&amp;keep_old_data=1"' in text
    assert 'href="/instances/replica-1/rebuild/?source=backup-1"' in text


def test_plan_page_takes_the_certificate_from_the_address(operator: Client, planned: Callable[..., Plan]) -> None:
    planned()
    text = operator.get(f"{ADDRESS}?source=backup-1&full_certificate=1").content.decode()
    assert 'name="full_certificate" value="1"' in text
    assert 'href="/instances/replica-1/rebuild/?source=backup-1&amp;full_certificate=1"' in text


def test_plan_page_shows_the_refusal_when_there_is_no_plan(
    operator: Client, monkeypatch: pytest.MonkeyPatch, trio: Any
) -> None:
    def refuse(**_: Any) -> Plan:
        raise Refused("plan.no_facts", "Planning", cause="backup-1: unread", next_step="Wait.")

    monkeypatch.setattr(view, "plan_inputs_for", refuse)
    answer = operator.get(ADDRESS)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert marks(text, "error") == ["plan.no_facts"]
    assert "backup-1: unread" in text
    assert "<fieldset" not in text


def test_confirmation_requests_the_shown_plan(
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
        "method": "xbstream",
        "keep_old_data": True,
        "full_certificate": False,
        "start": "soon",
        "expires_hours": None,
        "repeats": None,
        "rate": None,
        "ticket": "",
    }


def test_refusal_page_shows_the_error_and_the_new_plan(
    operator: Client, planned: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = planned()
    refusing(monkeypatch, "plan.stale")
    answer = operator.post(ADDRESS, form(shown, reason="disk <i>7</i>"))
    assert answer.status_code == 409
    text = answer.content.decode()
    for shown_part in ("plan.stale", "&lt;b&gt;found&lt;/b&gt;", "left-part", "next-part"):
        assert shown_part in text
    assert f'value="{html.escape("disk <i>7</i>")}"' in text
    assert shown.fingerprint in text
    assert 'value=""' in text.split('id="typed-name"')[1].split(">")[0], "the name confirmed another plan"


@pytest.mark.parametrize("missing", ["source", "fingerprint", "request_key"])
def test_confirmation_refuses_missing_fields(operator: Client, planned: Callable[..., Plan], missing: str) -> None:
    given = form(planned())
    del given[missing]
    answer = operator.post(ADDRESS, given)
    assert answer.status_code == 409
    assert "plan.incomplete" in answer.content.decode()
    assert not Rebuild.objects.exists()


def test_plan_page_refuses_a_source_of_another_cluster(operator: Client, planned: Callable[..., Plan]) -> None:
    make_trio("legacy")
    answer = operator.post(ADDRESS, form(planned(), source="legacy-backup-1"))
    assert answer.status_code == 409
    assert "plan.incomplete" in answer.content.decode()


def test_confirmation_needs_the_csrf_token(olga: Any, planned: Callable[..., Plan]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    assert client.post(ADDRESS, form(planned())).status_code == 403


def test_confirmation_queues_a_rebuild(operator: Client, trio: tuple[Instance, Instance, Instance]) -> None:
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


HIDDEN = r'<input type="hidden" name="(source|fingerprint|request_key|shown)" value="([^"]+)"'


def typed(operator: Client, **changes: Any) -> dict[str, Any]:
    """The page's own form as a person fills it in."""
    page = operator.get(ADDRESS).content.decode()
    return dict(re.findall(HIDDEN, page)) | {"typed_name": "replica-1", "reason": "disk died"} | changes


@pytest.mark.parametrize(
    ("given", "code", "where", "says"),
    [
        ({"typed_name": "replica-2"}, "rebuild.name", "typed-name", "replica-2"),
        ({"typed_name": "\x1b[2Jx\0"}, "rebuild.name", "typed-name", ""),
        ({"reason": "x"}, "rebuild.reason", "reason", "3"),
        ({"reason": "x" * 2001}, "rebuild.reason", "reason", "2000"),
        ({"expires_hours": "never"}, "plan.expiry", "expires-hours", ""),
    ],
)
def test_form_error_names_the_field_and_keeps_what_was_typed(
    operator: Client, trio: Any, given: dict[str, str], code: str, where: str, says: str
) -> None:
    answer = operator.post(ADDRESS, typed(operator, **given))
    assert answer.status_code == 409
    text = answer.content.decode()
    assert f"<code>{code}</code>" in text
    field = text.split(f'id="{where}"')[1]
    assert 'aria-invalid="true"' in field.split(">")[0]
    shown = html.unescape(field.split(f'id="{where}-bad"')[1].split("</p>")[0])
    assert clean(answer.context["refused"].cause)[1:] in shown
    assert says in shown
    assert "\x1b" not in text
    for name, value in ({"typed_name": "replica-1", "reason": "disk died"} | given).items():
        assert name == "typed_name" and "\x1b" in value or f'value="{value[:2000]}"' in text
    assert 'id="changes"' not in text
    assert not Rebuild.objects.exists()


def test_page_takes_a_fixed_number_of_queries(operator: Client, trio: Any) -> None:
    operator.get(ADDRESS)
    with CaptureQueriesContext(connection) as few:
        operator.get(ADDRESS)
    schedule = make_schedule(trio[1])
    for days in range(1, 5):
        ended = timezone.now() - timedelta(days=days)
        past = make_rebuild(target=trio[2], source=trio[1], status=Status.SUCCEEDED, finished_at=ended)
        past.steps.update(state="done", started_at=ended - timedelta(minutes=1), finished_at=ended)
        make_run(trio[1], schedule=schedule, started_at=ended, seconds=60)
    make_instance("replica-2", cluster=trio[2].cluster, facts=make_facts(server_id=4))
    operator.get(ADDRESS)
    with CaptureQueriesContext(connection) as many:
        operator.get(ADDRESS)
    # One for what due times the schedule's windows have, and one for how long its runs took.
    assert len(many) - len(few) <= 2, [item["sql"][:120] for item in many.captured_queries]
    assert len(many) <= 42


def test_plan_that_cannot_start_does_not_say_that_it_can(
    operator: Client, viewer: Client, planned: Callable[..., Plan]
) -> None:
    planned()
    free, refused = operator.get(ADDRESS), viewer.get(ADDRESS)
    for answer, reasons, said in ((free, [], True), (refused, ["access"], False)):
        assert answer.context["eligibility"].answer == "now"
        assert [item.code for item in answer.context["blocking_reasons"]] == reasons
        assert ('data-eligibility="now"' in answer.content.decode()) is said
