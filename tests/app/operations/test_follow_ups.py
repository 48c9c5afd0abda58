"""What may follow a rebuild that did not succeed, from its rows: which is the last one, and what is known of its hosts."""

from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.states import Status, StepState
from dbops.lifecycle import cleanups, rebuild_requests
from dbops.models import Rebuild
from dbops.operations.follow_up_options import follow_up_options
from dbops.operations.follow_ups import request_follow_up
from dbops.worker import scheduler
from tests.app import rows
from tests.app.factories import make_rebuild

pytestmark = pytest.mark.django_db

COPIED = {
    "touched": True,
    "new_identity": "1:2",
    "aside_path": "/data.dbops-old-run",
    "aside_identity": "1:1",
    "checkpoints": {"backup_type": "full-prepared"},
    "position": {},
    "found": {"new": "1"},
    "end_checked": True,
}


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def failed() -> Rebuild:
    """Return a rebuild that failed while its copy rolled forward."""
    rebuild = rows.started_rebuild()
    end(rebuild, checkpoint=COPIED)
    rebuild.steps.update(state=StepState.DONE)
    rebuild.steps.filter(name__in=("catch-up", "repoint", "verify")).update(state=StepState.SKIPPED)
    return rebuild


def end(rebuild: Rebuild, **changes: Any) -> None:
    changes = {"status": Status.FAILED, "target_slot": None, "finished_at": timezone.now()} | changes
    Rebuild.objects.filter(pk=rebuild.pk).update(**changes)
    rebuild.holds.all().delete()
    rebuild.refresh_from_db()


def follow(rebuild: Rebuild, method: str) -> Rebuild:
    return request_follow_up(
        actor=rebuild.requested_by,
        rebuild=rebuild,
        method=method,
        typed_name=rebuild.target.name,
        reason="for a test",
        request_key=f"{method} {rebuild.pk}",
    )


def possible(rebuild: Rebuild) -> set[str]:
    return {
        name for name, option in follow_up_options(Rebuild.objects.get(pk=rebuild.pk)).items() if option.is_possible
    }


def test_follow_ups_are_possible_until_one_is_used(failed: Rebuild) -> None:
    assert possible(failed) == {"rollback", "resume", "again"}
    following = follow(failed, "resume")
    assert possible(failed) == set()
    assert scheduler.start_what_can() == [following.pk]
    end(following)
    assert possible(failed) == set(), "what it worked on is not as this one left it"


@pytest.mark.parametrize("refused", [True, False])
def test_follow_up_stays_possible_when_a_newer_rebuild_was_refused(failed: Rebuild, refused: bool) -> None:
    newer = make_rebuild(target=failed.target, source=failed.source)
    checkpoint = {"touched": True, "aside_path": "/data.dbops-old-2"}
    end(newer, checkpoint=checkpoint | ({"refused": True} if refused else {}))
    assert possible(failed) == ({"rollback", "resume", "again"} if refused else set())


@pytest.mark.parametrize("status", [Status.EXPIRED, Status.CANCELLED])
def test_follow_up_stays_possible_when_another_never_started(failed: Rebuild, status: Status) -> None:
    following = follow(failed, "resume")
    assert rebuild_requests.end_queued(following, status, "for a test")
    assert possible(failed) == {"rollback", "resume", "again"}


def test_rollback_is_possible_while_the_source_is_silent(failed: Rebuild) -> None:
    end(failed, sweep_due_at=timezone.now())
    assert possible(failed) == {"rollback", "again"}


def test_follow_ups_are_refused_while_the_target_is_silent(failed: Rebuild) -> None:
    """Its jobs may be at work there."""
    checkpoint = {key: value for key, value in COPIED.items() if key != "end_checked"}
    end(failed, sweep_due_at=timezone.now(), checkpoint=checkpoint)
    assert possible(failed) == set()


def test_follow_up_ignores_end_facts_of_the_first_rebuild(failed: Rebuild) -> None:
    assert {"found", "end_checked"}.isdisjoint(follow(failed, "rollback").checkpoint)


def test_force_failed_rebuild_has_no_running_step(failed: Rebuild) -> None:
    end(failed, status=Status.LOST)
    failed.steps.filter(name="catch-up").update(state=StepState.RUNNING)
    failed.steps.filter(name="repoint").update(state=StepState.PENDING)
    assert cleanups.force_fail(failed, "olga")
    assert dict(failed.steps.filter(name__in=("catch-up", "repoint")).values_list("name", "state")) == {
        "catch-up": StepState.FAILED,
        "repoint": StepState.SKIPPED,
    }
