"""Write the sample's load tests: a wall at 600 schemas, an A/B test of doublewrite, one that was stopped, one that failed."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.measured import report_of
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.planned_rounds import rounds_of
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.round_result import RoundResult, Second, WaitShare
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.tidb_plan import plan_load
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.phrases import phrase
from dbops.engine.states import RunStatus
from dbops.loaders.load_tests import default_archive, facts_of, limits
from dbops.models import BackupRun, Host, Instance, LoadTest, LoadTestEvent, LoadTestRound
from dbops.sample.generate.digests import SHOP
from dbops.sample.generate.story import ANNA, JONAS

MIB = 1024**2
#: Statements a second, and P50, P99 in ms, by the number of schemas, with caches of 8,000 tables.
CURVE = {
    75: (38_550, 0.137, 1.10),
    150: (40_340, 0.130, 1.12),
    300: (38_386, 0.125, 1.34),
    600: (26_465, 0.120, 4.42),
    1200: (13_900, 0.151, 11.8),
}
#: Events a second of the arms, in each pair: 1.20 (1.03 to 1.41) of A/B, 0.93 (0.72 to 1.22) of A/A.
AB_RATIOS, AA_RATIOS = (1.17, 1.35, 1.23, 1.07), (0.842, 0.915, 1.044)
WRITES = 2_140
#: Waits of a crowded dictionary and of free caches: event, share of the threads' time, mean of one in seconds.
CROWDED = (
    ("wait/synch/rwlock/innodb/dict_operation_lock", 0.31, 9.1e-4),
    ("wait/synch/mutex/sql/LOCK_table_cache", 0.12, 4.0e-5),
    ("wait/io/file/innodb/innodb_data_file", 0.07, 1.1e-4),
)
FREE = (
    ("wait/io/file/innodb/innodb_data_file", 0.021, 9.0e-5),
    ("wait/synch/mutex/sql/LOCK_table_cache", 0.004, 2.0e-7),
)
WRITING = (
    ("wait/io/file/innodb/innodb_data_file", 0.27, 3.2e-4),
    ("wait/io/file/innodb/innodb_log_file", 0.19, 2.7e-4),
    ("wait/synch/mutex/innodb/log_sys_mutex", 0.03, 6.0e-6),
)
BUCKETS, LEAST_MS, RATIO = 1024, 0.001, math.exp(math.log(1e8) / 1024)


@dataclass(frozen=True, slots=True)
class Speed:
    """What a round shows: statements a second, P50 and P99 in ms, statements of an event, waits."""

    per_second: float
    p50_ms: float
    p99_ms: float
    statements: int = 1
    waits: tuple[tuple[str, float, float], ...] = FREE


@dataclass(frozen=True, slots=True)
class MadeLoadTest:
    """One load test to write. ``rounds``: how many have ended; ``None``: all."""

    request: LoadTestRequest
    ended_days_ago: float
    by: str
    reason: str
    status: RunStatus = RunStatus.SUCCEEDED
    rounds: int | None = None


def write_load_tests(instances: dict[str, Instance], begin: datetime, now: datetime, seed: int) -> int:
    """Store the load tests that the history reaches. Return their number."""
    dice = random.Random(seed)  # noqa: S311 - it guards nothing, and is to be the same each time
    written = 0
    for made in _all(instances):
        end = now - timedelta(days=made.ended_days_ago)
        if end - timedelta(hours=6) > begin:
            _write(made, instances[made.request.source], end, dice)
            written += 1
    return written


def _all(instances: dict[str, Instance]) -> Iterator[MadeLoadTest]:
    writes = LoadTestRequest(
        source="search-b1",
        host=instances["search-r2"].host.name,
        workload=Workload(Profile.WRITE_ONLY, tables=4, table_rows=500_000),
        raised=Raised.NOTHING,
        options_a=(("innodb_doublewrite", "ON"),),
        options_b=(("innodb_doublewrite", "OFF"),),
        most_pairs=4,
        aa_pairs=3,
        pool_bytes=4096 * MIB,
    )
    points = replace(
        writes,
        workload=Workload(Profile.POINT_SELECT, tables=8, table_rows=1_000_000),
        raised=Raised.THREADS,
        steps=(4, 8, 16, 32),
        options_a=(),
        options_b=(),
    )
    archive = default_archive(instances["shop-b1"])
    schemas = LoadTestRequest(
        source="shop-b1",
        host=instances["shop-r2"].host.name,
        run=archive.run if archive else 0,
        workload=Workload(Profile.ROTATING, schema="shop_0001", row_share=0.001, seconds_on_schema=0.5, digests=SHOP),
        raised=Raised.SCHEMAS,
        steps=tuple(CURVE),
        pool_bytes=8192 * MIB,
        most_seconds=8 * 3600,
    )
    yield MadeLoadTest(points, 4.2, JONAS, "Baseline before the upgrade", RunStatus.CANCELLED, 5)
    yield MadeLoadTest(
        replace(points, rate=0, steps=(16, 32, 512)),
        3.1,
        JONAS,
        "How many threads does search carry?",
        RunStatus.FAILED,
        2,
    )
    yield MadeLoadTest(schemas, 2.3, ANNA, "Shop reaches 600 schemas soon: where is the wall?")
    yield MadeLoadTest(writes, 1.2, ANNA, "Does doublewrite off pay on these disks?")


def _write(made: MadeLoadTest, source: Instance, end: datetime, dice: random.Random) -> None:
    request = made.request
    host = _host_of(request.host)
    plan = plan_load(request, facts_of(request, source, host), rounds_of(request), limits())
    steps = _steps(made, plan)
    begin = end - timedelta(seconds=sum(step["seconds"] for step in steps))
    at = begin + timedelta(seconds=sum(step["seconds"] for step in steps[: _place(steps)]))
    results = list(_results(plan, request, at, made.rounds, dice))
    row = LoadTest.objects.create(
        uid=f"{dice.getrandbits(64):016x}",
        cluster=source.cluster,
        source=source,
        host=host,
        run=BackupRun.objects.filter(pk=request.run).first() if request.run else None,
        status=made.status,
        requested_by=made.by,
        requested_at=begin - timedelta(seconds=4),
        request_key=f"{dice.getrandbits(128):032x}",
        reason=made.reason,
        started_at=begin,
        finished_at=end,
        request=to_record(request),
        plan=to_record(plan),
        fingerprint=plan.fingerprint,
        steps=steps,
        report=report_of(request, plan, results) if made.status is RunStatus.SUCCEEDED else {},
        error=_error(made, request.host),
        cancel_requested_at=end - timedelta(seconds=9) if made.status is RunStatus.CANCELLED else None,
        cancel_requested_by=made.by if made.status is RunStatus.CANCELLED else "",
    )
    LoadTestRound.objects.bulk_create(
        LoadTestRound(load_test=row, number=one.number, result=to_record(one)) for one in results
    )
    LoadTestEvent.objects.bulk_create(_events(row, plan, results))


def _host_of(name: str) -> Host:
    return Instance.objects.select_related("host").get(host__name=name).host


def _error(made: MadeLoadTest, host: str) -> dict[str, Any]:
    if made.status is not RunStatus.FAILED:
        return {}
    found = "error 1040: Too many connections"
    return RemoteFailure(
        "load_test.connections", phrase("Running the load test on {host}", host=host), cause=found
    ).as_record()


def _place(steps: Sequence[dict[str, Any]]) -> int:
    return next(number for number, step in enumerate(steps) if step["name"] == "rounds")


def _steps(made: MadeLoadTest, plan: LoadTestPlan) -> list[dict[str, Any]]:
    """Return the steps. Those of a restored copy follow its bytes."""
    count = len(plan.rounds) if made.rounds is None else made.rounds
    rounds = sum(one.seconds + one.warm_up_seconds + (9.0 if one.arm else 1.4) for one in plan.rounds[:count])
    data = plan.backup_bytes * 2.7
    times: dict[str, float] = {"check": 1.1, "start": 4.8, "rounds": rounds + 6.0, "stop": 3.2, "remove": 11.4}
    names: tuple[str, ...] = ("check", "initialise", "start", "fill", "rounds", "stop", "remove")
    if plan.path:
        times |= {"unpack": data / 130e6, "prepare": 312.0, "fill": 268.0}
        names = ("check", "unpack", "prepare", "start", "fill", "rounds", "stop", "remove")
    else:
        times |= {"initialise": 6.4, "fill": 31.0}
    bad = {RunStatus.FAILED: "failed", RunStatus.CANCELLED: "cancelled"}.get(made.status, "done")
    return [
        {
            "name": name,
            "state": bad if name == "rounds" else "done",
            "seconds": round(times[name], 3),
            "bytes": int(data) if name == "unpack" else None,
        }
        for name in names
    ]


def _results(
    plan: LoadTestPlan, request: LoadTestRequest, at: datetime, most: int | None, dice: random.Random
) -> Iterator[RoundResult]:
    for one in plan.rounds[:most]:
        at += timedelta(seconds=one.warm_up_seconds + (9.0 if one.arm else 1.4))
        yield _result(one, _speed(one, request, dice), at, plan, dice)
        at += timedelta(seconds=one.seconds)


def _speed(one: Round, request: LoadTestRequest, dice: random.Random) -> Speed:
    if request.raised is Raised.SCHEMAS:
        in_a_second, p50, p99 = CURVE[one.schemas]
        noise = dice.gauss(1, 0.03)
        return Speed(in_a_second * noise, p50, p99 / noise**2, waits=CROWDED if one.schemas >= 600 else FREE)
    if request.raised is Raised.NOTHING:
        ratios = {"b": AB_RATIOS, "a2": AA_RATIOS}.get(one.arm)
        drift = 1 + 0.05 * math.sin(one.pair)
        per_second = WRITES * drift * (ratios[one.pair - 1] if ratios else 1.0)
        return Speed(per_second * 6, 0.9 * WRITES / per_second, 14.0 * WRITES / per_second, 6, WRITING)
    per_second = 61_000 * one.threads / (one.threads + 7) * dice.gauss(1, 0.02)
    p50 = one.threads / per_second * 1000 * 0.92
    return Speed(per_second, p50, p50 * 4.2)


def _result(one: Round, speed: Speed, at: datetime, plan: LoadTestPlan, dice: random.Random) -> RoundResult:
    seconds = tuple(_seconds(one, speed, dice))
    queries = int(sum(second.queries for second in seconds))
    buckets = _buckets(queries, speed)
    thread_seconds = one.threads * one.seconds
    return RoundResult(
        number=one.number,
        started_at=at,
        finished_at=at + timedelta(seconds=one.seconds),
        queries=queries,
        errors=0,
        buckets=buckets,
        seconds=seconds,
        min_ms=round(speed.p50_ms * 0.4, 4),
        max_ms=round(speed.p99_ms * 22, 3),
        average_ms=round(speed.p50_ms * 1.25 + speed.p99_ms * 0.015, 4),
        generator_cores=round(plan.generator_cores * 0.62 * dice.gauss(1, 0.03), 3),
        server_cores=round(plan.server_cores * 0.81 * dice.gauss(1, 0.03), 3),
        waits=tuple(_waits(speed, thread_seconds, dice)),
        counters={"Table_open_cache_misses": queries // 900 if speed.waits is CROWDED else 12, "Opened_tables": 40},
        events=queries // speed.statements,
        schemas_visited=one.schemas,
    )


def _seconds(one: Round, speed: Speed, dice: random.Random) -> Iterator[Second]:
    for number in range(1, one.seconds + 1):
        is_stalled = one.schemas > 600 and dice.random() < 0.06
        queries = 0.0 if is_stalled else float(round(speed.per_second * max(0.2, dice.gauss(1, 0.06))))
        yield Second(number, queries, 0.0, round(speed.p99_ms * 0.6, 3))


def _buckets(queries: int, speed: Speed) -> tuple[tuple[float, int], ...]:
    """Return a body around P50, and 2 % of the statements around P99."""
    found = []
    for number in range(BUCKETS):
        upper = LEAST_MS * RATIO ** (number + 1)
        body = _share(upper, speed.p50_ms, 0.28)
        tail = _share(upper, speed.p99_ms, 0.45)
        if count := round(queries * (0.98 * body + 0.02 * tail)):
            found.append((upper, count))
    return tuple(found)


def _share(upper: float, middle: float, width: float) -> float:
    """Return the share of a log-normal distribution in the bucket below ``upper``."""
    low, high = ((math.log(value / middle)) / (width * math.sqrt(2)) for value in (upper / RATIO, upper))
    return (math.erf(high) - math.erf(low)) / 2


def _waits(speed: Speed, thread_seconds: float, dice: random.Random) -> Iterator[WaitShare]:
    for event, share, mean in speed.waits:
        seconds = thread_seconds * share * dice.gauss(1, 0.05)
        yield WaitShare(event, int(seconds / mean), seconds, share)


def _events(row: LoadTest, plan: LoadTestPlan, results: Sequence[RoundResult]) -> list[LoadTestEvent]:
    lines: list[tuple[datetime | None, str, str]] = []
    lines.append(
        (row.requested_at, "info", phrase("Requested by {by}: {reason}", by=row.requested_by, reason=row.reason))
    )
    lines.append(
        (
            row.started_at,
            "info",
            phrase("Load test {test} started on {host}{generator}.", test=row.pk, host=row.host.name, generator=""),
        )
    )
    for one in results:
        text = phrase(
            "Round {number} of {count} ended{arm}: {queries} statements, {errors} errors.",
            number=one.number,
            count=len(plan.rounds),
            arm="",
            queries=one.queries,
            errors=one.errors,
        )
        lines.append((one.finished_at, "info", text))
    if row.status == RunStatus.CANCELLED:
        lines.append(
            (
                row.cancel_requested_at,
                "warning",
                phrase("Stop of load test {test} requested by {by}.", test=row.pk, by=row.requested_by),
            )
        )
    ends = {RunStatus.SUCCEEDED: phrase("succeeded"), RunStatus.CANCELLED: phrase("was stopped")}
    ended = ends.get(RunStatus(row.status), phrase("failed"))
    text = phrase("No files remain on the host.")
    level = "info" if row.status == RunStatus.SUCCEEDED else "error"
    lines.append(
        (row.finished_at, level, phrase("Load test {test} {ended}. {text}", test=row.pk, ended=ended, text=text))
    )
    return [LoadTestEvent(load_test=row, at=at, level=level, text=text) for at, level, text in lines if at]
