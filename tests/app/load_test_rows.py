"""Requests of load tests, and rows of them, for tests."""

from dataclasses import replace
from typing import Any

from dbops.engine.facts.instance import Tool
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.models import Cluster, Host, Instance, LoadTest
from dbops.operations.load_tests import plan_load_test, request_load_test
from tests.app.factories import (
    make_cluster,
    make_facts,
    make_host,
    make_host_facts,
    make_instance,
    make_operator,
    make_trio,
    set_facts,
)

GIB = 1024**3
TOOLS = ("sysbench", "mariadbd", "mariadb", "mariadb-backup", "mbstream")


def make_place(name: str = "tester-1", *, tools: tuple[str, ...] = TOOLS, **host: Any) -> Host:
    """Return a host for load tests: of another cluster, with a replica."""
    place = make_host(name)
    others = Cluster.objects.filter(name="tests").first() or make_cluster("tests")
    there = make_instance(f"on-{name}", cluster=others, host=place)
    given = {
        "tools": {tool: Tool(f"/usr/bin/{tool}", "10.11.19") for tool in tools},
        "memory_available_bytes": 64 * GIB,
        "cpu_count": 8,
    }
    set_facts(there, replace(make_facts(), host=make_host_facts(**(given | host))))
    return place


def make_source() -> Instance:
    """Return the backup instance of a trio, with facts."""
    return make_trio()[1]


def make_request(source: Instance, host: Host, **changes: Any) -> LoadTestRequest:
    workload = changes.pop("workload", Workload(Profile.POINT_SELECT, tables=2, table_rows=1000))
    given: dict[str, Any] = {"raised": Raised.THREADS, "steps": (1, 2), "repeats": 2, "seconds": 5, "pool_bytes": GIB}
    return LoadTestRequest(source=source.name, host=host.name, workload=workload, **(given | changes))


def make_load_test(request: LoadTestRequest, **changes: Any) -> LoadTest:
    """Request a load test as a person does."""
    given: dict[str, Any] = {
        "typed_name": request.host,
        "reason": "before the move",
        "fingerprint": plan_load_test(request).fingerprint,
        "request_key": "one",
    }
    actor = changes.pop("actor", None) or make_operator()
    return request_load_test(actor=actor, request=request, **(given | changes))
