"""The plan of a load test whose generator runs on another host, and its files there."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.instance import HostFacts, Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.copy import empty_copy
from dbops.engine.load_tests.facts import GeneratorFacts, Neighbour
from dbops.engine.load_tests.job_files import SEPARATOR, generator_files, job_files
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.states import Severity
from tests.engine import builders

from .test_plan import ROTATING, facts, found, plan, request


def other_host(**changes: Any) -> HostFacts:
    tools = {name: Tool(f"/usr/bin/{name}") for name in changes.pop("tools", ("sysbench", "python3"))}
    return replace(builders.host(2, **{"cpu_count": 16, **changes}), tools=tools)


def tunnelled(workload: Workload | None = None, cpu_count: int = 16, **there: Any) -> LoadTestPlan:
    """Plan a test whose generator runs on another host. ``there``: facts of that host."""
    given = {"host": other_host(), **there}
    changes: dict[str, Any] = {"workload": workload} if workload else {}
    known = facts(cpu_count=cpu_count, generator=GeneratorFacts(**given))
    assert known.host is not None
    known = replace(known, host=replace(known.host, tools={**known.host.tools, "python3": Tool("/usr/bin/python3")}))
    return plan(request(generator_host="other-1", **changes), known)


def test_plan_names_both_hosts_and_warns_of_the_connection() -> None:
    made = tunnelled()
    assert (made.host, made.generator_host, made.is_tunnelled) == ("tester-1", "other-1", True)
    assert found(made) == {"load_test.tunnel": Severity.WARNING}
    assert not plan().is_tunnelled
    assert not plan(request(generator_host="tester-1")).is_tunnelled


def test_generator_takes_cores_and_memory_of_its_own_host() -> None:
    made, here = tunnelled(cpu_count=2, host=other_host(cpu_count=1)), plan()
    assert (made.server_cores, made.generator_cores, made.shares_cores) == (2, 1, False)
    assert made.memory_bytes == made.server_memory_bytes < here.memory_bytes


@pytest.mark.parametrize(
    ("there", "code"),
    [
        ({"host": None}, "load_test.host"),
        ({"unreachable": "its host key was never accepted"}, "load_test.host"),
        ({"host": other_host(tools=("sysbench",))}, "load_test.tool"),
        ({"host": other_host(tools=("python3",))}, "load_test.tool"),
        ({"host": other_host(memory_available_bytes=MIB)}, "load_test.memory"),
    ],
)
def test_host_that_cannot_run_the_generator_is_refused(there: dict[str, Any], code: str) -> None:
    assert found(tunnelled(**there))[code] is Severity.REFUSAL


def test_serving_servers_and_work_there_are_warnings() -> None:
    made = tunnelled(neighbours=(Neighbour("db-1", "shop", "primary", takes_writes=True),), busy="rebuild 7 uses db-1")
    assert set(found(made)) == {"load_test.tunnel", "load_test.shared_host", "load_test.busy"}
    assert made.refusals == ()


def test_scratch_servers_host_needs_python_and_no_generator() -> None:
    known = facts(generator=GeneratorFacts(other_host()))
    assert known.host is not None
    bare = replace(known, host=replace(known.host, tools={}))
    assert found(plan(request(generator_host="other-1"), bare))["load_test.tool"] is Severity.REFUSAL
    python = replace(known, host=replace(known.host, tools={"python3": Tool("/usr/bin/python3")}))
    assert "load_test.tool" not in found(plan(request(generator_host="other-1"), python))


def test_another_host_or_machine_is_another_plan() -> None:
    made = tunnelled()
    prints = {
        made.fingerprint,
        replace(made, generator_host="other-2").fingerprint,
        replace(made, generator_machine="other-1 machine").fingerprint,
        plan().fingerprint,
    }
    assert len(prints) == 4


@pytest.mark.parametrize("workload", [Workload(Profile.READ_WRITE), ROTATING], ids=["sysbench", "rotating"])
def test_each_host_gets_its_own_files(workload: Workload) -> None:
    made, flavor = tunnelled(workload), flavor_for("10.11.19-MariaDB")
    copy = empty_copy("ab12", made, builders.host(1), flavor)
    here = job_files(made, workload, copy, flavor, ("ssh", "--", "other-1"))
    there = generator_files(made, workload, "ab12")
    assert here["tunnel.words"].split(SEPARATOR) == ["ssh", "--", "other-1"]
    assert {"load.lua", "load.input"} & set(here) == set()
    assert {"load.lua", "load_relay.py", "load.commands"} <= set(there)
    assert ("load.input" in there) == (workload is ROTATING)
    commands = {line.split(SEPARATOR)[0]: line for line in there["load.commands"].splitlines()}
    fill = {"fill"} if workload.profile is Profile.READ_WRITE else set()
    assert set(commands) == {f"round-{one.number}" for one in made.rounds} | fill
    assert all(copy.sockets not in line for line in commands.values()), "that socket is on the other host"
