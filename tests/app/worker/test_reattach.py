"""A driver reads the hosts' journals when the database may have lost writes of the driver before."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import Unreachable
from dbops.worker.reattach import UNREAD, learn_from_hosts
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs, ended


def make(jobs: FakeJobs) -> Any:
    plan = build_plan(builders.inputs())
    run = make_run(
        plan, jobs, source=FakeDatabase(), target=FakeDatabase(), journal=RecordedJournal(), clock=FakeClock()
    )
    run.checkpoint[UNREAD] = True
    return run


def test_learn_marks_the_target_touched_when_its_journal_has_the_swap() -> None:
    jobs = FakeJobs()
    jobs.play("swap-datadir", ended())
    jobs.start("swap-datadir", "")
    run = make(jobs)
    learn_from_hosts(run, opens_source=True)
    assert run.checkpoint.get("touched")
    assert not run.checkpoint.get("source_opened")


def test_learn_marks_the_source_open_when_its_journal_has_a_guard() -> None:
    jobs = FakeJobs()
    jobs.play("guard", ended())
    jobs.start("guard", "", lock="guard")
    run = make(jobs)
    learn_from_hosts(run, opens_source=True)
    assert not run.checkpoint.get("touched")
    assert (run.checkpoint["source_opened"], run.checkpoint["source_closed"]) == (True, False)


def test_learn_changes_nothing_when_the_journals_are_empty() -> None:
    run = make(FakeJobs())
    learn_from_hosts(run, opens_source=True)
    assert run.checkpoint == {}


def test_learn_stays_due_when_the_target_is_silent() -> None:
    jobs = FakeJobs()
    jobs.host.down = Unreachable("ssh.unreachable", "Asking the host", cause="timed out")
    run = make(jobs)
    with pytest.raises(Unreachable):
        learn_from_hosts(run, opens_source=True)
    assert run.checkpoint == {UNREAD: True}


def test_learn_opens_no_source_of_a_rollback_when_the_source_is_silent() -> None:
    source = FakeJobs()
    source.host.down = Unreachable("ssh.unreachable", "Asking the host", cause="timed out")
    run = make(FakeJobs())
    run.source = replace(run.source, jobs=source)
    learn_from_hosts(run, opens_source=False)
    assert run.checkpoint == {}
