"""script/bench prepare: compare the backup tool's default --prepare with ours on copies of one backup.

The backup stays open until random updates or inserts have written the requested amount of redo. More memory only saves repeated
reads and writes of pages per batch. The output includes the bytes read and written at the disk, which do not depend on the
load of the machine.
"""

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from dbops.drivers.probe_server import LSN
from dbops.engine.flavors import Flavor
from dbops.engine.tuning.prepare import PrepareOptions, PrepareReason, choose
from lab.errors import LabError
from lab.lab import Lab
from lab.processes import is_running
from lab.pytest_plugin import start_lab
from lab.settings import parse_size
from script.lib.bench_ground import option_file, report, say, scratch
from script.lib.bench_memory import settle
from script.lib.bench_tools import is_mysql, server_flavor, tools_of
from script.lib.supervisor import Failed

MIB = 1024**2
DEFAULT = "the tool's default"
OURS = "ours"
LONGEST_LOAD_SECONDS = 3600
#: XtraBackup waits for statements that are older than a second before it locks the tables.
WAIT_FOR_STATEMENTS = (f"--ftwrl-wait-timeout={LONGEST_LOAD_SECONDS}", "--ftwrl-wait-threshold=1")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of ``--prepare``. The kernel counts the bytes at the disk."""

    seconds: float
    cpu_seconds: float
    read_bytes: int
    written_bytes: int


Samples = dict[str, list[Measured]]


class Source:
    """The only server of a lab, with a large enough redo log, and a backup of it."""

    def __init__(self, lab: Lab, redo_bytes: int, threads: int) -> None:
        self.lab, self.redo_bytes, self.threads, self.tools = lab, redo_bytes, threads, tools_of(lab)
        sizes = {"log_file_size": 2 * redo_bytes, "buffer_pool_size": max(1024 * MIB, redo_bytes)}
        if is_mysql(lab):  # not settable at run time, and it has two files
            host = lab.primary
            options = f"innodb-log-file-size = {redo_bytes}\ninnodb-buffer-pool-size = {sizes['buffer_pool_size']}\n"
            host.config_file.write_text(f"{host.config_file.read_text()}[mysqld]\n{options}")
            host.stop_server()
            host.start_server()
            return
        with lab.connect(lab.primary.name) as connection, connection.cursor() as cursor:
            for name, value in sizes.items():
                cursor.execute(f"SET GLOBAL innodb_{name} = {value}")

    def lsn(self) -> int:
        with self.lab.connect(self.lab.primary.name) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW ENGINE INNODB STATUS")
            row = cursor.fetchone() or {}
            found = LSN.search(str(row["Status"]))
            return int(found[1]) if found else 0

    def back_up(self, directory: Path, writes: str) -> None:
        """Back up into ``directory`` while ``redo_bytes`` of redo are written."""
        host, account = self.lab.primary, self.lab.accounts["backup"]
        with ExitStack() as stack:
            file = stack.enter_context(option_file(host.config_file, account.user, account.password))
            log = stack.enter_context(directory.with_name("backup.log").open("wb"))
            command = [self.tools.backup, f"--defaults-file={file}", "--backup", f"--target-dir={directory}"]
            command += [f"--socket={host.socket}", f"--datadir={host.data_dir}", "--open-files-limit=65536"]
            command += [*self.tools.backup_options, *(WAIT_FOR_STATEMENTS if is_mysql(self.lab) else ())]
            release = stack.enter_context(self._held())
            backup = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                self._copy_has_begun(directory, backup)
                (self._update if writes == "random" else self._insert)()
                release()
                backup.wait(LONGEST_LOAD_SECONDS)
            finally:
                if backup.poll() is None:
                    backup.kill()
                    backup.wait()
        if backup.returncode != 0:
            raise Failed(
                f"the backup ended with {backup.returncode}: {directory.with_name('backup.log').read_text()[-500:]}"
            )

    @contextmanager
    def _held(self) -> Iterator[Callable[[], object]]:
        """Let a backup copy the redo log until the yielded function is called.

        MariaDB's tool waits for a lock, XtraBackup for a statement of another client: a lock would stop the writes too.
        """
        name = self.lab.primary.name
        with self.lab.connect(name) as hold, hold.cursor() as cursor:
            if not is_mysql(self.lab):
                cursor.execute("SET GLOBAL innodb_log_checkpoint_now = ON")
                cursor.execute("BACKUP STAGE START")
                yield partial(cursor.execute, "BACKUP STAGE END")
                return
            with self.lab.connect(name) as other, other.cursor() as killer, ThreadPoolExecutor(1) as pool:
                sleeping = pool.submit(cursor.execute, f"SELECT SLEEP({LONGEST_LOAD_SECONDS})")
                kill = partial(killer.execute, f"KILL QUERY {hold.thread_id()}")
                time.sleep(2)  # it must be older than the tool's threshold
                try:
                    yield kill
                finally:
                    if not sleeping.done():
                        kill()

    def _copy_has_begun(self, directory: Path, backup: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + 60
        while not redo_file(directory).exists():
            if backup.poll() is not None or time.monotonic() > until:
                raise Failed("the backup does not start to copy the redo log")
            time.sleep(0.1)

    def _update(self) -> None:
        """Update random rows of all tables, like an application."""
        begin, load = self.lsn(), self.lab.write_load
        load.write_options()
        command = load.command(self.threads)
        command[-1:] = [f"--time={LONGEST_LOAD_SECONDS}", "--rand-type=uniform", command[-1], "run"]
        writer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            while self.lsn() - begin < self.redo_bytes:
                if not is_running(writer.pid, load.mark):
                    raise Failed("sysbench ended before there was enough redo")
                time.sleep(0.5)
        finally:
            writer.terminate()
            writer.wait(60)

    def _insert(self) -> None:
        """Insert rows in key order, like a data load."""
        begin = self.lsn()
        with self.lab.connect(self.lab.primary.name, database="sbtest") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS inserted LIKE sbtest1")
            while self.lsn() - begin < self.redo_bytes:
                cursor.execute("INSERT INTO inserted (k, c, pad) SELECT k, c, pad FROM sbtest1 LIMIT 50000")
                connection.commit()


def redo_file(directory: Path) -> Path:
    """Return the redo log of a backup that is not prepared."""
    xtrabackup = directory / "xtrabackup_logfile"
    return xtrabackup if xtrabackup.exists() else directory / "ib_logfile0"


@contextmanager
def copy_of(backup: Path, *, cold: bool) -> Iterator[Path]:
    """Yield a copy of the backup, written to disk and, if ``cold``, dropped from the page cache."""
    directory = backup.with_name("work")
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(backup), str(directory)], check=True)
    settle()
    if cold:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    yield directory
    shutil.rmtree(directory)


def prepare(command: list[str]) -> Measured:
    """Run a prepare. Raises ``Failed`` unless the tool reports success."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or not done.stderr.rstrip().endswith("completed OK!"):
        raise Failed(f"{shlex.join(command)}: status {done.returncode}: {done.stderr[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    read, written = after.ru_inblock - before.ru_inblock, after.ru_oublock - before.ru_oublock
    return Measured(seconds, cpu, read * 512, written * 512)


def our_choice(flavor: Flavor, tool: str, redo_capacity_bytes: int) -> PrepareOptions:
    """Return a plan's choice for this tool and this machine as the target."""
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
    version = flavor.parse_tool_version(said.stdout + said.stderr)
    meminfo = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in meminfo if line.startswith("MemAvailable:")) * 1024
    ground = PrepareReason(free_bytes=free, cpu_count=os.cpu_count() or 1, redo_capacity_bytes=redo_capacity_bytes)
    return choose(flavor.prepare_habits(version), ground)


