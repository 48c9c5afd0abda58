"""Plan a load test from facts: what runs where, with which limits, how long, and what speaks against it."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import HostFacts, to_record
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.allowed_options import TABLE_CACHES, memory_bytes, most_of, redo_bytes
from dbops.engine.load_tests.facts import LoadTestFacts, LoadTestLimits
from dbops.engine.load_tests.planning import seconds_missing
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.server_options import ServerOptions, layout_words, server_options
from dbops.engine.load_tests.workload import OF_SYSBENCH, Profile
from dbops.engine.restore_tests.plan import RATIO_UNKNOWN
from dbops.engine.states import Severity

#: MySQL releases that crash at a restart with more than this many tables (bug 115517, PS-9306).
CRASHING, CRASHING_TABLES = ((8, 0, 38), (8, 4, 1), (9, 0, 0)), 8_000
#: Memory of a server beside its pool: its own, performance_schema, and for each connection, table object and definition (estimates).
SERVER_BYTES, CONNECTION_BYTES, TABLE_BYTES, DEFINITION_BYTES = 512 * MIB, 2 * MIB, 12 * 1024, 24 * 1024
#: Memory of the generator: its own, and a Lua state with the statements for each thread.
GENERATOR_BYTES, THREAD_BYTES = 64 * MIB, 4 * MIB
#: A limit this much above the estimate ends a process that runs away, and no other.
LIMIT_FACTOR = 1.25
#: Disk: a table of a copy (measured: 2.2 GB for 24,000), a row of sysbench with its index, and what remains free on any account.
COPY_TABLE_BYTES, ROW_BYTES, FLOOR_BYTES, FLOOR_PERCENT = 110 * 1024, 260, 1024 * MIB, 5
#: What inserts and updates add in a second at most, in data, redo and binary log (estimate for a disk of 100 MiB/s, shared by three).
WRITTEN_BYTES = 30 * MIB
#: Times in seconds: bytes a second of unpacking and preparing, of sysbench's rows, a table of a copy, a start or restart.
RESTORE_RATE, ROWS_RATE, COPY_TABLE_SECONDS, START_SECONDS = 60 * MIB, 60_000, 0.007, 8.0


@dataclass(frozen=True, slots=True)
class LoadTestFinding:
    """What speaks against a load test. ``code`` is an entry of the error catalogue."""

    code: str
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected seconds of each phase. ``fill`` is ``None`` where it is unknown how much a copy of a schema is."""

    restore: float
    fill: float | None
    rounds: float

    @property
    def total(self) -> float | None:
        return None if self.fill is None else self.restore + self.fill + self.rounds


@dataclass(frozen=True, slots=True)
class LoadTestPlan:
    """Everything that a load test will do: shown, confirmed, and then run without a change.

    Attributes:
        source, host: names of the instance whose settings are used, and of the host that runs the test.
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
    """

    source: str
    host: str
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
    estimate: Estimate
    reasons: tuple[str, ...] = ()
    findings: tuple[LoadTestFinding, ...] = ()

    @property
    def refusals(self) -> tuple[LoadTestFinding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.REFUSAL)

    @property
    def warnings(self) -> tuple[LoadTestFinding, ...]:
        return tuple(one for one in self.findings if one.severity is Severity.WARNING)

    @property
    def memory_bytes(self) -> int:
        return self.server_memory_bytes + self.generator_memory_bytes

    @property
    def memory_limit_bytes(self) -> int:
        return int(self.memory_bytes * LIMIT_FACTOR)  # what must be free

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
    server_cores, generator_cores, shares = _cores(facts.host, limits)
    server = facts.source.server if facts.source else None
    archive = facts.archive if request.run else None
    plan = LoadTestPlan(
        source=request.source,
        host=request.host,
        flavor=facts.flavor.name,
        version=".".join(map(str, facts.flavor.version)),
        run=request.run,
        path=archive.path if archive else "",
        backup_bytes=archive.bytes if archive else 0,
        place=_place(facts, archive, limits),
        server=options.words,
        initialise=layout_words(server),
        pool_bytes=request.pool_bytes,
        server_memory_bytes=_server_memory(request, options),
        generator_memory_bytes=GENERATOR_BYTES + request.most_threads * (THREAD_BYTES + _statement_bytes(request)),
        server_cores=server_cores,
        generator_cores=generator_cores,
        shares_cores=shares,
        needed_bytes=_needed_bytes(request, facts, archive, rounds),
        floor_bytes=FLOOR_BYTES,
        floor_percent=FLOOR_PERCENT,
        start_seconds=limits.start_seconds,
        most_seconds=min(request.most_seconds, limits.most_seconds),
        rounds=rounds,
        estimate=_estimate(request, facts, archive, rounds),
        reasons=options.reasons,
    )
    return replace(plan, findings=tuple(_findings(plan, request, facts, limits)))


