"""script/bench: compare a rebuild, the pipeline typed by hand, and dump and restore on one lab; print the ratios.

Asserts nothing: machines differ and are noisy, so only ratios of one run are comparable. Before each run, all dirty pages are
written to disk. Each round starts with another contestant, so that none always profits from a quiet machine.
"""

import argparse
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from lab.errors import LabError
from lab.lab import Lab
from lab.pytest_plugin import start_lab
from script.lib import supervisor
from script.lib.bench_ground import option_file, report, say, scratch, timed
from script.lib.bench_memory import settle
from script.lib.bench_rows import Samples, pairs, table
from script.lib.bench_tools import tools_of
from script.lib.stage import PYTHON, ROOT
from script.lib.supervisor import Failed, Process, StopFlag

REPLICA, SOURCE = "replica-1", "backup-1"
DUMP = "dump.sql.gz"
BEST_CIPHER = "aes128-gcm@openssh.com"
NOT_OURS = ("stream", "prepare", "catch-up")
#: Steps that only wait, or clean up after the replica already serves and replicates.
AFTER_SERVING = ("certify", "verify", "clean-up")


class Bench:
    """One lab with beat and two workers (one for rebuilds, one for probes), and the timed operations."""

    def __init__(self, folder: Path, lab: Lab, stop: StopFlag) -> None:
        self.folder, self.lab, self.stop, self.tools = folder, lab, stop, tools_of(lab)
        port = supervisor.free_port(6490)
        self.environment = {
            **os.environ,
            "DBOPS_STATE_DIR": str(folder),
            "DBOPS_REDIS_PORT": str(port),
            "DBOPS_REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "DBOPS_VERIFY_STEADY_SECONDS": "2",
            "DBOPS_LINK_TEST_INTERVAL_SECONDS": "0",  # nothing but what is measured is to use the link
        }
        self.processes: list[Process] = []
        self.bytes = 0

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [PYTHON, "manage.py", *words], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failed(f"manage.py {' '.join(words)}: {done.stdout[-800:]}{done.stderr[-800:]}")
        return done.stdout

    def rows(self, sql: str, *values: object) -> list[Any]:
        """Run a statement on the dashboard's database and commit."""
        with closing(sqlite3.connect(self.folder / "dbops.sqlite3", timeout=20)) as connection, connection:
            return connection.execute(sql, values).fetchall()

    def start(self) -> None:
        self.manage("migrate", "--no-input")
        self.manage("fleet", "import", str(self.fleet_file()))
        program = str(ROOT / "script" / "run")
        commands = {"redis": ["redis"], "ticks": ["worker", "ticks"], "probes": ["worker", "probes"], "beat": ["beat"]}
        for name, words in commands.items():
            process = Process(name, [program, *words], self.environment, self.folder)
            self.processes.append(process)
            process.start()

    def fleet_file(self) -> Path:
        return self.lab.fleet_yaml

    def end(self) -> None:
        for process in reversed(self.processes):
            process.stop(30.0)

    def wait_for_plan(self, method: str) -> None:
        """Wait until a rebuild can start, judged by facts newer than all previous changes."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        self.rows("UPDATE dbops_instancestate SET probe_due_at = ?", now)

        def possible() -> bool:
            if self.rows("SELECT 1 FROM dbops_instancestate WHERE observed_at IS NULL OR observed_at <= ?", now):
                return False
            try:
                plan = json.loads(self.manage("rebuild", REPLICA, "--method", method, "--plan", "--json"))
            except (Failed, ValueError):
                return False
            return bool(plan["is_possible"]) and plan["eligibility"]["answer"] == "now"

        supervisor.wait_until(possible, f"a plan by {method} that can start now", 120, self.processes, self.stop)

    # ---- what is timed -----------------------------------------------------------------------------------------------

    def rebuild(self, method: str = "xbstream", words: tuple[str, ...] = ()) -> dict[str, float]:
        """Rebuild with dbops, with more ``words`` for its command. Return seconds by step, in total, and until it replicates."""
        self.wait_for_plan(method)
        settle()
        command = ("rebuild", REPLICA, "--method", method, "--reason", "benchmark", "--follow", "--json", *words)
        result: dict[str, Any] = json.loads(self.manage(*command).splitlines()[-1])
        steps = {step["name"]: float(step["seconds"]) for step in result["steps"]}
        sizes = {step["name"]: step["bytes"] for step in result["steps"]}
        self.bytes = sizes.get("stream") or self.bytes
        whole = float(result["seconds"])
        attached = whole - sum(steps[name] for name in AFTER_SERVING)
        return {**steps, "whole rebuild": whole, "rebuild until attached": attached}

    def by_hand(self, cipher: str | None) -> float:
        """Run the pipeline as a person would on the target's host, into an empty directory of the same disk."""
        source, target = self.lab.host(SOURCE), self.lab.host(REPLICA)
        account = self.lab.accounts["backup"]
        directory, old = target.data_dir.with_name("by-hand"), target.data_dir.with_name("by-hand.old")
        # As in a rebuild, keep the last copy until the new one exists: writing to just-freed memory is faster.
        if directory.exists():
            directory.rename(old)
        directory.mkdir()
        # A person would keep the password in a file too; this one exists only during the run.
        with option_file(source.config_file, account.user, account.password) as file:
            words = ("--backup", "--stream=xbstream", "--parallel=1", "--slave-info", *self.tools.backup_options)
            backup = f"{self.tools.backup} --defaults-file={file} {shlex.join(words)}"
            backup += (
                f" --socket={source.socket} --datadir={source.data_dir} --target-dir=/var/tmp --open-files-limit=65536"
            )
            ssh = ["ssh", "-b", target.address, "-p", str(source.ssh_port), "-i", str(self.lab.ssh_key)]
            options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
            ssh += [word for option in options for word in ("-o", option)]
            ssh += ["-c", cipher] if cipher else []
            pull = shlex.join([*ssh, source.address, f"{backup} 2>/dev/null"])
            settle()
            seconds = timed(f"{pull} | {self.tools.unpack} -x -C {shlex.quote(str(directory))} --parallel=1")
        shutil.rmtree(old, ignore_errors=True)
        return seconds

    def dump(self) -> dict[str, float]:
        """Dump the source, compressed. Return the seconds and the file size; keep the file for ``restore``."""
        source, owner, file = self.lab.host(SOURCE), self.lab.accounts["owner"], self.folder / DUMP
        with option_file(None, owner.user, owner.password) as credentials:
            words = shlex.join([f"--socket={source.socket}", "--single-transaction", *self.tools.dump_options])
            dump = f"{self.tools.dump} --defaults-file={credentials} {words} sbtest"
            settle()
            dumped = timed(f"{dump} | gzip > {file}")
        return {"dump and gzip": dumped, "bytes": float(file.stat().st_size)}

    def restore(self) -> dict[str, float]:
        """Restore the last dump into an empty schema of the replica, then drop it. Return seconds."""
        target, owner, file = self.lab.host(REPLICA), self.lab.accounts["owner"], self.folder / DUMP
        with option_file(None, owner.user, owner.password) as credentials:
            client = f"{self.tools.client} --defaults-file={credentials} --socket={target.socket}"
            empty = "SET sql_log_bin=0; DROP DATABASE IF EXISTS bench_restore; CREATE DATABASE bench_restore"
            timed(f"{client} -e {shlex.quote(empty)}")
            settle()
            restored = timed(f"zcat {file} | {client} --init-command='SET sql_log_bin=0' bench_restore")
            timed(f"{client} -e 'SET sql_log_bin=0; DROP DATABASE bench_restore'")
        file.unlink()
        return {"restore the dump": restored}


