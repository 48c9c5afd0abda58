"""script/bench catch-up: time how fast a replica applies its backlog with durable and with relaxed settings.

Uses its own lab. In each round, for each kind of settings: stop the applier, write to the primary, wait until the replica has
received everything, then start the applier and time it. The network does not count. The result is seconds per thousand
transactions of one load. Durable: each commit and each binary log write waits for the disk; one applier.
"""

import argparse
import os
import sys
import time
from statistics import median
from typing import Any

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.relaxed_durability import relaxations, set_global
from dbops.engine.rebuilds.steps.start.relaxed_durability import choose_appliers
from lab.lab import Lab
from lab.pytest_plugin import start_lab
from script.lib.bench_ground import report, say, scratch
from script.lib.bench_rows import Samples

REPLICA, PRIMARY, RUNS_ALONGSIDE = "replica-1", "primary-1", "backup-1"
DURABLE = {"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "slave_parallel_threads": "0"}


class Bench:
    """A replica whose applier is stopped, given a backlog and started."""

    def __init__(self, lab: Lab, options: argparse.Namespace) -> None:
        self.lab, self.options = lab, options
        self.version = str(self.one(REPLICA, "SELECT @@version AS version")["version"])
        appliers = choose_appliers(os.cpu_count() or 1)
        found = relaxations(flavor_for(self.version, "mariadb"), appliers=appliers, gtid=True)
        relaxed = {item.variable: item.value for item in found}
        self.kinds = {
            "durable": DURABLE,
            "durable, parallel appliers": {**DURABLE, "slave_parallel_threads": str(appliers)},
            "relaxed, one applier": {**DURABLE, **relaxed, "slave_parallel_threads": "0"},
            "relaxed": {**DURABLE, **relaxed},
        }

    def one(self, name: str, sql: str) -> dict[str, Any]:
        connection = self.lab.connect(name)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                row: dict[str, Any] = cursor.fetchone() or {}
                return row
        finally:
            connection.close()

    def measure(self, kind: str) -> tuple[float, int]:
        """Return seconds and transactions."""
        self.one(REPLICA, "STOP SLAVE SQL_THREAD")
        for name, value in self.kinds[kind].items():
            self.one(REPLICA, set_global(name, value))
        before = self._position("gtid_slave_pos", REPLICA)
        self.lab.load_start(tps=self.options.tps, threads=4)
        time.sleep(self.options.seconds)
        self.lab.load_stop()
        goal = self._position("gtid_binlog_pos", PRIMARY)
        while self.one(REPLICA, "SHOW SLAVE STATUS")["Gtid_IO_Pos"].rpartition("-")[2] != str(goal):
            time.sleep(0.1)
        began = time.monotonic()
        self.one(REPLICA, "START SLAVE SQL_THREAD")
        while self._position("gtid_slave_pos", REPLICA) < goal:
            time.sleep(0.05)
        return time.monotonic() - began, goal - before

    def _position(self, variable: str, name: str) -> int:
        text = str(self.one(name, f"SELECT @@GLOBAL.{variable} AS position")["position"])
        return int(text.rpartition("-")[2] or 0)


def run(bench: Bench, rounds: int) -> Samples:
    """Return seconds per thousand transactions. Each round starts with another kind of settings."""
    samples: Samples = {kind: [] for kind in bench.kinds}
    names = list(bench.kinds)
    for number in range(rounds):
        for kind in names[number % len(names) :] + names[: number % len(names)]:
            seconds, transactions = bench.measure(kind)
            samples[kind].append(1000 * seconds / transactions)
            say(f"round {number + 1}, {kind}: {transactions} transactions in {seconds:.1f} s")
    return samples


def tables(samples: Samples) -> list[str]:
    lines = ["| seconds for 1000 transactions | median | min | max |", "|---|---|---|---|"]
    for kind, values in samples.items():
        lines.append(f"| {kind} | {median(values):.2f} | {min(values):.2f} | {max(values):.2f} |")
    lines += ["", "| ratio to durable, in one round | median (min to max) |", "|---|---|"]
    for kind in list(samples)[1:]:
        pairs = [ours / durable for ours, durable in zip(samples[kind], samples["durable"], strict=True)]
        lines.append(f"| {kind} | {median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f}) |")
    return lines


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench catch-up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="rounds of all kinds of settings (default 4)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the primary is written to (default 5)")
    parser.add_argument(
        "--tps", type=int, default=800, help="maximum transactions per second during the write load (default 800)"
    )
    parser.add_argument("--size", default="128M", help="data of the lab (default 128M)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> tuple[Samples, str]:
    """Return the samples and the server's version."""
    with scratch(passable=True) as folder, start_lab(folder / "lab", "127.0.52", size=options.size) as lab:
        bench = Bench(lab, options)
        bench.one(RUNS_ALONGSIDE, "STOP SLAVE")  # it would apply the same transactions at the same time
        return run(bench, options.rounds), bench.version


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    samples, version = measure(options)
    record = {"samples": samples} if options.json else None
    report("catch-up", arguments, [f"MariaDB {version}"], tables(samples), record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
