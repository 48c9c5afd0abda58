"""Plan a load test from facts: what runs where, with which limits, how long, and what speaks against it."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import to_record
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.digests import GOOD_SHARE, DigestPlan, digest_plan
from dbops.engine.load_tests.estimates import (
    FLOOR_BYTES,
    FLOOR_PERCENT,
    LoadTestEstimate,
    estimate,
    generator_memory,
    needed_bytes,
    server_memory,
    tables_of_schema,
)
from dbops.engine.load_tests.facts import GeneratorFacts, LoadTestFacts, LoadTestLimits, Neighbour
from dbops.engine.load_tests.planning import seconds_missing
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.server_options import layout_words, server_options
from dbops.engine.load_tests.tidb_target import TidbTarget
from dbops.engine.load_tests.workload import Profile
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.plan import machine_of
from dbops.engine.states import Severity

#: MySQL releases that crash at a restart with more than this many tables (bug 115517, PS-9306).
CRASHING, CRASHING_TABLES = ((8, 0, 38), (8, 4, 1), (9, 0, 0)), 8_000
#: A limit this much above the estimate ends a process that runs away, and no other.
LIMIT_FACTOR = 1.25


@dataclass(frozen=True, slots=True)
class LoadTestFinding:
    """What speaks against a load test. ``code`` is an entry of the error catalogue."""

    code: str
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class LoadTestPlan:
    """Everything that a load test will do: shown, confirmed, and then run without a change.

    Attributes:
        source, host: names of the instance whose settings are used, and of the host that runs the scratch server.
        generator_host, generator_machine: the host that runs the load generator, with its name and machine id if that is another host.
        flavor, version: of the scratch server.
        run, path, backup_bytes: the backup that is restored; 0 and empty for an empty server.
        place: directory of the scratch directory on the host; empty: beside the backup.
        server: options of the scratch server, without paths.
        initialise: options for an empty data directory.
        pool_bytes: its buffer pool.
        server_memory_bytes, generator_memory_bytes: what they are expected to need; the limits are ``LIMIT_FACTOR`` above.
        server_cores, generator_cores: cores that each may use. ``shares_cores``: they use the same ones.
        needed_bytes, floor_bytes, floor_percent: free disk at the start, and what must stay free, at least and of the whole.
        most_seconds: after which the test ends.
        rounds: in their order.
        estimate: expected times.
        reasons: why the plan is as it is, in words.
        findings: what speaks against it.
        digests: the source's statements, used and left out.
        tidb: the cluster that takes the inserts instead of a scratch server; ``host`` then runs the load generator.
    """

    source: str
    host: str
    generator_host: str
    generator_machine: str
    flavor: str
    version: str
    run: int
    path: str
    backup_bytes: int
    place: str
    server: tuple[str, ...]
    initialise: tuple[str, ...]
    pool_bytes: int
    server_memory_bytes: int
    generator_memory_bytes: int
    server_cores: int
    generator_cores: int
    shares_cores: bool
    needed_bytes: int
    floor_bytes: int
    floor_percent: int
    start_seconds: int
    most_seconds: int
    rounds: tuple[Round, ...]
    estimate: LoadTestEstimate
    reasons: tuple[str, ...] = ()
    findings: tuple[LoadTestFinding, ...] = ()
    digests: DigestPlan = DigestPlan()
    tidb: TidbTarget | None = None

    @property
    def refusals(self) -> tuple[LoadTestFinding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.REFUSAL)

    @property
    def warnings(self) -> tuple[LoadTestFinding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.WARNING)

    @property
    def place_to_confirm(self) -> tuple[str, str]:
        """Return what a person types to confirm, and what it is the name of: of what the load could harm."""
        return (self.tidb.cluster, "cluster") if self.tidb else (self.host, "host")

    @property
    def is_tunnelled(self) -> bool:
        return self.generator_host != self.host

    @property
    def memory_bytes(self) -> int:
        """Return the memory that the test is expected to need on the scratch server's host."""
        return self.server_memory_bytes + (0 if self.is_tunnelled else self.generator_memory_bytes)

    @property
    def memory_limit_bytes(self) -> int:
        return int(self.memory_bytes * LIMIT_FACTOR)  # what must be free

    @property
    def generator_limit_bytes(self) -> int:
        return int(self.generator_memory_bytes * LIMIT_FACTOR)

    @property
    def fingerprint(self) -> str:
        """Return 64 hex digits over everything shown that may not change between the page and the click."""
        frozen = to_record(self)
        for changing in ("estimate", "reasons", "findings"):
            del frozen[changing]
        frozen["warnings"] = sorted({one.code for one in self.findings})
        return hashlib.sha256(json.dumps(frozen, sort_keys=True).encode()).hexdigest()


