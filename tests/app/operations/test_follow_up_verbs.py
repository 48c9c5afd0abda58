"""The verbs after a rebuild that did not succeed: who may, what is written, what the new rebuild knows and what it holds."""

import json
import secrets
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import FOLLOW_UPS, METHODS
from dbops.engine.rebuilds.plan import Plan, PlannedStep
from dbops.engine.states import Status, StepState
from dbops.lifecycle import rebuild_requests, starts
from dbops.models import AuditEntry, Hold, Instance, Rebuild
from dbops.operations.follow_up_options import follow_up_options
from dbops.operations.follow_ups import request_follow_up
from tests.app.factories import make_plan, make_rebuild, make_trio

pytestmark = pytest.mark.django_db

MEMORY = {
    "touched": True,
    "new_identity": "1:2",
    "aside_path": "/var/lib/mysql.dbops-old-RUN",
    "aside_identity": "1:1",
    "checkpoints": {"backup_type": "full-backuped"},
    "stream.samples": [[1, 2]],
    "source_opened": True,
}
PROGRAMS = {
    "target.backup": "/usr/bin/mariadb-backup",
    "target.client": "/usr/bin/mariadb",
    "target.server": "/usr/sbin/mariadbd",
}


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def failed(trio: Any, olga: User) -> Rebuild:
    """A rebuild that failed as it made the copy the target's own."""
    steps = tuple(PlannedStep(step.name, step.title) for step in METHODS["xbstream"].steps)
    plan = make_plan(target=trio[2], source=trio[1], steps=steps, programs=PROGRAMS)
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED, plan=plan, checkpoint=MEMORY)
    at = next(number for number, step in enumerate(steps) if step.name == "set-ownership")
    rebuild.steps.filter(position__lt=at).update(state=StepState.DONE)
    rebuild.steps.filter(position=at).update(state=StepState.FAILED)
    rebuild.steps.filter(position__gt=at).update(state=StepState.SKIPPED)
    return rebuild


def ask(actor: User, rebuild: Rebuild, method: str, **changes: str) -> Rebuild:
    given = {"typed_name": "replica-1", "reason": "the copy is no good", "request_key": secrets.token_hex(16)}
    return request_follow_up(actor=actor, rebuild=rebuild, method=method, **(given | changes))


def refused(*words: Any, **changes: str) -> Refused:
    with pytest.raises(Refused) as error:
        ask(*words, **changes)
    assert Rebuild.objects.count() == 1
    return error.value


@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_follow_up_is_stored_completely(olga: User, failed: Rebuild, method: str) -> None:
    following = ask(olga, failed, method)
    assert (following.follows, following.target_slot, following.status) == (failed, failed.target, Status.QUEUED)
    plan = from_record(Plan, following.plan)
    assert [step.name for step in plan.steps] == [step.name for step in FOLLOW_UPS[method].steps]
    assert list(following.steps.values_list("name", flat=True)) == [step.name for step in plan.steps]
    assert (plan.target, plan.source) == (
        from_record(Plan, failed.plan).target,
        from_record(Plan, failed.plan).source,
    )
    entry = AuditEntry.objects.get(action=f"rebuild.{method.replace('-', '_')}_requested")
    assert (entry.actor, entry.subject) == ("olga", "replica-1")
    assert (entry.detail["rebuild"], entry.detail["follows"]) == (following.pk, failed.pk)
    assert entry.reason == following.reason


@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_follow_up_keeps_the_copy_and_forgets_the_source_run(olga: User, failed: Rebuild, method: str) -> None:
    checkpoint = ask(olga, failed, method).checkpoint
    assert checkpoint["copy_run"] == failed.uid
    assert checkpoint["aside_identity"] == "1:1"
    assert not {"source_opened", "stream.samples"} & set(checkpoint)


def test_retry_skips_finished_steps_only(olga: User, failed: Rebuild) -> None:
    states = dict(ask(olga, failed, "resume").steps.values_list("name", "state"))
    assert {name for name, state in states.items() if state == StepState.SKIPPED} == {"prepare"}
    assert set(states.values()) == {StepState.SKIPPED, StepState.PENDING}


