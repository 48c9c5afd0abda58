"""script/bench shared-read: compare three replicas from one shared read with one rebuild and with three in a row.

A program before each target's unpacking tool limits its link to the same rate: the kernel has no netem here, and unlimited links
on one machine share one disk and two cores. Compared are stream steps: from the leader's start to the last target's end.
Asserts nothing.
"""

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from script.lib import supervisor
from script.lib.bench import Bench, stage
from script.lib.bench_ground import report, say
from script.lib.bench_memory import settle
from script.lib.bench_rows import Samples, pairs, table
from script.lib.supervisor import Failed

TARGETS = ("replica-1", "replica-2", "replica-3")
RATE = 40 << 20
LIMITER = """
import os, sys, time
rate, began, sent = int(sys.argv[1]), time.monotonic(), 0
while chunk := os.read(0, 1 << 16):
    view = memoryview(chunk)
    while view:
        view = view[os.write(1, view):]
    sent += len(chunk)
    time.sleep(max(0.0, began + sent / rate - time.monotonic()))
"""
FINAL = ("succeeded", "failed", "cancelled", "expired")


class SharedReadBench(Bench):
    """Three replicas behind links with the same rate."""

    @contextmanager
    def limited(self, rate: int) -> Iterator[None]:
        """Limit every target's unpacking tool to ``rate`` bytes per second."""
        limiter = self.lab.folder / "limiter.py"  # where the servers' user can read it
        limiter.write_text(LIMITER)
        limiter.chmod(0o644)
        shims = [self.lab.host(name).sshd.programs / "mbstream" for name in TARGETS]
        words = [shutil.which("python3", path="/usr/bin:/bin") or "python3", str(limiter), str(rate)]
        text = f'#!/bin/bash\nexec 3<&0\nexec {shutil.which("mbstream")} "$@" < <(exec {shlex.join(words)} <&3) 3<&-\n'
        for shim in shims:
            shim.parent.mkdir(parents=True, exist_ok=True)
            shim.unlink(missing_ok=True)
            shim.write_text(text)
            shim.chmod(0o755)
        try:
            yield
        finally:
            for shim in shims:
                shim.unlink()

    def ask(self, target: str, *words: str) -> int:
        output = self.manage("rebuild", target, "--reason", "benchmark", "--json", *words)
        return int(json.loads(output.splitlines()[-1])["rebuild"])

    def stream_seconds(self, *keys: int) -> float:
        """Wait until all have succeeded; return the seconds from the start of the first stream to the end of the last."""

        def over() -> bool:
            return all(self.status(key) in FINAL for key in keys)

        supervisor.wait_until(over, f"the end of rebuilds {keys}", 900, self.processes, self.stop)
        for key in keys:
            if self.status(key) != "succeeded":
                [(error,)] = self.rows("SELECT error FROM dbops_rebuild WHERE id = ?", key)
                raise Failed(f"rebuild {key} has {self.status(key)}: {error}")
        marks = ", ".join("?" for _ in keys)
        steps = self.rows(
            "SELECT rebuild_id, started_at, finished_at FROM dbops_rebuildstep"  # noqa: S608 - marks alone
            f" WHERE name = 'stream' AND rebuild_id IN ({marks}) ORDER BY rebuild_id",
            *keys,
        )
        begun = datetime.fromisoformat(steps[0][1])
        return max((datetime.fromisoformat(ended) - begun).total_seconds() for _, _, ended in steps)

    def status(self, key: int) -> str:
        [(status,)] = self.rows("SELECT status FROM dbops_rebuild WHERE id = ?", key)
        return str(status)

    def alone(self, target: str) -> float:
        self.wait_for_plan("xbstream")
        settle()
        return self.stream_seconds(self.ask(target))

    def together(self) -> float:
        """Schedule the leader for later, let the others join it, then start all now."""
        self.wait_for_plan("xbstream")
        settle()
        later = f"at:{datetime.now(UTC) + timedelta(hours=2):%Y%m%dT%H%M00Z}"
        first = self.ask(TARGETS[0], "--start", later)
        keys = [first, *(self.ask(name, "--with", TARGETS[0]) for name in TARGETS[1:])]
        self.rows("UPDATE dbops_rebuild SET not_before = NULL WHERE id = ?", first)
        seconds = self.stream_seconds(*keys)
        followers = self.rows("SELECT count(*) FROM dbops_rebuild WHERE leader_id = ?", first)
        if followers[0][0] != len(TARGETS) - 1:
            raise Failed("not all rebuilds joined the leader")
        return seconds


def measure(size: str, rounds: int, rate: int = RATE) -> Samples:
    """Return the seconds of each round under ``one``, ``in a row`` and ``shared read``. Raises ``Failed``."""
    samples: Samples = {"one": [], "in a row": [], "shared read": []}
    with stage(size, "127.0.57", make=SharedReadBench, replicas=len(TARGETS)) as bench, bench.limited(rate):
        for number in range(rounds):
            say(f"shared read, round {number + 1} of {rounds}")
            together_first = number % 2 == 1
            if together_first:
                samples["shared read"].append(bench.together())
            each = [bench.alone(name) for name in TARGETS]
            if not together_first:
                samples["shared read"].append(bench.together())
            samples["one"].append(each[0])
            samples["in a row"].append(sum(each))
    return samples


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench shared-read", description=__doc__)
    parser.add_argument("--size", default="512M", help="data of the lab (default 512M)")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--rate", type=int, default=RATE >> 20, help="MiB per second of each link (default 40)")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        samples = measure(options.size, options.rounds, options.rate << 20)
    except Failed as error:
        say(f"Failed: {error}")
        return 1
    lines = [
        f"shared read / {name}: {', '.join(f'{ratio:.2f}' for ratio in pairs(samples['shared read'], samples[name]))}"
        for name in ("one", "in a row")
    ]
    report(
        "shared-read", arguments, [f"{options.size}, {options.rate} MiB/s a link"], [*table(samples), "", *lines], None
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