def plan_load_test(
    request: LoadTestRequest, facts: LoadTestFacts, rounds: tuple[Round, ...], limits: LoadTestLimits
) -> LoadTestPlan:
    """Return the plan of a load test. Its refusals are findings, so that a page can show all of them.

    Args:
        request: a possible one (``request.problems`` is empty).
        facts: of source, host and backup.
        rounds: in their order.
        limits: from the settings.
    """
    options = server_options(
        facts.flavor,
        facts.source,
        pool_bytes=request.pool_bytes,
        connections=request.most_threads,
        extra=request.options,
    )
    server_cores, generator_cores, shares = _cores(facts, limits)
    there = facts.generator.host if facts.generator else None
    server = facts.source.server if facts.source else None
    archive = facts.archive if request.run else None
    plan = LoadTestPlan(
        source=request.source,
        host=request.host,
        generator_host=request.generator_host or request.host,
        generator_machine=machine_of(there) if there else "",
        flavor=facts.flavor.name,
        version=".".join(map(str, facts.flavor.version)),
        run=request.run,
        path=archive.path if archive else "",
        backup_bytes=archive.bytes if archive else 0,
        place=_place(facts, archive, limits),
        server=options.words,
        initialise=layout_words(server),
        pool_bytes=request.pool_bytes,
        server_memory_bytes=server_memory(request, options),
        generator_memory_bytes=generator_memory(request),
        server_cores=server_cores,
        generator_cores=generator_cores,
        shares_cores=shares,
        needed_bytes=needed_bytes(request, facts, archive, rounds),
        floor_bytes=FLOOR_BYTES,
        floor_percent=FLOOR_PERCENT,
        start_seconds=limits.start_seconds,
        most_seconds=min(request.most_seconds, limits.most_seconds),
        rounds=rounds,
        estimate=estimate(request, facts, archive, rounds),
        reasons=options.reasons,
        digests=digest_plan(request.workload.digests),
    )
    return replace(plan, findings=tuple(_findings(plan, request, facts, limits)))


def _place(facts: LoadTestFacts, archive: Archive | None, limits: LoadTestLimits) -> str:
    if limits.directory:
        return limits.directory
    beside = archive is not None and facts.is_backup_there
    return (archive.path.rpartition("/")[0] or "/") if beside and archive else facts.work_dir


