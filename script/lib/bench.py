"""script/bench: our rebuild, the pipeline typed by hand, and dump and restore, in turn on one lab; then the ratios.

Nothing here is asserted: machines differ and are noisy, ratios of one run are what can be compared.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from lab.lab import Lab
from lab.pytest_plugin import start_lab
from script.lib import bench_fleet, supervisor
from script.lib.stage import PYTHON, ROOT
from script.lib.supervisor import Failed, Process, StopFlag

REPLICA, SOURCE = "replica-1", "backup-1"
BEST_CIPHER = "aes128-gcm@openssh.com"
NOT_OURS = ("stream", "prepare", "catch-up")
Samples = dict[str, list[float]]


def say(text: str) -> None:
    print(text, flush=True)


class Bench:
    """One lab with a worker and beat, and what is timed on it."""

    def __init__(self, folder: Path, lab: Lab, stop: StopFlag) -> None:
        self.folder, self.lab, self.stop = folder, lab, stop
        port = supervisor.free_port(6490)
        self.environment = {
            **os.environ,
            "DBOPS_STATE_DIR": str(folder),
            "DBOPS_REDIS_PORT": str(port),
            "DBOPS_REDIS_URL": f"redis://127.0.0.1:{port}/0",
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

    def start(self) -> None:
        self.manage("migrate", "--no-input")
        self.manage("fleet", "import", str(self.lab.fleet_yaml))
        for name in ("redis", "worker", "beat"):
            process = Process(name, [str(ROOT / "script" / "run"), name], self.environment, self.folder)
            self.processes.append(process)
            process.start()

    def end(self) -> None:
        for process in reversed(self.processes):
            process.stop(30.0)

    def wait_for_plan(self) -> None:
        """Wait until the plan is possible: facts are fresh, and rates are known."""

        def possible() -> bool:
            try:
                plan = json.loads(self.manage("rebuild", REPLICA, "--plan", "--json"))
            except (Failed, ValueError):
                return False
            return bool(plan["is_possible"])

        supervisor.wait_until(possible, "a plan that is possible", 60, self.processes, self.stop)

    # ---- what is timed -----------------------------------------------------------------------------------------------

    def rebuild(self) -> dict[str, float]:
        """(a) Rebuild through the product. Return seconds by step, and in sum."""
        self.wait_for_plan()
        out = self.manage("rebuild", REPLICA, "--reason", "benchmark", "--follow", "--json")
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
        steps = {step["name"]: float(step["seconds"]) for step in result["steps"]}
        self.bytes = next(step["bytes"] for step in result["steps"] if step["name"] == "stream")
        return {**steps, "whole rebuild": float(result["seconds"])}

    def by_hand(self, cipher: str | None) -> float:
        """(b, c) The pipeline as a person types it on the target's host, into an empty directory of the same disk."""
        source, target = self.lab.host(SOURCE), self.lab.host(REPLICA)
        account = self.lab.accounts["backup"]
        directory = target.data_dir.with_name("by-hand")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        # A person would keep the password in a file too; it is made here for the time of the run.
        with option_file(source.config_file, account.user, account.password) as file:
            backup = f"mariadb-backup --defaults-file={file} --backup --stream=xbstream --parallel=1 --slave-info"
            backup += (
                f" --socket={source.socket} --datadir={source.data_dir} --target-dir=/var/tmp --open-files-limit=65536"
            )
            ssh = [
                "ssh",
                "-b",
                target.address,
                "-p",
                str(source.ssh_port),
                "-i",
                str(self.lab.ssh_key),
                "-o",
                "BatchMode=yes",
            ]
            ssh += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
            ssh += ["-c", cipher] if cipher else []
            pull = shlex.join([*ssh, source.address, f"{backup} 2>/dev/null"])
            seconds = timed(f"{pull} | mbstream -x -C {shlex.quote(str(directory))} -p 1")
        shutil.rmtree(directory)
        return seconds

    def dump(self) -> tuple[float, float]:
        """(d) Dump the source, compressed, and restore it into an empty schema of the replica."""
        source, target = self.lab.host(SOURCE), self.lab.host(REPLICA)
        owner, file = self.lab.accounts["owner"], self.folder / "dump.sql.gz"
        with option_file(None, owner.user, owner.password) as credentials:
            client = f"mariadb --defaults-file={credentials} --socket={target.socket}"
            dump = f"mariadb-dump --defaults-file={credentials} --socket={source.socket} --single-transaction sbtest"
            dumped = timed(f"{dump} | gzip > {file}")
            empty = "SET sql_log_bin=0; DROP DATABASE IF EXISTS bench_restore; CREATE DATABASE bench_restore"
            timed(f"{client} -e {shlex.quote(empty)}")
            restored = timed(f"zcat {file} | {client} --init-command='SET sql_log_bin=0' bench_restore")
            timed(f"{client} -e 'SET sql_log_bin=0; DROP DATABASE bench_restore'")
        file.unlink()
        return dumped, restored


