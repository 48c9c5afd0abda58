"""A driver reads the hosts' journals when the database may have lost writes of the driver before."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import Refused, RemoteFailure, Unreachable
from dbops.engine.methods import METHODS
from dbops.worker.reattach import (
    UNREAD,
    learn_before_the_end,
    learn_from_hosts,
    must_not_repeat,
    steps_to_end,
)
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


@pytest.mark.parametrize(("method", "opened"), [("xbstream", "source_opened"), ("clone", "donor_opened")])
def test_ending_finds_what_an_unknown_driver_changed(method: str, opened: str) -> None:
    jobs, steps = FakeJobs(), METHODS[method].steps
    for name in ("swap-datadir", "guard"):
        jobs.play(name, ended())
        jobs.start(name, "", lock=name)
    run = make(jobs)
    learn_before_the_end(run, steps)
    assert (run.checkpoint["touched"], run.checkpoint[opened]) == (True, True)
    ending = [step.name for step in steps_to_end(run, steps, steps[0])]
    assert ending[:3] == ["preflight", "swap-datadir", "stream"]
    assert not {"certify", "verify", "clean-up"} & set(ending)
    with pytest.raises(RemoteFailure) as raised:
        must_not_repeat(run, steps[1])
    assert raised.value.code == "host.journal_ahead"
    must_not_repeat(run, steps[2])


@pytest.mark.parametrize("error", [None, Refused("ssh.bad_key", "Reading the key", cause="not a key")])
def test_ending_changes_nothing_when_the_journals_have_nothing_or_are_not_read(error: Refused | None) -> None:
    jobs, steps = FakeJobs(), METHODS["xbstream"].steps
    jobs.host.down = error
    run = make(jobs)
    before = dict(run.checkpoint)
    learn_before_the_end(run, steps)
    assert run.checkpoint == before
    assert list(steps_to_end(run, steps, steps[0])) == [steps[0]]
    must_not_repeat(run, steps[0])


def test_learn_takes_a_target_whose_journal_is_not_read_for_touched_but_not_for_ahead() -> None:
    jobs, steps = FakeJobs(), METHODS["xbstream"].steps
    jobs.host.down = Refused("ssh.bad_key", "Reading the key", cause="not a key")
    run = make(jobs)
    learn_from_hosts(run, opens_source=True)
    assert run.checkpoint.get("touched")
    must_not_repeat(run, steps[0])