def _cores(facts: LoadTestFacts, limits: LoadTestLimits) -> tuple[int, int, bool]:
    """Return the cores of server and generator, and whether they share them: each has at least one."""
    count = facts.host.cpu_count if facts.host else 1
    if facts.generator:
        there = facts.generator.host.cpu_count if facts.generator.host else 1
        return min(count, limits.server_cores), min(there, limits.generator_cores), False
    if count >= limits.server_cores + limits.generator_cores:
        return limits.server_cores, limits.generator_cores, False
    if count < 4:  # one core for each would make the server smaller than any real one
        return min(count, limits.server_cores), min(count, limits.generator_cores), True
    generator = max(1, min(limits.generator_cores, count // 3))
    return min(limits.server_cores, count - generator), generator, False


# --- findings -----------------------------------------------------------------------------------------------------------
def _findings(
    plan: LoadTestPlan, request: LoadTestRequest, facts: LoadTestFacts, limits: LoadTestLimits
) -> Iterator[LoadTestFinding]:
    yield from _of_host(plan, facts, limits)
    yield from _of_backup(request, facts)
    yield from _of_tools(facts)
    if facts.generator:
        yield from _of_generator(plan, facts.generator)
    yield from _of_memory(plan, request, facts, limits)
    yield from _of_version(request, facts)
    if facts.free_bytes is not None and facts.free_bytes < plan.needed_bytes:
        text = phrase(
            "The last probe saw {free_bytes} MiB free; the test can need {needed_bytes} MiB in {place}.",
            free_bytes=facts.free_bytes // MIB,
            needed_bytes=plan.needed_bytes // MIB,
            place=plan.place,
        )
        yield LoadTestFinding("load_test.space", Severity.WARNING, text)
    expected = plan.estimate.total
    if expected is not None and expected > plan.most_seconds:
        text = phrase(
            "The test is expected to take {expected} min and ends after {most_seconds} min.",
            expected=f"{expected / 60:.0f}",
            most_seconds=f"{plan.most_seconds / 60:.0f}",
        )
        yield LoadTestFinding("load_test.time", Severity.WARNING, text)
    if needed := seconds_missing(plan.rounds, request.workload):
        text = phrase(
            "Rounds with most schemas need {needed} s to use each schema once: measure longer, stay shorter on "
            "each, or add threads.",
            needed=needed,
        )
        yield LoadTestFinding("load_test.schemas", Severity.WARNING, text)
    if plan.digests.sha256 and plan.digests.share < GOOD_SHARE:
        text = phrase(
            "The statements of this test are {share} of those that the source ran: see which are left out.",
            share=f"{plan.digests.share:.0%}",
        )
        yield LoadTestFinding("load_test.digests", Severity.WARNING, text)
    if plan.shares_cores:
        text = phrase("Server and generator share their cores: the generator takes part of the server’s speed.")
        yield LoadTestFinding("load_test.cores", Severity.WARNING, text)


def host_is_unread(name: str) -> LoadTestFinding:
    """Refuse a host without facts: it was never probed, or the last probe did not reach it."""
    text = phrase("The last probe did not read {name}: see its instances. A host without one needs one.", name=name)
    return LoadTestFinding("load_test.host", Severity.REFUSAL, text)


def _of_host(plan: LoadTestPlan, facts: LoadTestFacts, limits: LoadTestLimits) -> Iterator[LoadTestFinding]:
    if facts.host is None:
        yield host_is_unread(plan.host)
    primaries = [one for one in facts.neighbours if one.takes_writes]
    others = [one for one in facts.neighbours if not one.takes_writes]
    for one in primaries:
        severity = Severity.WARNING if limits.allows_primary_hosts else Severity.REFUSAL
        text = phrase(
            "{one} ({role} of {cluster}) takes writes on this host. The test would take its CPU and disk.",
            one=one.name,
            role=one.role,
            cluster=one.cluster,
        )
        yield LoadTestFinding("load_test.host", severity, text)
    yield from _of_neighbours(others, phrase("this host"), phrase("CPU and disk"))
    if facts.busy:
        yield LoadTestFinding(
            "load_test.busy", Severity.WARNING, phrase("{holder}. The test waits in the queue.", holder=facts.busy)
        )


def _of_neighbours(neighbours: Iterable[Neighbour], where: str, what: str) -> Iterator[LoadTestFinding]:
    for one in neighbours:
        text = phrase(
            "{one} ({role} of {cluster}) runs on {where} and shares {what} with the test.",
            one=one.name,
            role=one.role,
            cluster=one.cluster,
            where=where,
            what=what,
        )
        yield LoadTestFinding("load_test.shared_host", Severity.WARNING, text)


def _of_generator(plan: LoadTestPlan, there: GeneratorFacts) -> Iterator[LoadTestFinding]:
    """What speaks against the other host that runs the load generator."""
    name = plan.generator_host
    if there.unreachable:
        text = phrase(
            "{host} cannot connect to {name}: {unreachable}.", host=plan.host, name=name, unreachable=there.unreachable
        )
        yield LoadTestFinding("load_test.host", Severity.REFUSAL, text)
    if there.host is None:
        yield host_is_unread(name)
    else:
        if missing := [tool for tool in ("sysbench", "python3") if tool not in there.host.tools]:
            programs = phrase("sysbench and python3") if len(missing) > 1 else missing[0]
            text = phrase("{programs} must be installed on {name}.", programs=programs, name=name)
            yield LoadTestFinding("load_test.tool", Severity.REFUSAL, text)
        if there.host.memory_available_bytes < plan.generator_limit_bytes:
            free, most = there.host.memory_available_bytes // MIB, plan.generator_limit_bytes // MIB
            text = phrase(
                "The load generator may use {most} MiB of memory; {name} has {free} MiB free.",
                most=most,
                name=name,
                free=free,
            )
            yield LoadTestFinding("load_test.memory", Severity.REFUSAL, text)
    yield from _of_neighbours(there.neighbours, name, phrase("CPU and network"))
    if there.busy:
        yield LoadTestFinding(
            "load_test.busy", Severity.WARNING, phrase("{holder}. The test waits in the queue.", holder=there.busy)
        )
    text = phrase(
        "Each statement passes an SSH connection between {name} and {host}: it is part of the latency and "
        "limits the rate.",
        name=name,
        host=plan.host,
    )
    yield LoadTestFinding("load_test.tunnel", Severity.WARNING, text)


def _of_backup(request: LoadTestRequest, facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if request.run and (facts.backup_problem or facts.archive is None):
        text = facts.backup_problem or phrase("the backup has no readable file")
        yield LoadTestFinding(
            "load_test.backup", Severity.REFUSAL, phrase("The backup cannot be restored: {text}.", text=text)
        )
    is_empty = not request.run and not request.workload.table_ddl.strip()
    if is_empty and request.workload.profile is Profile.ROTATING:
        text = phrase(
            "An empty server has no schema to copy. Choose a backup, or enter the CREATE TABLE statements of the "
            "schema."
        )
        yield LoadTestFinding("load_test.backup", Severity.REFUSAL, text)


def _of_tools(facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if facts.host is None:
        return
    needed = "python3" if facts.generator else "sysbench"
    if needed not in facts.host.tools:
        text = (
            phrase("sysbench is not installed on the host. Install the package (on RHEL from EPEL).")
            if needed == "sysbench"
            else phrase("{program} is not installed on the host. Install the package.", program=needed)
        )
        yield LoadTestFinding("load_test.tool", Severity.REFUSAL, text)


def _of_memory(
    plan: LoadTestPlan, request: LoadTestRequest, facts: LoadTestFacts, limits: LoadTestLimits
) -> Iterator[LoadTestFinding]:
    if request.pool_bytes > limits.most_pool_bytes:
        text = phrase(
            "A buffer pool may have {most_pool_bytes} MiB (DBOPS_LOAD_TEST_POOL_BYTES).",
            most_pool_bytes=limits.most_pool_bytes // MIB,
        )
        yield LoadTestFinding("load_test.memory", Severity.REFUSAL, text)
    if facts.host and facts.host.memory_available_bytes < plan.memory_limit_bytes:
        free, most = facts.host.memory_available_bytes // MIB, plan.memory_limit_bytes // MIB
        text = phrase("The test may use {most} MiB of memory; the host has {free} MiB free.", most=most, free=free)
        yield LoadTestFinding("load_test.memory", Severity.REFUSAL, text)


def _of_version(request: LoadTestRequest, facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if facts.flavor.name != "mysql" or tuple(facts.flavor.version) not in CRASHING:
        return
    growth = facts.source.growth if facts.source else None
    tables = request.most_schemas * tables_of_schema(facts) + ((growth.tables if growth and request.run else None) or 0)
    if tables > CRASHING_TABLES or (request.most_schemas and not tables_of_schema(facts)):
        version = ".".join(map(str, facts.flavor.version))
        text = phrase(
            "MySQL {version} crashes at a restart with more than {crashing_tables} tables (bug 115517); the test "
            "would make {tables}.",
            version=version,
            crashing_tables=CRASHING_TABLES,
            tables=tables,
        )
        yield LoadTestFinding("load_test.version", Severity.REFUSAL, text)
