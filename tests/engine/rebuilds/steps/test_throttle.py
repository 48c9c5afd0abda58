"""Set the rate of a running stream on its target's host, and the times of the server checks."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import Unreachable
from dbops.engine.ports import CommandResult, JobState, JobStatus
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.throttle import CHECK_SECONDS, begin_held, count_link, pass_rate_on
from dbops.engine.tuning.stream_rate import LOOKS
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

MIB = 1024**2


class Jobs(FakeJobs):
    """Record the rates that the host receives."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[str] = []

    def act(self, script: str, *arguments: str, **_: Any) -> CommandResult:
        self.rates.append(arguments[-1])
        return CommandResult(0, "", "")


class Slow(FakeDatabase):
    """Answers after so many seconds of the run's clock."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        self.clock.sleep(self.seconds)
        return [{"1": 1}]


def running(seconds: float = 0.0, limit_ms: float = 0.0) -> tuple[Run, Jobs, RecordedJournal]:
    clock, jobs, journal = FakeClock(), Jobs(), RecordedJournal()
    source = Slow(clock, seconds)
    run = make_run(
        build_plan(builders.inputs()), jobs, source=source, target=FakeDatabase(), journal=journal, clock=clock
    )
    run.settings = replace(run.settings, auto_throttle_latency_ms=limit_ms)
    run.checkpoint["stream.link"] = [[0.0, 0.0], [10.0, 1000.0 * MIB]]
    run.primary = replace(run.primary, connect=lambda _: Slow(clock, 0.0))
    return run, jobs, journal


def test_throttle_sends_nothing_without_a_rate() -> None:
    run, jobs, _ = running()
    pass_rate_on(run)
    assert jobs.rates == []


def test_throttle_sends_a_rate_only_when_it_changes() -> None:
    run, jobs, journal = running()
    for rate in (20 * MIB, 20 * MIB, 5 * MIB, None, None):
        run.stream_rate = lambda rate=rate: rate
        pass_rate_on(run)
    assert jobs.rates == [str(20 * MIB), str(5 * MIB), ""]
    assert "MiB/s" not in journal.lines[-1]


def looked_at(run: Run, times: int) -> None:
    for _ in range(times):
        pass_rate_on(run)
        run.clock.sleep(CHECK_SECONDS)


def test_brake_slows_the_stream_while_a_server_is_slow() -> None:
    run, jobs, journal = running(seconds=0.5, limit_ms=100)
    looked_at(run, LOOKS)
    assert jobs.rates == [str(50 * MIB)]
    assert all(word in journal.lines[-1] for word in ("50.0 MiB/s", "auto-throttle"))


def test_brake_keeps_a_lower_manual_rate() -> None:
    run, jobs, journal = running(seconds=0.5, limit_ms=100)
    run.stream_rate = lambda: 8 * MIB
    looked_at(run, LOOKS)
    assert jobs.rates == [str(8 * MIB)]
    assert "auto-throttle" not in journal.lines[-1]


def test_brake_queries_no_server_without_a_limit() -> None:
    run, _, _ = running(seconds=5.0)
    began = run.clock.now()
    pass_rate_on(run)
    assert run.clock.now() == began


def test_stream_begins_with_the_requested_rate_and_logs_once() -> None:
    run, jobs, journal = running()
    run.stream_rate = lambda: 4 * MIB
    assert begin_held(run) == 4 * MIB
    pass_rate_on(run)
    assert (jobs.rates, len(journal.lines)) == ([], 1)
    assert "4.0 MiB/s" in journal.lines[0]


def test_brake_counts_bytes_on_the_link() -> None:
    run, jobs, _ = running(seconds=0.5, limit_ms=100)
    run.checkpoint["stream.samples"] = [[0.0, 0.0], [10.0, 3000.0 * MIB]]
    looked_at(run, LOOKS)
    assert jobs.rates == [str(50 * MIB)]
    count_link(run, JobState(JobStatus.RUNNING, counters={"transport.write_bytes": 1200 * MIB}))
    assert run.checkpoint["stream.link"][-1][1] == 1200.0 * MIB


class Silent(Slow):
    """Connects with its first statement, as the driver does, and fails in it after so many seconds."""

    def __init__(self, clock: FakeClock, seconds: float, *, took_no_connection: bool) -> None:
        super().__init__(clock, seconds)
        self.failure = Unreachable("mysql.unreachable", "Logging in", cause="no answer")
        self.failure.took_no_connection = took_no_connection

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        self.clock.sleep(self.seconds)
        raise self.failure


@pytest.mark.parametrize(
    ("seconds", "took_no_connection", "is_slow"),
    [(0.0, True, False), (5.0, True, False), (0.0, False, False), (5.0, False, True)],
)
def test_brake_ignores_an_unreachable_server(seconds: float, took_no_connection: bool, is_slow: bool) -> None:
    """However long it took to find out: a primary that is away is not relieved by a slower rebuild. One that is silent is."""
    run, jobs, _ = running(limit_ms=100)
    away = Silent(run.clock, seconds, took_no_connection=took_no_connection)
    run.primary = replace(run.primary, connect=lambda _: away)
    looked_at(run, 3 * LOOKS)
    assert bool(jobs.rates) is is_slow