def timed(command: str) -> float:
    """Run a shell pipeline and return its seconds. Raises ``Failed`` when any part of it fails."""
    began = time.monotonic()
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[:200]}: status {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - began


@contextmanager
def option_file(include: Path | None, user: str, password: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", prefix="dbops-bench-", suffix=".cnf") as file:
        file.write(f"!include {include}\n" if include else "")
        file.write(f'[client]\nuser="{user}"\npassword="{password}"\n')
        file.flush()
        yield Path(file.name)


def measure(bench: Bench, rounds: int, dumps: int) -> Samples:
    samples: Samples = {}

    def note(name: str, seconds: float) -> None:
        samples.setdefault(name, []).append(seconds)

    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        for name, seconds in bench.rebuild().items():
            note(name, seconds)
        note("by hand, default cipher", bench.by_hand(None))
        note("by hand, best cipher", bench.by_hand(BEST_CIPHER))
    for number in range(1, dumps + 1):
        say(f"dump and restore {number} of {dumps}")
        dumped, restored = bench.dump()
        note("dump and gzip", dumped)
        note("restore the dump", restored)
    ours = [
        total - sum(samples[name][index] for name in NOT_OURS) for index, total in enumerate(samples["whole rebuild"])
    ]
    samples["all but stream, prepare, catch-up"] = ours
    return samples


def table(samples: Samples) -> list[str]:
    lines = ["| what | median s | min | max | n |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {len(values)} |"
        for name, values in samples.items()
    ]
    return lines


def ratios(samples: Samples) -> list[str]:
    """Pair by pair where two were measured in one round, so that a machine that drifts does not tell lies."""

    def pairs(left: str, right: str) -> str:
        values = [a / b for a, b in zip(samples[left], samples[right], strict=False)]
        return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    lines = ["| ratio | median (min to max) |", "|---|---|"]
    lines.append(f"| stream step / by hand, best cipher | {pairs('stream', 'by hand, best cipher')} |")
    lines.append(f"| stream step / by hand, default cipher | {pairs('stream', 'by hand, default cipher')} |")
    if "restore the dump" in samples:
        rebuilt = median(samples["whole rebuild"])
        restored = median(samples["restore the dump"])
        both = restored + median(samples["dump and gzip"])
        lines.append(f"| restore the dump / whole rebuild | {restored / rebuilt:.1f} |")
        lines.append(f"| dump and restore / whole rebuild | {both / rebuilt:.1f} |")
    return lines


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description=__doc__,
        epilog="`script/bench fleet` measures the fleet page instead: see its --help.",
    )
    parser.add_argument("--size", default="1G", help="data of the lab (default 1G)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of rebuild and both pipelines (default 3)")
    parser.add_argument(
        "--dumps", type=int, default=3, help="rounds of dump and restore (default 3; 0 leaves them out)"
    )
    parser.add_argument("--load", action="store_true", help="with a write load of 100 transactions a second")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def with_bench(options: argparse.Namespace, act: Callable[[Bench], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="dbops-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    state = folder / "state"
    state.mkdir(mode=0o700)
    try:
        with start_lab(folder / "lab", "127.0.51", size=options.size) as lab:
            bench = Bench(state, lab, StopFlag())
            try:
                bench.start()
                if options.load:
                    lab.load_start()
                act(bench)
            finally:
                bench.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["fleet"]:
        return bench_fleet.main(arguments[1:])
    options = parse(arguments)

    def act(bench: Bench) -> None:
        samples = measure(bench, options.rounds, options.dumps)
        size = bench.bytes / 1024**2
        machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}"
        say(
            f"\n{datetime.now(UTC):%Y-%m-%d}, {machine}, {size:.0f} MiB streamed: script/bench {shlex.join(arguments)}\n"
        )
        say("\n".join([*table(samples), "", *ratios(samples)]))
        if options.json:
            say(json.dumps({"bytes": bench.bytes, "samples": samples}))

    try:
        with_bench(options, act)
    except Failed as error:
        say(f"Failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
