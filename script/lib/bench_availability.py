"""script/bench availability: time the gaps of a large fleet, calculated directly and from daily sums, and compare both.

Uses a temporary database: clusters with a year of probes, nightly backups and an occasional lost replica. Contacts no host and
no broker. Asserts nothing: machines differ.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from script.lib.bench_ground import own_django

NOW = datetime(2026, 11, 20, 13, 30, tzinfo=UTC)
REPLICAS = 2
BATCH = 2000


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench availability", description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000, help="clusters (default 1000)")
    parser.add_argument("--days", type=int, default=365, help="days behind them (default 365)")
    parser.add_argument("--passes", type=int, default=5, help="passes that are timed (default 5)")
    parser.add_argument("--judged", type=int, default=20, help="clusters whose gaps are judged, too (default 20)")
    return parser.parse_args(arguments)


def fill(clusters: int, days: int) -> None:
    """Create the fleet, its probe history and its backups."""
    from dbops.models import Cluster, Host, Instance, InstancePeriod, InstanceState

    dice = random.Random(7)  # noqa: S311 - the same fleet each time
    rows = Cluster.objects.bulk_create(Cluster(name=f"c{number:05d}") for number in range(clusters))
    names = ("primary-1", "backup-1", *(f"replica-{number}" for number in range(1, REPLICAS + 1)))
    wanted = [(cluster, name) for cluster in rows for name in names]
    hosts = Host.objects.bulk_create(
        (Host(name=f"h-{c.name}-{n}", ssh_address=f"{n}.{c.name}") for c, n in wanted), BATCH
    )
    instances = Instance.objects.bulk_create(
        (
            Instance(
                name=f"{c.name}-{n}",
                cluster=c,
                host=h,
                role=n.partition("-")[0],
                address=f"{n}.{c.name}",
                systemd_unit="m",
            )
            for (c, n), h in zip(wanted, hosts, strict=True)
        ),
        BATCH,
    )
    InstancePeriod.objects.bulk_create((row for one in instances for row in _life(one, days, dice)), BATCH)
    going = {row.instance_id: row for row in InstancePeriod.objects.filter(ended_at=None)}
    InstanceState.objects.bulk_create(
        (InstanceState(instance=one, observed_at=NOW, probe_due_at=NOW, period=going[one.pk]) for one in instances),
        BATCH,
    )
    _backups([one for one in instances if one.role == "backup"], days, dice)


def _life(instance: Any, days: int, dice: random.Random) -> list[Any]:
    """Add a two-hour outage about every two months."""
    from dbops.models import InstancePeriod

    start, found = NOW - timedelta(days=days), []

    def period(state: str, end: datetime | None) -> None:
        found.append(
            InstancePeriod(
                cluster=instance.cluster,
                instance=instance,
                name=instance.name,
                role=instance.role,
                state=state,
                started_at=start,
                ended_at=end,
            )
        )

    while (ill := start + timedelta(days=dice.uniform(20, 100))) < NOW - timedelta(days=1):
        well = ill + timedelta(hours=dice.uniform(0.2, 4))
        period("healthy", ill)
        start = ill
        period("unreachable", well)
        start = well
    period("healthy", None)
    return found


def _backups(instances: list[Any], days: int, dice: random.Random) -> None:
    from dbops.models import BackupRun

    for instance in instances:
        minute, hours = dice.randrange(1440), dice.uniform(0.5, 9)
        runs = []
        for day in range(1, days):
            start = NOW - timedelta(days=day, minutes=minute - 1440)
            end = min(NOW, start + timedelta(hours=hours * dice.uniform(0.85, 1.3)))
            runs.append(
                BackupRun(
                    uid=f"{dice.getrandbits(120):x}",
                    instance=instance,
                    origin="managed",
                    method="physical",
                    status="succeeded",
                    started_at=min(start, NOW),
                    finished_at=max(end, min(start, NOW)),
                )
            )
        BackupRun.objects.bulk_create(runs)


def timed(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return wall seconds, processor seconds and the result."""
    began, worked = time.perf_counter(), time.process_time()
    found = act()
    return time.perf_counter() - began, time.process_time() - worked, found


def say(what: str, clock: float, work: float) -> None:
    print(f"{what}: {clock:.2f} s, {work:.2f} of them at work", flush=True)


def measure(options: argparse.Namespace) -> int:
    from django.core.management import call_command
    from django.db import connection

    from dbops.engine.availability.days import amounts
    from dbops.engine.availability.gaps import parts
    from dbops.engine.methods import DEFAULT_METHOD, METHODS
    from dbops.engine.schedule.calendar import Interval
    from dbops.loaders.availability_records import records
    from dbops.models import Cluster, GapDay
    from dbops.queries.availability.sums import totals
    from dbops.worker.availability_rollup import count_days

    call_command("migrate", verbosity=0)
    clock, work, _ = timed(lambda: fill(options.clusters, options.days))
    print(f"{options.clusters} clusters, {options.days} days, a backup a night each, on {connection.vendor}")
    say("made", clock, work)
    clock, work, _ = timed(lambda: count_days(NOW, seconds=86400))
    say(f"all days counted once ({GapDay.objects.count()} sums kept)", clock, work)
    keys = list(Cluster.objects.values_list("pk", flat=True))
    year = Interval(NOW - timedelta(days=options.days), NOW)
    passes = [timed(lambda: totals(keys, year, NOW)) for _ in range(options.passes)]
    say(f"sums of all, median of {len(passes)}", median(one[0] for one in passes), median(one[1] for one in passes))
    clock, work, _ = timed(lambda: count_days(NOW + timedelta(days=1), seconds=86400))
    say("one more day counted", clock, work)
    some = keys[: options.judged]
    clock, work, past = timed(lambda: records(some, year, NOW))
    say(f"{len(some)} clusters read", clock, work)
    clock, work, judged = timed(
        lambda: {key: amounts(parts(past[key], year, method=METHODS[DEFAULT_METHOD])) for key in some}
    )
    say(f"{len(some)} clusters judged", clock, work)
    same = sum(passes[0][2][key] == judged[key] for key in some)
    print(f"the same numbers with {same} of {len(some)}")
    return 0


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with own_django():
        return measure(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
