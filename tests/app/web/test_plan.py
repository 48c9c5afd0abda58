"""The plan's page and its confirmation."""

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Severity, Status
from dbops.models import AuditEntry, Instance, Rebuild
from dbops.web.views import plan as view
from tests.app.factories import (
    GIB,
    make_channel,
    make_datadir_facts,
    make_facts,
    make_finding,
    make_host_facts,
    make_instance,
    make_plan,
    make_rebuild,
    make_run,
    make_schedule,
    make_trio,
    set_facts,
)

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

        monkeypatch.setattr(view, "situation_to_plan", lambda **asked: asked)
        monkeypatch.setattr(view, "compare", lambda _: ())
        monkeypatch.setattr(view, "build_plan", lambda asked, _: plan(**asked))
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
    assert "expected time not known yet" in text


def test_the_prepare_step_says_what_was_chosen_and_why(operator: Client, planned: Callable[..., Plan]) -> None:
    planned(prepare_reasons=("3 GiB for 1 GiB of redo log.", "The tool's own 4 read threads."))
    text = operator.get(ADDRESS).content.decode()
    step = text[text.index("Prepare the data") : text.index("/bin/true # prepare")]
    assert "<li>3 GiB for 1 GiB of redo log.</li>" in step
    assert step.count("<li>") == text.count("redo log.</li>") + text.count("read threads.</li>") == 2


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

    monkeypatch.setattr(view, "situation_to_plan", refuse)
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
        "method": "xbstream",
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
    assert 'value=""' in text.split('id="typed-name"')[1].split(">")[0], "the name confirmed another plan"


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


HIDDEN = r'<input type="hidden" name="(source|fingerprint|request_key|shown)" value="([^"]+)"'


def typed(operator: Client, **changes: Any) -> dict[str, Any]:
    """The page's own form as a person fills it in."""
    page = operator.get(ADDRESS).content.decode()
    return dict(re.findall(HIDDEN, page)) | {"typed_name": "replica-1", "reason": "disk died"} | changes


@pytest.mark.parametrize(
    ("given", "code", "where", "says"),
    [
        ({"typed_name": "replica-2"}, "rebuild.name", "typed-name", "The name typed is &#x27;replica-2&#x27;"),
        ({"typed_name": "\x1b[2Jx\0"}, "rebuild.name", "typed-name", "The name typed is"),
        ({"reason": "x"}, "rebuild.reason", "reason", "No reason was given"),
        ({"reason": "x" * 2001}, "rebuild.reason", "reason", "longer than 2000"),
        ({"expires_hours": "never"}, "plan.expiry", "expires-hours", "no number within the bounds"),
    ],
)
def test_a_form_error_says_what_and_where_and_keeps_what_was_typed(
    operator: Client, trio: Any, given: dict[str, str], code: str, where: str, says: str
) -> None:
    answer = operator.post(ADDRESS, typed(operator, **given))
    assert answer.status_code == 409
    text = answer.content.decode()
    assert f"<code>{code}</code>" in text
    field = text.split(f'id="{where}"')[1]
    assert 'aria-invalid="true"' in field.split(">")[0]
    assert says in field.split(f'id="{where}-bad"')[1].split("</p>")[0]
    assert "\x1b" not in text
    for name, value in ({"typed_name": "replica-1", "reason": "disk died"} | given).items():
        assert name == "typed_name" and "\x1b" in value or f'value="{value[:2000]}"' in text
    assert 'id="changes"' not in text
    assert not Rebuild.objects.exists()


class TestAStalePlan:
    """Facts change between the page and the click: nothing is started, and the page says what differs."""

    def test_the_differences_are_shown_and_the_new_plan_can_be_confirmed(self, operator: Client, trio: Any) -> None:
        given = typed(operator, reason="disk <i>died</i>")
        changed = make_facts(server_id=3, version="10.11.20", replication=(make_channel(),))
        set_facts(trio[2], replace(changed, datadir=make_datadir_facts(identity="64769:99", data_bytes=GIB)))
        set_facts(
            trio[1],
            replace(
                make_facts(server_id=2, replication=(make_channel(),)),
                datadir=make_datadir_facts(data_bytes=1000 * GIB),
            ),
        )
        answer = operator.post(ADDRESS, given)
        assert answer.status_code == 409
        text = answer.content.decode()
        assert "<code>plan.stale</code>" in text
        table = text.split('id="changes"')[1].split("</section>")[0]
        for shown in ("Target: device and inode of the data directory", "64769:1835010", "64769:99"):
            assert shown in table
        for shown in (
            "Target: version",
            "10.11.19",
            "10.11.20",
            "To copy",
            "1.45 TiB",
            "1000 GiB",
            "changes by itself",
        ):
            assert shown in table
        assert 'value="disk &lt;i&gt;died&lt;/i&gt;"' in text
        again = given | dict(re.findall(HIDDEN, text))
        assert again["fingerprint"] != given["fingerprint"]
        assert operator.post(ADDRESS, again).status_code == 302, (
            "the form of the answer confirms the plan of the answer"
        )
        assert Rebuild.objects.get().plan["target"]["datadir_identity"] == "64769:99"

    def test_what_a_host_says_is_shown_as_text(self, operator: Client, trio: Any) -> None:
        given = typed(operator)
        evil = make_host_facts(hostname="<script>alert(1)</script>\x1b[31m\u202e")
        set_facts(trio[2], replace(make_facts(server_id=3, replication=(make_channel(),)), host=evil))
        table = operator.post(ADDRESS, given).content.decode().split('id="changes"')[1].split("</section>")[0]
        assert "&lt;script&gt;alert(1)" in table
        assert not {"\x1b", "\u202e"} & set(table)

    @pytest.mark.parametrize("forged", ["", "x", "eyJwbGFuIjp7fX0:1abcde:nonsense", "x" * 70_000])
    def test_without_what_was_shown_the_reason_alone_is_told(self, operator: Client, trio: Any, forged: str) -> None:
        given = typed(operator, shown=forged)
        set_facts(trio[2], make_facts(server_id=3, version="10.11.20", replication=(make_channel(),)))
        text = operator.post(ADDRESS, given).content.decode()
        assert "<code>plan.stale</code>" in text
        assert 'id="changes"' not in text

    def test_what_belongs_to_another_plan_is_not_compared(self, operator: Client, trio: Any) -> None:
        other = typed(operator)["shown"]
        set_facts(trio[2], make_facts(server_id=3, version="10.11.20", replication=(make_channel(),)))
        given = typed(operator, shown=other)
        set_facts(trio[2], make_facts(server_id=3, version="10.11.21", replication=(make_channel(),)))
        assert 'id="changes"' not in operator.post(ADDRESS, given).content.decode()

    def test_a_start_that_is_gone_is_one_of_the_differences(self, operator: Client, trio: Any) -> None:
        page = operator.get(ADDRESS).content.decode()
        given = typed(operator, start=re.findall(r'name="start" value="([^"]+)"', page)[0])
        make_run(trio[1], started_at=timezone.now() - timedelta(minutes=5))
        text = operator.post(ADDRESS, given).content.decode()
        assert "<code>plan.start_stale</code>" in text
        table = text.split('id="changes"')[1].split("</section>")[0]
        for shown in ("Way to start", "Now", "As soon as it can"):
            assert shown in table
        assert not Rebuild.objects.exists()


def test_the_page_takes_as_many_queries_however_much_there_is(operator: Client, trio: Any) -> None:
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
