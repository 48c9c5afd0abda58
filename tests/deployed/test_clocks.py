"""Clocks that are set while dbops runs, and machines whose clocks differ."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.deployed.clocks import ShiftedClock
from tests.e2e.host_state import last_rebuild, rebuild_and, same_data_at_one_gtid
from tests.servers import running_server
from tests.stack import Stack, running_stack, wait_for

pytestmark = pytest.mark.services
TARGET = "replica-1"
PROCESSES = ("worker", "beat", "web")


@pytest.fixture(scope="module")
def clock() -> ShiftedClock:
    return ShiftedClock("whole")


@pytest.fixture(scope="module")
def stack(clock: ShiftedClock) -> Iterator[Stack]:
    """A dashboard on one machine with that clock."""
    with running_stack() as running:
        for name in PROCESSES:
            running.stop(name)
        running.environment, running.now = running.environment | clock.environment, clock.now
        began = running.now()
        running.start(*PROCESSES)
        # The first report of a process that starts after a step knows only the last heartbeat, not how old that is.
        wait_for("the new worker and beat", lambda: len(reported_since(running, began)) == 2, 60)
        yield running


def reported_since(stack: Stack, moment: datetime) -> list[str]:
    """Return which kinds of processes have reported since then."""
    rows = stack.rows("SELECT name, at FROM dbops_processheartbeat")
    return [row["name"] for row in rows if datetime.fromisoformat(row["at"]).replace(tzinfo=UTC) > moment]


def read_since(stack: Stack, moment: datetime, until: datetime) -> bool:
    """Return whether every instance was probed in this time."""
    times = [datetime.fromisoformat(stack.facts(host.name)["observed_at"]) for host in stack.lab.hosts]
    return all(moment <= found <= until for found in times)


def steps(stack: Stack) -> list[int]:
    """Return the steps that the audit log has, in seconds."""
    rows = stack.rows("SELECT detail FROM dbops_auditentry WHERE action = 'clock.stepped' ORDER BY sequence")
    return [json.loads(row["detail"])["seconds"] for row in rows]


def wait_for_beat(stack: Stack) -> None:
    """Wait until beat has looked at its clock: it cannot see two steps between two looks that cancel each other."""

    def report() -> list[dict[str, object]]:
        return stack.rows("SELECT at FROM dbops_processheartbeat WHERE name = 'beat'")

    known = report()
    wait_for("the next report of beat", lambda: report() != known, 30)


@pytest.mark.parametrize("seconds", [-3600, 3600, -10, 10])
def test_instances_are_probed_after_the_clock_was_set(stack: Stack, clock: ShiftedClock, seconds: int) -> None:
    known = len(steps(stack))
    wait_for_beat(stack)
    clock.set(clock.seconds + seconds)
    moment = clock.now()
    wait_for(
        "every instance is read by the new clock",
        lambda: read_since(stack, moment, clock.now() + timedelta(seconds=1)),
        60,
    )
    assert stack.plan(TARGET)["is_possible"]
    found = wait_for("the step is in the audit log", lambda: steps(stack)[known:], 30)
    assert found == [pytest.approx(seconds, abs=8)]


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_rebuild_succeeds_across_a_step(stack: Stack, clock: ShiftedClock, seconds: int) -> None:
    """In the middle of the stream: no wait of an hour, no time limit that is reached too early."""
    stack.wait_for_possible_plan(TARGET)

    def step() -> bool:
        clock.set(clock.seconds + seconds)
        return True

    status, rebuild = rebuild_and(stack, TARGET, "stream", step)
    assert (status, rebuild["status"]) == (0, "succeeded"), stack.state_of_rebuilds()
    assert stack.rows("SELECT * FROM dbops_hold") == []
    same_data_at_one_gtid(stack, TARGET)


def test_rebuild_again_in_the_hour_that_comes_a_second_time(stack: Stack, clock: ShiftedClock) -> None:
    """The hosts have seen fences of later times."""
    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    clock.set(clock.seconds - 3600)
    moment = clock.now()
    wait_for("new facts", lambda: read_since(stack, moment, clock.now() + timedelta(seconds=1)), 60)
    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    assert last_rebuild(stack)["status"] == "succeeded"


def test_worker_on_a_machine_with_a_wrong_clock_works_like_the_others() -> None:
    """Two machines with a worker, one of them an hour ahead; the clocks of beat and of the other worker are right."""
    ahead = ShiftedClock("ahead")
    ahead.set(3600)
    with (
        running_server("postgresql") as server,
        running_stack(web=False, database_url=server.create("dbops_clocks")) as stack,
    ):
        stack.worker_settings = ahead.environment
        stack.start("worker-2")
        stack.worker_settings = {}
        stack.stop("worker")
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        stack.start("worker")
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        assert [row["status"] for row in stack.rows("SELECT status FROM dbops_rebuild")] == ["succeeded"] * 2
        assert stack.rows("SELECT 1 AS n FROM dbops_auditentry WHERE action = 'rebuild.taken_over'") == []
        assert steps(stack) == []