def _place(facts: LoadTestFacts, archive: Archive | None, limits: LoadTestLimits) -> str:
    if limits.directory:
        return limits.directory
    beside = archive is not None and facts.is_backup_there
    return (archive.path.rpartition("/")[0] or "/") if beside and archive else facts.work_dir


def _cores(host: HostFacts | None, limits: LoadTestLimits) -> tuple[int, int, bool]:
    """Return the cores of server and generator, and whether they share them: each has at least one."""
    count = host.cpu_count if host else 1
    if count >= limits.server_cores + limits.generator_cores:
        return limits.server_cores, limits.generator_cores, False
    if count < 4:  # one core for each would make the server smaller than any real one
        return min(count, limits.server_cores), min(count, limits.generator_cores), True
    generator = max(1, min(limits.generator_cores, count // 3))
    return min(limits.server_cores, count - generator), generator, False


def _statement_bytes(request: LoadTestRequest) -> int:
    return 2 * sum(len(one) + 64 for one in request.workload.statements)


def _server_memory(request: LoadTestRequest, options: ServerOptions) -> int:
    def of_set(given: dict[str, int]) -> int:
        tables, definitions = (given.get(name, options.cache(name)) for name in TABLE_CACHES)
        other = memory_bytes(given, pool_bytes=request.pool_bytes, connections=request.most_threads)
        return tables * TABLE_BYTES + definitions * DEFINITION_BYTES + other

    caches = most_of(request.option_sets, of_set)
    return int(request.pool_bytes * 1.1) + SERVER_BYTES + request.most_threads * CONNECTION_BYTES + caches


def tables_of_schema(facts: LoadTestFacts) -> int:
    """Return how many tables a schema of the source has on average, 0 if that is unknown."""
    growth = facts.source.growth if facts.source else None
    return round(growth.tables / growth.schemas) if growth and growth.tables and growth.schemas else 0


def _data_bytes(archive: Archive | None) -> int:
    return (archive.data_bytes or archive.bytes * RATIO_UNKNOWN) if archive else 0


def _copied_bytes(request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None) -> int:
    """Return the bytes of all copies, at most: a schema of a source with an unknown number of them can have all data."""
    tables = max(1, tables_of_schema(facts))
    growth = facts.source.growth if facts.source else None
    one = _data_bytes(archive) / max(1, (growth.schemas if growth else None) or 1)
    return int(request.most_schemas * (tables * COPY_TABLE_BYTES + one * request.workload.row_share))


def _needed_bytes(
    request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None, rounds: tuple[Round, ...]
) -> int:
    """Return the free disk that a test needs: restored data, copies or sysbench's tables, redo, what it writes, and the floor."""
    server = facts.source.server if facts.source else None
    asked = most_of(request.option_sets, lambda given: redo_bytes(given, facts.flavor))
    redo = max(server.redo_capacity_bytes if server else 0, asked)
    work = request.workload
    filled = (
        work.tables * work.table_rows * ROW_BYTES
        if work.profile in OF_SYSBENCH
        else _copied_bytes(request, facts, archive)
    )
    reads = work.profile in (Profile.READ_ONLY, Profile.POINT_SELECT)
    seconds = 0 if reads else sum(one.seconds + one.warm_up_seconds for one in rounds)
    return int(_data_bytes(archive) * 1.1) + filled + redo + min(seconds * WRITTEN_BYTES, 64 * 1024 * MIB) + FLOOR_BYTES


def _estimate(
    request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None, rounds: tuple[Round, ...]
) -> Estimate:
    restarts = sum(
        before.options != after.options or bool(after.arm) for before, after in zip(rounds, rounds[1:], strict=False)
    )
    measured = sum(one.seconds + one.warm_up_seconds + 2 for one in rounds)
    restore = _data_bytes(archive) / RESTORE_RATE * 1.5 + START_SECONDS
    return Estimate(restore, _fill_seconds(request, facts, archive), measured + restarts * START_SECONDS)


def _fill_seconds(request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None) -> float | None:
    """Return in how many seconds the tables are filled or copied; ``None`` if the schemas and tables of a restored source are unknown."""
    work = request.workload
    if work.profile in OF_SYSBENCH:
        return work.tables * work.table_rows / ROWS_RATE
    if archive and request.most_schemas and not tables_of_schema(facts):
        return None
    made = request.most_schemas * max(1, tables_of_schema(facts)) * COPY_TABLE_SECONDS
    return made + _copied_bytes(request, facts, archive) / RESTORE_RATE


# --- findings -----------------------------------------------------------------------------------------------------------
def _findings(
    plan: LoadTestPlan, request: LoadTestRequest, facts: LoadTestFacts, limits: LoadTestLimits
) -> Iterator[LoadTestFinding]:
    yield from _of_host(facts, limits)
    yield from _of_backup(request, facts)
    yield from _of_tools(facts)
    yield from _of_memory(plan, request, facts, limits)
    yield from _of_version(request, facts)
    if facts.free_bytes is not None and facts.free_bytes < plan.needed_bytes:
        text = f"The last probe saw {facts.free_bytes // MIB} MiB free; the test can need {plan.needed_bytes // MIB} MiB in {plan.place}."
        yield LoadTestFinding("load_test.space", Severity.WARNING, text)
    expected = plan.estimate.total
    if expected is not None and expected > plan.most_seconds:
        text = f"The test is expected to take {expected / 60:.0f} min and ends after {plan.most_seconds / 60:.0f} min."
        yield LoadTestFinding("load_test.time", Severity.WARNING, text)
    if needed := seconds_missing(plan.rounds, request.workload):
        text = f"Rounds with most schemas need {needed} s to use each schema once: measure longer, stay shorter on each, or add threads."
        yield LoadTestFinding("load_test.schemas", Severity.WARNING, text)
    if plan.shares_cores:
        text = "Server and generator share their cores: the generator takes part of the server’s speed."
        yield LoadTestFinding("load_test.cores", Severity.WARNING, text)


def _of_host(facts: LoadTestFacts, limits: LoadTestLimits) -> Iterator[LoadTestFinding]:
    if facts.host is None:
        yield LoadTestFinding("load_test.host", Severity.REFUSAL, "The host was never probed: add an instance on it.")
    primaries = [one for one in facts.neighbours if one.takes_writes]
    others = [one for one in facts.neighbours if not one.takes_writes]
    for one in primaries:
        severity = Severity.WARNING if limits.allows_primary_hosts else Severity.REFUSAL
        text = (
            f"{one.name} ({one.role} of {one.cluster}) takes writes on this host. The test would take its CPU and disk."
        )
        yield LoadTestFinding("load_test.host", severity, text)
    for one in others:
        text = f"{one.name} ({one.role} of {one.cluster}) runs on this host and shares CPU and disk with the test."
        yield LoadTestFinding("load_test.shared_host", Severity.WARNING, text)
    if facts.busy:
        yield LoadTestFinding("load_test.busy", Severity.WARNING, f"{facts.busy}. The test waits in the queue.")


def _of_backup(request: LoadTestRequest, facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if request.run and (facts.backup_problem or facts.archive is None):
        text = facts.backup_problem or "the backup has no readable file"
        yield LoadTestFinding("load_test.backup", Severity.REFUSAL, f"The backup cannot be restored: {text}.")
    is_empty = not request.run and not request.workload.table_ddl.strip()
    if is_empty and request.workload.profile is Profile.ROTATING:
        text = "An empty server has no schema to copy. Choose a backup, or enter the CREATE TABLE statements of the schema."
        yield LoadTestFinding("load_test.backup", Severity.REFUSAL, text)


def _of_tools(facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if facts.host is None:
        return
    if "sysbench" not in facts.host.tools:
        text = (
            "sysbench is not installed on the host. Install the package sysbench (Debian, Ubuntu; on RHEL from EPEL)."
        )
        yield LoadTestFinding("load_test.tool", Severity.REFUSAL, text)


def _of_memory(
    plan: LoadTestPlan, request: LoadTestRequest, facts: LoadTestFacts, limits: LoadTestLimits
) -> Iterator[LoadTestFinding]:
    if request.pool_bytes > limits.most_pool_bytes:
        text = f"A buffer pool may have {limits.most_pool_bytes // MIB} MiB (DBOPS_LOAD_TEST_POOL_BYTES)."
        yield LoadTestFinding("load_test.memory", Severity.REFUSAL, text)
    if facts.host and facts.host.memory_available_bytes < plan.memory_limit_bytes:
        free, most = facts.host.memory_available_bytes // MIB, plan.memory_limit_bytes // MIB
        text = f"The test may use {most} MiB of memory; the host has {free} MiB free."
        yield LoadTestFinding("load_test.memory", Severity.REFUSAL, text)


def _of_version(request: LoadTestRequest, facts: LoadTestFacts) -> Iterator[LoadTestFinding]:
    if facts.flavor.name != "mysql" or tuple(facts.flavor.version) not in CRASHING:
        return
    growth = facts.source.growth if facts.source else None
    tables = request.most_schemas * tables_of_schema(facts) + ((growth.tables if growth and request.run else None) or 0)
    if tables > CRASHING_TABLES or (request.most_schemas and not tables_of_schema(facts)):
        version = ".".join(map(str, facts.flavor.version))
        text = f"MySQL {version} crashes at a restart with more than {CRASHING_TABLES} tables (bug 115517); the test would make {tables}."
        yield LoadTestFinding("load_test.version", Severity.REFUSAL, text)
