"""A scratch server, and rounds of load on it with the scripts that run on hosts: for benchmarks and tests, without the dashboard."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dbops.engine.hosts.scripts import load, load_lua
from dbops.engine.load_tests.generator import (
    INPUT,
    LOAD_SCHEMA,
    SCRIPT,
    Place,
    input_text,
    prepare_arguments,
    run_arguments,
)
from dbops.engine.load_tests.round_parsing import parse_round
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import OF_SYSBENCH, Profile, Workload
from lab.flavors import flavor_named
from lab.flavors.mariadb import MariaDB
from lab.flavors.mysql import MySQL97
from lab.flavors.old_mysql import OldMySQL

Options = Sequence[tuple[str, str]]
START_SECONDS, STOP_SECONDS = 90, 120
#: No network, no accounts, and no more durability than a measurement needs.
_BASE = (
    *("--skip-networking", "--skip-grant-tables", "--innodb-flush-log-at-trx-commit=2", "--loose-mysqlx=OFF"),
    *("--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF", "--skip-log-bin"),
)
#: Status counters that tell what a wall is made of.
COUNTERS = (
    *(
        "Table_open_cache_misses",
        "Opened_tables",
        "Opened_table_definitions",
        "Opened_files",
        "Innodb_dblwr_pages_written",
    ),
    *("Innodb_data_written", "Questions"),
)


class ScratchServer:
    """A server of its own in ``folder``. Root runs it as ``mysql``, like the scripts run everything that reads the data."""

    def __init__(self, folder: Path, flavor_name: str = "mariadb") -> None:
        self.folder, self.data, self.socket = folder, folder / "data", folder / "s"
        self.owner = "mysql" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.flavor = flavor_named(flavor_name)
        self.is_mariadb = isinstance(self.flavor, MariaDB)
        programs = self.flavor.programs | self.flavor.host_programs
        self.program = self.flavor.server
        self.client = programs["mariadb" if self.is_mariadb else "mysql"]
        self.options: Options = ()
        self.process: subprocess.Popen[bytes] | None = None
        for path in (self.data, folder / "tmp"):
            path.mkdir()
        if os.geteuid() == 0:
            for path in (folder, self.data, folder / "tmp"):
                shutil.chown(path, "mysql", "mysql")
        self._initialise()

    def _initialise(self) -> None:
        if self.is_mariadb:
            words = [
                self.flavor.programs["mariadb-install-db"],
                "--no-defaults",
                f"--datadir={self.data}",
                "--skip-test-db",
            ]
        else:
            words = [
                self.program,
                "--no-defaults",
                *self._own(),
                f"--datadir={self.data}",
                "--initialize-insecure",
                "--loose-mysqlx=OFF",
            ]
        done = subprocess.run(words, user=self._user, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: status {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")

    @property
    def _user(self) -> str | None:
        return self.owner if os.geteuid() == 0 else None

    def _own(self) -> list[str]:
        """Return the options that unpacked programs need."""
        folder = self.flavor.folder if isinstance(self.flavor, OldMySQL) else None
        if folder:
            return [
                f"--basedir={folder}",
                f"--lc-messages-dir={folder}/share",
                f"--character-sets-dir={folder}/share/charsets",
            ]
        prefix = self.flavor.prefix if isinstance(self.flavor, MySQL97) else None
        if prefix:
            share = f"{prefix}/usr/share/mysql"
            words = [f"--basedir={prefix}/usr", f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets"]
            return [*words, "--secure-file-priv=NULL"]  # the default is a directory of the package
        return []

    def start(self, options: Options = ()) -> None:
        """Start it with these options, unless it runs with them."""
        self.options = tuple(options)
        words = [
            *(
                self.program,
                "--no-defaults",
                *self._own(),
                *_BASE,
                f"--datadir={self.data}",
                f"--tmpdir={self.folder / 'tmp'}",
            ),
            *(f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}"),
            *(f"--{name.replace('_', '-')}={value}" for name, value in options),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                words, user=self._user, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while self.ask("SELECT 1", check=False) != "1":
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the server does not start:\n{(self.folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError("the server does not run")
        return self.process.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(STOP_SECONDS)
            self.process = None

    @property
    def words(self) -> list[str]:
        """The client, as the scripts call it."""
        return [
            *(
                self.client,
                "--no-defaults",
                "--default-character-set=utf8mb4",
                f"--socket={self.socket}",
                "--user=root",
            ),
            *("--batch", "--skip-column-names"),
        ]

    def ask(self, sql: str, *, check: bool = True) -> str:
        done = subprocess.run([*self.words, "-e", sql], user=self._user, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{sql[:200]}: {done.stderr[-500:]}")
        return done.stdout.strip()


@contextmanager
def scratch_server(folder: Path, flavor_name: str = "mariadb", options: Options = ()) -> Iterator[ScratchServer]:
    """A running scratch server, ended with the block."""
    server = ScratchServer(folder, flavor_name)
    try:
        server.start(options)
        yield server
    finally:
        server.stop(signal.SIGKILL)


class Bench:
    """Rounds on one server. ``work`` is the directory in which the scripts run, as a job's."""

    def __init__(self, server: ScratchServer, work: Path, workload: Workload) -> None:
        self.server, self.work, self.workload = server, work, workload
        # where the account of the data can read, as of a load test
        self.place = Place(str(server.folder / "load"), str(server.socket))
        (work / SCRIPT).write_text(load_lua("load"))
        (work / INPUT).write_text(input_text(workload))
        self.run_script(f"[ -d {self.place.directory} ] || place_generator {self.place.directory}")
        server.ask(f"CREATE DATABASE IF NOT EXISTS {LOAD_SCHEMA}")

    def run_script(self, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run bash with the functions of a load test; ``"$1"`` and so on are the arguments.

        Raises:
            RuntimeError: it failed.
        """
        done = self.try_script(body, *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"status {done.returncode}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
        return done

    def try_script(self, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(body, *arguments), cwd=self.work, capture_output=True, text=True, check=False)

    def words(self, body: str, *arguments: str) -> list[str]:
        count, pid = len(self.server.words), self.server.pid
        given = f'become {self.server.owner}\nserving={pid}\nask=("${{@:1:{count}}}")\nshift {count}\ncounters=({" ".join(COUNTERS)})\n'
        script = f"set -u\n{load('common', 'tunnel', 'measure', 'copies')}\n{given}\n{body}"
        return ["bash", "-c", script, "bench", *self.server.words, *arguments]

    def fill(self) -> None:
        """Make the tables that the workload needs, but copies."""
        if self.workload.profile in OF_SYSBENCH:
            self.run_script('fill_tables "$@"', *prepare_arguments(self.workload, self.place))
        elif self.workload.profile is Profile.INSERT:
            self.server.ask(f"USE {LOAD_SCHEMA}; {self.workload.table_ddl}")

    def make_copies(self, wanted: int) -> None:
        self.run_script(
            'make_copies "$@"', self.workload.schema.encode().hex(), str(wanted), str(self.workload.row_share)
        )

    def text_of(self, one: Round, *, patience_seconds: int = 60) -> str:
        """Run one round and return what it wrote, also if it failed."""
        seconds = one.warm_up_seconds + one.seconds
        self.try_script(
            f'patience={patience_seconds}; run_round "$@"',
            str(one.number),
            str(seconds),
            *run_arguments(self.workload, one, self.place),
        )
        return (self.work / f"log.round.{one.number}").read_text()

    def run(self, one: Round) -> RoundResult:
        """Run one round. Raises as ``parse_round``."""
        return parse_round(self.text_of(one), one)
