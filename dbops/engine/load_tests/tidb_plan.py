"""Plan a load test of inserts into an empty TiDB cluster. It has no scratch server: the cluster itself must serve nothing."""

from collections.abc import Iterator
from dataclasses import replace

from dbops.engine.facts.tidb import TidbNode
from dbops.engine.flavors.prepare import MIB
from dbops.engine.flavors.tidb import NAME
from dbops.engine.load_tests.estimates import FLOOR_BYTES, FLOOR_PERCENT, LoadTestEstimate, generator_memory
from dbops.engine.load_tests.facts import LoadTestFacts, LoadTestLimits
from dbops.engine.load_tests.generator import LOAD_SCHEMA
from dbops.engine.load_tests.plan import LoadTestFinding, LoadTestPlan, host_is_unread, plan_load_test
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.tidb_facts import TidbTestFacts, grant_of
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.phrases import phrase
from dbops.engine.states import Severity

#: A process that reads all changes and sends them on: the inserts would leave the cluster.
SENDS_CHANGES = "ticdc"
#: Space of the job's own files.
JOB_BYTES = 256 * MIB


def plan_load(
    request: LoadTestRequest, facts: LoadTestFacts | TidbTestFacts, rounds: tuple[Round, ...], limits: LoadTestLimits
) -> LoadTestPlan:
    """Return the plan of a load test: on a scratch server, or on the TiDB cluster of the facts. As ``plan_load_test``."""
    if isinstance(facts, LoadTestFacts):
        return plan_load_test(request, facts, rounds, limits)
    known = [one.tidb for one in facts.members if one.tidb]
    nodes = next((one.nodes for one in known if one.nodes), ())
    plan = LoadTestPlan(
        source=request.source,
        host=request.host,
        generator_host=request.host,
        generator_machine="",
        flavor=NAME,
        version=next((one.release for one in known), ""),
        run=0,
        path="",
        backup_bytes=0,
        place=limits.directory or facts.work_dir,
        server=(),
        initialise=(),
        pool_bytes=0,
        server_memory_bytes=0,
        generator_memory_bytes=generator_memory(request),
        server_cores=0,
        generator_cores=min(facts.host.cpu_count if facts.host else 1, limits.generator_cores),
        shares_cores=False,
        needed_bytes=JOB_BYTES + FLOOR_BYTES,
        floor_bytes=FLOOR_BYTES,
        floor_percent=FLOOR_PERCENT,
        start_seconds=limits.start_seconds,
        most_seconds=min(request.most_seconds, limits.most_seconds),
        rounds=rounds,
        estimate=LoadTestEstimate(0.0, 0.0, sum(one.seconds + one.warm_up_seconds + 2 for one in rounds)),
        reasons=tuple(_reasons(nodes)),
        tidb=TidbTarget(
            facts.cluster, facts.address, facts.port, facts.load_user, node_names(nodes), request.workload.table_ddl
        ),
    )
    return replace(plan, findings=tuple(_findings(plan, facts, limits)))


def node_names(nodes: tuple[TidbNode, ...]) -> tuple[str, ...]:
    return tuple(sorted(f"{one.kind} {one.address}" for one in nodes))


def _reasons(nodes: tuple[TidbNode, ...]) -> Iterator[str]:
    yield phrase(
        "The schema {load_schema} is made for this test and dropped at its end, with the table. No other "
        "schema is changed.",
        load_schema=LOAD_SCHEMA,
    )
    yield phrase("Before the first write and every few seconds, other schemas and sessions on any node end the test.")
    if sum(one.kind == "tikv" for one in nodes) == 1:
        yield phrase("The cluster has one TiKV node: ways to spread inserts make no difference there.")


# --- findings -----------------------------------------------------------------------------------------------------------
def _findings(plan: LoadTestPlan, facts: TidbTestFacts, limits: LoadTestLimits) -> Iterator[LoadTestFinding]:
    yield from _of_account(facts)
    yield from _of_nodes(facts)
    yield from _of_schemas(facts)
    yield from _of_host(plan, facts, limits)
    if facts.free_bytes is not None and facts.free_bytes < plan.needed_bytes:
        text = phrase(
            "The last probe saw {free_bytes} MiB free; the job can need {needed_bytes} MiB in {place}.",
            free_bytes=facts.free_bytes // MIB,
            needed_bytes=plan.needed_bytes // MIB,
            place=plan.place,
        )
        yield LoadTestFinding("load_test.space", Severity.WARNING, text)
    if (plan.estimate.total or 0) > plan.most_seconds:
        text = phrase(
            "The test is expected to take {total} min and ends after {most_seconds} min.",
            total=f"{(plan.estimate.total or 0) / 60:.0f}",
            most_seconds=f"{plan.most_seconds / 60:.0f}",
        )
        yield LoadTestFinding("load_test.time", Severity.WARNING, text)