def measure(backup: Path, commands: dict[str, Callable[[Path], list[str]]], rounds: int, *, cold: bool) -> Samples:
    """Run each command once per round, in alternating order, each on its own copy."""
    samples: Samples = {name: [] for name in commands}
    for number in range(rounds):
        names = list(commands) if number % 2 == 0 else list(reversed(commands))
        for name in names:
            with copy_of(backup, cold=cold) as directory:
                samples[name].append(prepare(commands[name](directory)))
            last = samples[name][-1]
            say(f"round {number + 1} of {rounds}, {name}: {last.seconds:.1f} s, load {os.getloadavg()[0]:.1f}")
    return samples


def table(samples: Samples) -> list[str]:
    lines = [
        "| prepare with | median s | min | max | CPU s | read MiB | written MiB | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in samples.items():
        seconds = [run.seconds for run in runs]
        lines.append(
            f"| {name} | {median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} "
            f"| {median(run.cpu_seconds for run in runs):.1f} | {median(run.read_bytes for run in runs) / MIB:.0f} "
            f"| {median(run.written_bytes for run in runs) / MIB:.0f} | {len(runs)} |"
        )
    return lines


def ratio(samples: Samples, name: str) -> str:
    """Return the ratios per round, so that drift of the machine cancels out."""
    values = [ours.seconds / own.seconds for ours, own in zip(samples[name], samples[DEFAULT], strict=True)]
    return f"| {name} / {DEFAULT} | {median(values):.2f} ({min(values):.2f} to {max(values):.2f}) |"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench prepare", description=__doc__)
    parser.add_argument("--size", default="1G", help="data of the server (default 1G)")
    parser.add_argument("--redo", default="1G", help="redo to write during the backup (default 1G)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--writes", choices=("random", "inserts"), default="random", help="load that writes the redo")
    parser.add_argument("--threads", type=int, default=8, help="threads of the random updates (default 8)")
    parser.add_argument("--flavor", default="mariadb", help="server of the lab: mariadb (default), mysql-5.7, ...")
    parser.add_argument("--tool", default="", help="backup tool to prepare with (default: the lab's)")
    parser.add_argument("--memory", action="append", default=[], metavar="SIZE", help="also measure this --use-memory")
    parser.add_argument("--cold", action="store_true", help="drop the machine's page cache before each run (root)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def commands_of(options: argparse.Namespace, choice: PrepareOptions) -> dict[str, Callable[[Path], list[str]]]:
    def command(*words: str) -> Callable[[Path], list[str]]:
        return lambda directory: [options.tool, "--prepare", f"--target-dir={directory}", *words]

    found = {DEFAULT: command(), OURS: command(f"--use-memory={choice.memory_bytes}", *choice.options)}
    return found | {size: command(f"--use-memory={parse_size(size)}") for size in options.memory}


def page(samples: Samples, choice: PrepareOptions) -> list[str]:
    head = ["| ratio | median (min to max) |", "|---|---|"]
    ratios = (ratio(samples, name) for name in samples if name != DEFAULT)
    return [*(f"* {reason}" for reason in choice.reasons), "", *table(samples), "", *head, *ratios]


def run(options: argparse.Namespace) -> tuple[Samples, PrepareOptions, int]:
    """Return the samples, our choice, and the bytes of redo. Raises ``Failed`` or ``LabError``."""
    redo_bytes = parse_size(options.redo)
    with scratch(passable=True) as folder:
        backup = folder / "backup"
        parts = {"size": options.size, "replicas": 0, "backups": 0, "flavor": options.flavor}
        with start_lab(folder / "lab", "127.0.53", **parts) as lab:
            options.tool = options.tool or tools_of(lab).backup
            Source(lab, redo_bytes, options.threads).back_up(backup, options.writes)
            flavor = server_flavor(lab)
        choice = our_choice(flavor, options.tool, 2 * redo_bytes)
        redo = redo_file(backup).stat().st_size
        return measure(backup, commands_of(options, choice), options.rounds, cold=options.cold), choice, redo


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        samples, choice, redo = run(options)
    except (Failed, LabError) as error:
        say(f"Failed: {error}")
        return 1
    record = None
    if options.json:
        runs = {
            name: [[run.seconds, run.cpu_seconds, run.read_bytes, run.written_bytes] for run in found]
            for name, found in samples.items()
        }
        record = {"redo_bytes": redo, "memory_bytes": choice.memory_bytes, "options": choice.options, "samples": runs}
    report("prepare", arguments, [options.flavor, f"{redo / MIB:.0f} MiB of redo"], page(samples, choice), record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
