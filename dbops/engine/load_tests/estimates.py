"""Estimate what a load test needs: memory, disk and time."""

from dataclasses import dataclass

from dbops.engine.backups.archives import Archive
from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.allowed_options import TABLE_CACHES, memory_bytes, most_of, redo_bytes
from dbops.engine.load_tests.facts import LoadTestFacts
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.server_options import ServerOptions
from dbops.engine.load_tests.workload import OF_SYSBENCH, Profile
from dbops.engine.restore_tests.plan import RATIO_UNKNOWN

#: Memory of a server beside its pool: its own, performance_schema, and for each connection, table object and definition (estimates).
SERVER_BYTES, CONNECTION_BYTES, TABLE_BYTES, DEFINITION_BYTES = 512 * MIB, 2 * MIB, 12 * 1024, 24 * 1024
#: Memory of the generator: its own, and a Lua state with the statements for each thread.
GENERATOR_BYTES, THREAD_BYTES = 64 * MIB, 4 * MIB
#: Statements of digests, made by the generator once: at most 64 MiB in two places, and the sampled rows.
DIGEST_BYTES = 256 * MIB
#: Disk: a table of a copy (measured: 2.2 GB for 24,000), a row of sysbench with its index, and what remains free on any account.
COPY_TABLE_BYTES, ROW_BYTES, FLOOR_BYTES, FLOOR_PERCENT = 110 * 1024, 260, 1024 * MIB, 5
#: What inserts and updates add in a second at most, in data, redo and binary log (estimate for a disk of 100 MiB/s, shared by three).
WRITTEN_BYTES = 30 * MIB
#: Times in seconds: bytes a second of unpacking and preparing, of sysbench's rows, a table of a copy, a start or restart.
RESTORE_RATE, ROWS_RATE, COPY_TABLE_SECONDS, START_SECONDS = 60 * MIB, 60_000, 0.007, 8.0


@dataclass(frozen=True, slots=True)
class LoadTestEstimate:
    """The expected seconds of each phase. ``fill`` is ``None`` where it is unknown how much a copy of a schema is."""

    restore: float
    fill: float | None
    rounds: float

    @property
    def total(self) -> float | None:
        return None if self.fill is None else self.restore + self.fill + self.rounds


def generator_memory(request: LoadTestRequest) -> int:
    made = DIGEST_BYTES if request.workload.digests else 0
    return GENERATOR_BYTES + made + request.most_threads * (THREAD_BYTES + _statement_bytes(request))


def _statement_bytes(request: LoadTestRequest) -> int:
    return 2 * sum(len(one) + 64 for one in request.workload.statements)


def server_memory(request: LoadTestRequest, options: ServerOptions) -> int:
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


def data_bytes(archive: Archive | None) -> int:
    return (archive.data_bytes or archive.bytes * RATIO_UNKNOWN) if archive else 0


def _copied_bytes(request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None) -> int:
    """Return the bytes of all copies, at most: a schema of a source with an unknown number of them can have all data."""
    tables = max(1, tables_of_schema(facts))
    growth = facts.source.growth if facts.source else None
    one = data_bytes(archive) / max(1, (growth.schemas if growth else None) or 1)
    return int(request.most_schemas * (tables * COPY_TABLE_BYTES + one * request.workload.row_share))


def needed_bytes(
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
    return int(data_bytes(archive) * 1.1) + filled + redo + min(seconds * WRITTEN_BYTES, 64 * 1024 * MIB) + FLOOR_BYTES


def estimate(
    request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None, rounds: tuple[Round, ...]
) -> LoadTestEstimate:
    restarts = sum(
        before.options != after.options or bool(after.arm) for before, after in zip(rounds, rounds[1:], strict=False)
    )
    measured = sum(one.seconds + one.warm_up_seconds + 2 for one in rounds)
    restore = data_bytes(archive) / RESTORE_RATE * 1.5 + START_SECONDS
    return LoadTestEstimate(restore, _fill_seconds(request, facts, archive), measured + restarts * START_SECONDS)


def _fill_seconds(request: LoadTestRequest, facts: LoadTestFacts, archive: Archive | None) -> float | None:
    """Return in how many seconds the tables are filled or copied; ``None`` if the schemas and tables of a restored source are unknown."""
    work = request.workload
    if work.profile in OF_SYSBENCH:
        return work.tables * work.table_rows / ROWS_RATE
    if archive and request.most_schemas and not tables_of_schema(facts):
        return None
    made = request.most_schemas * max(1, tables_of_schema(facts)) * COPY_TABLE_SECONDS
    return made + _copied_bytes(request, facts, archive) / RESTORE_RATE