def test_rollback_skips_no_step(olga: User, failed: Rebuild) -> None:
    assert set(ask(olga, failed, "rollback").steps.values_list("state", flat=True)) == {StepState.PENDING}


@pytest.mark.parametrize(("method", "held"), [("rollback", {"replica-1"}), ("resume", {"replica-1", "backup-1"})])
def test_follow_up_locks_its_instances(olga: User, failed: Rebuild, method: str, held: set[str]) -> None:
    assert starts.start(ask(olga, failed, method)) == ""
    assert set(Hold.objects.values_list("instance__name", flat=True)) == held


@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_follow_up_is_refused_without_permission_or_basis(
    olga: User, victor: User, sam: User, failed: Rebuild, method: str
) -> None:
    assert refused(victor, failed, method).code == "access.denied"
    assert refused(sam, failed, method).code == "access.denied"
    assert refused(olga, failed, method, typed_name="backup-1").code == "rebuild.name"
    assert refused(olga, failed, method, reason=" x ").code == "rebuild.reason"
    assert set(AuditEntry.objects.values_list("action", flat=True)) == {"rebuild.refused"}


@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_repeated_request_key_returns_the_same_follow_up(olga: User, failed: Rebuild, method: str) -> None:
    first = ask(olga, failed, method, request_key="k" * 32)
    Rebuild.objects.filter(pk=first.pk).update(status=Status.SUCCEEDED, target_slot=None)
    assert ask(olga, failed, method, request_key="k" * 32) == first


@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_second_follow_up_is_refused(olga: User, failed: Rebuild, method: str) -> None:
    ask(olga, failed, method)
    with pytest.raises(Refused) as error:
        ask(olga, failed, method)
    assert error.value.code == "rebuild.no_follow_up"
    assert Rebuild.objects.count() == 2


def test_follow_up_is_refused_while_the_target_is_silent(olga: User, failed: Rebuild) -> None:
    failed.sweep_due_at = failed.requested_at
    failed.save(update_fields=["sweep_due_at"])
    assert {option.is_possible for option in follow_up_options(failed).values()} == {False}
    assert {option.reason for option in follow_up_options(failed).values()} == {refused(olga, failed, "rollback").cause}


def test_follow_up_of_a_failed_follow_up_is_possible(olga: User, failed: Rebuild) -> None:
    retry = ask(olga, failed, "resume")
    Rebuild.objects.filter(pk=retry.pk).update(status=Status.FAILED, target_slot=None, started_at=timezone.now())
    retry.steps.filter(name__in=("resume-check", "set-ownership")).update(state=StepState.DONE)
    retry.refresh_from_db()
    assert not follow_up_options(failed)["rollback"].is_possible, "the first one is overtaken"
    second = ask(olga, retry, "resume")
    assert set(second.steps.filter(state=StepState.SKIPPED).values_list("name", flat=True)) == {
        "prepare",
        "set-ownership",
    }
    assert second.checkpoint["copy_run"] == failed.uid, "the mark in the copy is still that of the first run"


@pytest.mark.parametrize("status", [Status.EXPIRED, Status.CANCELLED])
@pytest.mark.parametrize("method", FOLLOW_UPS)
def test_follow_up_that_never_started_blocks_nothing(olga: User, failed: Rebuild, method: str, status: Status) -> None:
    following = ask(olga, failed, method)
    assert rebuild_requests.end_queued(following, status, "test")
    assert {option.is_possible for option in follow_up_options(failed).values()} == {True}
    out = StringIO()
    option = {"rollback": "--roll-back", "resume": "--resume"}[method]
    call_command("rebuild", "replica-1", option, "--reason", "once more", "--json", stdout=out)
    again = Rebuild.objects.get(pk=json.loads(out.getvalue())["rebuild"])
    assert (again.follows, again.method) == (failed, method)