def _refusal(code: str, text: str) -> LoadTestFinding:
    return LoadTestFinding(code, Severity.REFUSAL, text)


def _of_account(facts: TidbTestFacts) -> Iterator[LoadTestFinding]:
    if not facts.load_user or not facts.has_password:
        text = phrase(
            "The cluster has no load account with a password in the inventory. Make one: {grant_of}",
            grant_of=grant_of(facts.load_user),
        )
        yield _refusal("load_test.account", text)
    elif facts.load_user == facts.admin_user:
        text = phrase(
            "{load_user} is the dashboard’s account. The load needs one of its own: {grant_of}",
            load_user=facts.load_user,
            grant_of=grant_of(""),
        )
        yield _refusal("load_test.account", text)


def _of_nodes(facts: TidbTestFacts) -> Iterator[LoadTestFinding]:
    """Each node of the cluster must be in the inventory: one that is not could serve."""
    code = "load_test.cluster_nodes"
    seen = {one.name: node_names(one.tidb.nodes) for one in facts.members if one.tidb and one.tidb.nodes}
    if unknown := [one.name for one in facts.members if one.name not in seen]:
        yield _refusal(
            code, phrase("The last probe of {unknown} did not read the cluster’s nodes.", unknown=", ".join(unknown))
        )
        return
    if len(set(seen.values())) > 1:
        yield _refusal(
            code, phrase("The instances of this cluster do not see the same nodes: they are of several clusters.")
        )
        return
    nodes = next(iter(seen.values()), ())
    servers = [one for one in nodes if one.startswith(f"{NAME} ")]
    if len(servers) != len(facts.members):
        text = phrase(
            "The cluster has {number} TiDB nodes ({servers}), the inventory {facts_members}.",
            number=len(servers),
            servers=", ".join(servers),
            facts_members=len(facts.members),
        )
        yield _refusal(code, text)
    if senders := [one for one in nodes if one.startswith(SENDS_CHANGES)]:
        yield _refusal(
            code,
            phrase(
                "{senders} sends changes to other systems: the inserts could be among them.", senders=", ".join(senders)
            ),
        )


def _of_schemas(facts: TidbTestFacts) -> Iterator[LoadTestFinding]:
    lists = [one.tidb.user_schemas for one in facts.members if one.tidb]
    if not lists or any(one is None for one in lists):
        yield _refusal(
            "load_test.cluster_in_use", phrase("The last probe did not read whether the cluster has schemas.")
        )
        return
    found = sorted({name for one in lists for name in one or ()})
    if [name.lower() for name in found] == [LOAD_SCHEMA]:
        text = phrase(
            "The schema {load_schema} exists: another load test uses the cluster, or one was not removed.",
            load_schema=LOAD_SCHEMA,
        )
        yield _refusal("load_test.claimed", text)
    elif found:
        yield _refusal(
            "load_test.cluster_in_use",
            phrase("The cluster is not empty: it has the schema {found}.", found=", ".join(found)),
        )


def _of_host(plan: LoadTestPlan, facts: TidbTestFacts, limits: LoadTestLimits) -> Iterator[LoadTestFinding]:
    if facts.host is None:
        yield host_is_unread(plan.host)
    elif "sysbench" not in facts.host.tools:
        text = phrase("sysbench is not installed on {host}. Install the package (on RHEL from EPEL).", host=plan.host)
        yield _refusal("load_test.tool", text)
    if facts.host and facts.host.memory_available_bytes < plan.generator_limit_bytes:
        free, most = facts.host.memory_available_bytes // MIB, plan.generator_limit_bytes // MIB
        text = phrase(
            "The load generator may use {most} MiB of memory; {host} has {free} MiB free.",
            most=most,
            host=plan.host,
            free=free,
        )
        yield _refusal("load_test.memory", text)
    for one in facts.neighbours:
        serves = one.takes_writes and one.cluster != facts.cluster
        if serves and not limits.allows_primary_hosts:
            text = phrase(
                "{one} ({role} of {cluster}) takes writes on {host}. The load generator would take its CPU.",
                one=one.name,
                role=one.role,
                cluster=one.cluster,
                host=plan.host,
            )
            yield _refusal("load_test.host", text)
        else:
            text = phrase(
                "{one} ({role} of {cluster}) runs on {host} and shares CPU and network with the load generator.",
                one=one.name,
                role=one.role,
                cluster=one.cluster,
                host=plan.host,
            )
            yield LoadTestFinding("load_test.shared_host", Severity.WARNING, text)
    if facts.busy:
        yield LoadTestFinding(
            "load_test.busy", Severity.WARNING, phrase("{holder}. The test waits in the queue.", holder=facts.busy)
        )
