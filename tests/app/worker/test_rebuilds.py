"""Driving a rebuild to its end. The steps are scripted, everything else is real."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import InterfaceError, InternalError, OperationalError

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import NoAccess, RemoteFailure, Unreachable
from dbops.engine.methods import METHODS
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.run import Run, StepOutcome, again, done
from dbops.engine.states import Status
from dbops.lifecycle.rebuild_driver import _audit_detail
from dbops.models import AuditEntry, Hold, Rebuild
from dbops.operations.rebuilds import cancel_rebuild
from dbops.worker import driver, rebuilds
from tests.app import rows
from tests.said import names

pytestmark = pytest.mark.django_db

Answer = StepOutcome | Exception | Callable[[Run], StepOutcome]


class Scripted(Step):
    """A step with given answers, one a call; the last one is repeated."""

    title = "a scripted step"

    def __init__(self, name: str, *answers: Answer) -> None:
        self.name = name  # type: ignore[misc]
        self.answers, self.calls, self.cancelled = list(answers) or [done()], 0, 0
        self.silent_cancels = 0

    def advance(self, run: Run) -> StepOutcome:
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, StepOutcome) else answer(run)

    def cancel(self, run: Run) -> None:
        self.cancelled += 1
        if self.cancelled <= self.silent_cancels:
            raise silent()


def touch(run: Run) -> StepOutcome:
    run.checkpoint["touched"] = True
    return done()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rebuild]:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    # SQLite has one writer, and a test is one long transaction: the thread that renews a lease would wait for it.
    monkeypatch.setattr(driver.LeaseRenewal, "run", lambda self: None)

    def start_with(*steps: Step) -> Rebuild:
        monkeypatch.setitem(METHODS, "xbstream", replace(METHODS["xbstream"], steps=steps))
        return rows.started_rebuild()

    return start_with


def drive(rebuild: Rebuild, ticks: int = 1) -> Rebuild:
    for _ in range(ticks):
        rebuilds.RebuildDriver.tick(rebuild.pk)
    rebuild.refresh_from_db()
    return rebuild


def states(rebuild: Rebuild) -> list[str]:
    return list(rebuild.steps.values_list("state", flat=True))


def silent() -> Unreachable:
    return Unreachable("ssh.unreachable", "Asking the host", cause="timed out")


def broken() -> RemoteFailure:
    return RemoteFailure("host.job", "Working", cause="it broke")


@pytest.mark.parametrize(("method", "copied"), [("xbstream", 7), ("rollback", None), ("resume", None)])
def test_audit_entry_has_the_bytes_that_this_rebuild_copied(start: Any, method: str, copied: int | None) -> None:
    rebuild = start(Scripted("one"))
    plan = {**rebuild.plan, "cipher": "aes256-gcm"}
    Rebuild.objects.filter(pk=rebuild.pk).update(plan=plan, method=method, checkpoint={"stream.bytes": 7})
    rebuild.refresh_from_db()
    detail = _audit_detail(rebuild, "")
    assert (detail["bytes"], detail["cipher"]) == (copied, "aes256-gcm" if copied else "")


def test_rebuild_succeeds_when_every_step_is_done(start: Any) -> None:
    rebuild = drive(start(Scripted("one"), Scripted("two", again(), done()), Scripted("clean-up")))
    assert (rebuild.status, states(rebuild)) == ("succeeded", ["done"] * 3)
    assert not Hold.objects.exists()
    assert rebuild.target_slot is None
    assert AuditEntry.objects.filter(action="rebuild.succeeded").exists()


def test_running_step_is_not_logged_at_every_poll(start: Any) -> None:
    def revision(run: Run) -> StepOutcome:
        seen.append(Rebuild.objects.values_list("revision", flat=True).get())
        return done() if len(seen) == 4 else again()

    seen: list[int] = []
    drive(start(Scripted("one", revision), Scripted("clean-up")))
    assert seen == [seen[0]] * 4


def test_driver_stops_advancing_when_its_lease_is_taken(start: Any) -> None:
    def lose(run: Run) -> StepOutcome:
        Rebuild.objects.update(lease_owner="an heir")
        return again()

    step = Scripted("one", lose, done())
    rebuild = drive(start(step, Scripted("clean-up")))
    assert (step.calls, rebuild.lease_owner, states(rebuild)) == (1, "an heir", ["running", "pending"])


def test_failed_step_skips_all_but_the_clean_up(start: Any) -> None:
    step, after, clean_up = Scripted("one", broken()), Scripted("two"), Scripted("clean-up")
    rebuild = drive(start(step, after, clean_up))
    assert (rebuild.status, states(rebuild)) == ("failed", ["failed", "skipped", "done"])
    assert (rebuild.error["code"], after.calls, clean_up.calls, step.cancelled) == ("host.job", 0, 1, 1)
    assert AuditEntry.objects.get(action="rebuild.failed").detail["error"]["code"] == "host.job"


def test_unexpected_error_fails_the_rebuild_as_bug(start: Any) -> None:
    rebuild = drive(start(Scripted("one", ZeroDivisionError("oops")), Scripted("clean-up")))
    assert (rebuild.status, rebuild.error["code"], rebuild.error["who"]) == ("failed", "bug", "dbops")


@pytest.mark.parametrize("away", [OperationalError, InterfaceError, InternalError])
def test_database_error_ends_the_tick_and_not_the_rebuild(start: Any, away: type[Exception]) -> None:
    """PostgreSQL tells by ``InternalError`` that it has ended a transaction in which nothing happened."""
    step = Scripted("one", away("terminating connection"), done())
    rebuild = drive(start(step, Scripted("clean-up")))
    assert (rebuild.status, rebuild.lease_owner, rebuild.error) == ("running", "", {})
    assert drive(rebuild).status == "succeeded"
    assert step.cancelled == 0


def test_silent_host_fails_a_rebuild_that_destroyed_nothing(start: Any, settings: Any) -> None:
    rebuild = drive(start(Scripted("one", silent()), Scripted("clean-up")))
    assert (rebuild.status, states(rebuild)) == ("running", ["running", "pending"])
    settings.UNREACHABLE_TIMEOUT_SECONDS = -1
    drive(rebuild)
    assert (rebuild.status, rebuild.error["code"]) == ("failed", "ssh.unreachable")
    assert names(rebuild.outcome, "replica-1")


def test_rebuild_continues_after_a_silence_once_data_was_touched(start: Any) -> None:
    rebuild = start(Scripted("one", touch), Scripted("two", silent(), silent(), done()), Scripted("clean-up"))
    assert drive(rebuild).status == "running"
    assert rebuild.unreachable_since is not None
    assert drive(rebuild, 2).status == "succeeded"
    assert rebuild.unreachable_since is None
    assert rebuild.events.filter(text__regex=r"[0-9]+ s[.]").count() == 1, "for how long it was silent"


def test_rebuild_is_lost_with_locks_and_returns_when_the_host_answers(start: Any, settings: Any) -> None:
    settings.LOST_AFTER_SECONDS = -1
    rebuild = start(Scripted("one", touch), Scripted("two", silent(), silent(), done()), Scripted("clean-up"))
    assert drive(rebuild).status == "lost"
    assert Hold.objects.count() == 2
    assert drive(rebuild, 2).status == "succeeded"


def refused() -> NoAccess:
    return NoAccess("ssh.host_key_changed", "Checking the host key", cause="another key")


def test_refused_login_fails_a_rebuild_that_destroyed_nothing_at_once(start: Any) -> None:
    rebuild = drive(start(Scripted("one", refused()), Scripted("clean-up")))
    assert (rebuild.status, rebuild.error["code"]) == ("failed", "ssh.host_key_changed")
    assert rebuild.error["next_step"] == CATALOGUE["ssh.host_key_changed"].next_step


def test_refused_login_after_a_change_keeps_the_holds_until_the_host_admits_dbops(start: Any, settings: Any) -> None:
    settings.UNREACHABLE_TIMEOUT_SECONDS = settings.LOST_AFTER_SECONDS = -1
    rebuild = start(Scripted("one", touch), Scripted("two", refused(), refused(), done()), Scripted("clean-up"))
    assert drive(rebuild).status == "lost"
    assert Hold.objects.count() == 2
    assert drive(rebuild, 2).status == "succeeded"


def test_each_refusal_is_logged_once_in_a_silence(start: Any) -> None:
    """A host that restarts with another key is silent first: what a person must act on comes later."""
    answers = (silent(), refused(), silent(), refused(), done())
    rebuild = start(Scripted("one", touch), Scripted("two", *answers), Scripted("clean-up"))
    assert drive(rebuild, 4).status == "running"
    codes = [text.split("]")[0] for text in rebuild.events.order_by("pk").values_list("text", flat=True)]
    assert [code for code in codes if code.startswith("[")] == ["[ssh.unreachable", "[ssh.host_key_changed"]
    assert drive(rebuild).status == "succeeded"


def test_short_silence_ends_nothing(start: Any) -> None:
    rebuild = drive(start(Scripted("one", silent(), done()), Scripted("clean-up")), 2)
    assert rebuild.status == "succeeded"


def test_cancel_waits_for_a_silent_host(start: Any) -> None:
    """Its holds must not go while the host may still be at work."""
    asked: list[Rebuild] = []

    def ask(run: Run) -> StepOutcome:
        cancel_rebuild(actor=asked[0].requested_by, rebuild=asked[0])
        run.journal.command("a command", "a host", "flushes the journal")
        return done()

    step = Scripted("two", ask)
    step.silent_cancels = 2
    rebuild = start(Scripted("one", touch), step, Scripted("clean-up"))
    asked.append(rebuild)
    assert drive(rebuild, 2).status == "running"
    assert Hold.objects.count() == 2
    assert drive(rebuild).status == "cancelled"
    assert rebuild.events.filter(level="warning", text__contains="ssh.").count() == 1


def test_force_failed_rebuild_counts_as_failed(start: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.LOST_AFTER_SECONDS = -1
    monkeypatch.setattr(rebuilds, "CLEAN_UP_PATIENCE_SECONDS", -1)
    rebuild = start(Scripted("one", touch), Scripted("two", silent()), Scripted("clean-up", silent()))
    assert drive(rebuild).status == "lost"
    cancel_rebuild(actor=rebuild.requested_by, rebuild=rebuild)
    assert drive(rebuild, 3).status == "failed"
    assert not Hold.objects.exists()


def test_cancel_stops_the_step_and_cleans_up(start: Any) -> None:
    asked: list[Rebuild] = []

    def ask(run: Run) -> StepOutcome:
        cancel_rebuild(actor=asked[0].requested_by, rebuild=asked[0])
        run.journal.command("a command", "a host", "flushes the journal")
        return done()

    step = Scripted("one", ask)
    rebuild = start(step, Scripted("two"), Scripted("clean-up"))
    asked.append(rebuild)
    assert drive(rebuild).status == "cancelled"
    assert (step.cancelled, states(rebuild)) == (1, ["cancelled", "skipped", "done"])


def test_cancel_during_clean_up_is_too_late(start: Any) -> None:
    asked: list[Rebuild] = []

    def ask(run: Run) -> StepOutcome:
        cancel_rebuild(actor=asked[0].requested_by, rebuild=asked[0])
        run.journal.command("a command", "a host", "flushes the journal")
        return done()

    rebuild = start(Scripted("one"), Scripted("clean-up", ask))
    asked.append(rebuild)
    assert drive(rebuild).status == "succeeded"


def test_cancelled_rebuild_ends_after_a_driver_died_in_clean_up(start: Any) -> None:
    rebuild = start(Scripted("one"), Scripted("clean-up"))
    rebuild.steps.filter(name="one").update(state="cancelled")
    rebuild.steps.filter(name="clean-up").update(state="done")
    Rebuild.objects.update(pending_status=Status.CANCELLED, cancel_requested_at=rebuild.requested_at)
    assert drive(rebuild).status == "cancelled"


def test_passwords_are_masked_everywhere(start: Any) -> None:
    def leak(run: Run) -> StepOutcome:
        run.checkpoint["seen"] = ["admin-secret"]
        run.journal.say("the password is admin-secret")
        return done(tails={"log": "backup-secret"})

    rebuild = drive(start(Scripted("one", leak), Scripted("two", broken()), Scripted("clean-up")))
    kept = str([rebuild.checkpoint, list(rebuild.steps.values()), list(rebuild.events.values())])
    assert "********" in kept
    assert "secret" not in kept


def test_driver_logs_once_and_retries_when_it_cannot_connect(start: Any) -> None:
    rebuild = start(Scripted("one"), Scripted("clean-up"))
    host = rebuild.target.host
    host.ssh_private_key, host.ssh_key_file = "", "/nowhere/key"
    host.save(update_fields=["ssh_private_key", "ssh_key_file"])
    assert drive(rebuild, 2).status == "running"
    assert rebuild.lease_owner == ""
    assert rebuild.events.filter(text__contains="/nowhere/key").count() == 1


def test_driver_without_lease_stops_no_job(start: Any) -> None:
    """It was stopped, another took over, and the hosts refuse it: what runs there is the other's."""

    def taken_over(run: Run) -> StepOutcome:
        Rebuild.objects.update(lease_owner="another")
        raise broken()

    step = Scripted("one", taken_over)
    rebuild = drive(start(step, Scripted("clean-up")))
    assert (step.calls, step.cancelled) == (1, 0)
    assert (rebuild.status, rebuild.pending_status, rebuild.lease_owner) == ("running", "", "another")