AnyBench = TypeVar("AnyBench", bound=Bench)


@contextmanager
def stage(
    size: str, network: str, *, make: Callable[[Path, Lab, StopFlag], AnyBench], **lab: Any
) -> Iterator[AnyBench]:
    """Yield a bench with its own lab (``lab``: options of ``Lab``) and processes; remove both afterwards."""
    with scratch(passable=True) as folder:
        state = folder / "state"
        state.mkdir(mode=0o700)
        with start_lab(folder / "lab", network, size=size, **lab) as running:
            bench = make(state, running, StopFlag())
            try:
                bench.start()
                yield bench
            finally:
                bench.end()


def streams(bench: Bench, number: int, rebuild: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Time the rebuild and the pipeline by hand with both ciphers; each round starts with another one."""
    found: dict[str, float] = {}
    kinds: list[Callable[[], dict[str, float]]] = [
        rebuild,
        lambda: {"by hand, default cipher": bench.by_hand(None)},
        lambda: {"by hand, best cipher": bench.by_hand(BEST_CIPHER)},
    ]
    first = number % len(kinds)
    for kind in kinds[first:] + kinds[:first]:
        found |= kind()
    return found


def measure(bench: Bench, rounds: int, dumps: int) -> Samples:
    samples: Samples = {}

    def note(found: dict[str, float]) -> None:
        for name, seconds in found.items():
            samples.setdefault(name, []).append(seconds)

    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        note(streams(bench, number, bench.rebuild))
    for number in range(dumps):
        say(f"dump and restore {number + 1} of {dumps}")
        found = bench.dump() | bench.restore()
        found.pop("bytes")
        note(found)
    attached = samples["rebuild until attached"]
    samples["of these all but stream, prepare, catch-up"] = [
        total - sum(samples[name][index] for name in NOT_OURS) for index, total in enumerate(attached)
    ]
    return samples


def ratios(samples: Samples) -> list[str]:
    """Compare measurements of the same round, so that drift of the machine cancels out."""

    def shown(left: str, right: str) -> str:
        values = pairs(samples[left], samples[right])
        return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    lines = ["| ratio | median (min to max) |", "|---|---|"]
    lines.append(f"| stream step / by hand, best cipher | {shown('stream', 'by hand, best cipher')} |")
    lines.append(f"| stream step / by hand, default cipher | {shown('stream', 'by hand, default cipher')} |")
    if "restore the dump" in samples:
        rebuilt = median(samples["rebuild until attached"])
        restored = median(samples["restore the dump"])
        both = restored + median(samples["dump and gzip"])
        lines.append(f"| restore the dump / rebuild until attached | {restored / rebuilt:.1f} |")
        lines.append(f"| dump and restore / rebuild until attached | {both / rebuilt:.1f} |")
    return lines


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description=__doc__,
        epilog="`script/bench --help` without a name lists all benchmarks.",
    )
    parser.add_argument("--size", default="1G", help="data of the lab (default 1G)")
    parser.add_argument("--flavor", default="mariadb", help="servers of the lab: mariadb (default), mysql-5.7, ...")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of rebuild and both pipelines (default 3)")
    parser.add_argument(
        "--dumps", type=int, default=3, help="rounds of dump and restore (default 3; 0 leaves them out)"
    )
    parser.add_argument("--load", action="store_true", help="with a write load of 100 transactions a second")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        with stage(options.size, "127.0.51", make=Bench, flavor=options.flavor) as bench:
            if options.load:
                bench.lab.load_start()
            samples = measure(bench, options.rounds, options.dumps)
    except (Failed, LabError) as error:
        say(f"Failed: {error}")
        return 1
    record = {"bytes": bench.bytes, "samples": samples} if options.json else None
    facts = [options.flavor, f"{bench.bytes / 1024**2:.0f} MiB streamed"]
    report("", arguments, facts, [*table(samples), "", *ratios(samples)], record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
