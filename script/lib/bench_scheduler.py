"""script/bench scheduler: time the scheduler's pass over a long queue and count its queries.

Uses a temporary database with sources, targets, a running rebuild on each source, and the queue. Contacts no host and no broker.
Measures a typical pass of the scheduler: read, decide, and find nothing to change.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from script.lib.bench_ground import own_django


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench scheduler", description=__doc__)
    parser.add_argument("--queued", type=int, default=10_000, help="queued rebuilds (default 10000)")
    parser.add_argument("--sources", type=int, default=2_000, help="sources of these rebuilds (default 2000)")
    parser.add_argument("--passes", type=int, default=20, help="timed passes (default 20)")
    parser.add_argument("--busy", type=float, default=0.9, help="share of sources held by a rebuild (default 0.9)")
    return parser.parse_args(arguments)


def fill(queued: int, sources: int, busy: float) -> None:
    """Create the fleet, the rebuilds that hold their sources, and the queue."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from dbops.models import Cluster, Hold, Host, Instance, Rebuild

    now, count = timezone.now(), sources + queued
    user = User.objects.create(username="bench")
    cluster = Cluster.objects.create(name="bench")
    hosts = Host.objects.bulk_create(Host(name=f"h{n}", ssh_address=f"h{n}.example") for n in range(count))
    instances = Instance.objects.bulk_create(
        Instance(
            name=f"i{n}", cluster=cluster, host=hosts[n], role="replica", address=f"i{n}.example", systemd_unit="m"
        )
        for n in range(count)
    )

    def rebuild(number: int, source: Any, target: Any, status: str) -> Rebuild:
        return Rebuild(
            uid=f"{status}-{number}",
            request_key=f"{status}-{number}",
            target=target,
            source=source,
            target_slot=target if status == "queued" else None,
            method="xbstream",
            status=status,
            priority=number % 3,
            reason="a measurement",
            requested_by=user,
            requested_at=now,
            plan={"padding": "x" * 4000},
            plan_fingerprint="",
        )

    held = int(sources * busy)
    running = Rebuild.objects.bulk_create(rebuild(n, instances[n], instances[n], "running") for n in range(held))
    Hold.objects.bulk_create(
        Hold(instance=instances[n], rebuild=running[n], purpose="source", taken_at=now) for n in range(held)
    )
    Rebuild.objects.bulk_create(
        rebuild(n, instances[n % sources], instances[sources + n], "queued") for n in range(queued)
    )


def timed(act: Callable[[], object]) -> tuple[float, float, list[str]]:
    """Return the wall milliseconds, processor milliseconds and statements of one call."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        began, worked = time.perf_counter(), time.process_time()
        act()
        spent, work = (time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000
    return spent, work, [query["sql"] for query in queries]


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with own_django():
        return measure(options)


def measure(options: argparse.Namespace) -> int:
    from django.core.management import call_command

    from dbops.messaging import updates
    from dbops.models import Rebuild
    from dbops.worker import scheduler

    vars(updates).update(announce=lambda *_: None, announce_many=lambda *_: None)
    call_command("migrate", verbosity=0)
    fill(options.queued, options.sources, options.busy)
    print(f"{options.queued} queued rebuilds on {options.sources} sources, {options.busy:.0%} of them held")
    first, work, statements = timed(scheduler.start_what_can)
    begun = Rebuild.objects.filter(status="running").count() - int(options.sources * options.busy)
    print(
        f"first pass: {first:.0f} ms ({work:.0f} of them at work), {len(statements)} queries:"
        f" it starts {begun} and writes every reason"
    )
    passes = [timed(scheduler.start_what_can) for _ in range(options.passes)]
    times, works = sorted(spent for spent, _, _ in passes), [work for _, work, _ in passes]
    counts = sorted({len(queries) for _, _, queries in passes})
    print(
        f"each further pass: median {median(times):.1f} ms ({median(works):.1f} of them at work), best {times[0]:.1f},"
        f" worst {times[-1]:.1f} of {len(times)}; {', '.join(map(str, counts))} queries"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
