"""Fill the primary with data and run a steady write load, both with sysbench."""

import time
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.flavors.base import SCHEMA, Account
from lab.hosts import SCRIPTS, LabHost
from lab.processes import children, end, is_running, read_pid, run, start_detached, tail
from lab.secrets import write_private
from lab.settings import Settings

#: bytes per row of sysbench's table with its secondary index, measured on 250,000 rows
ROW_BYTES = 268
WORKLOAD = "oltp_write_only"
KEEPER = SCRIPTS / "load.sh"
DEFAULT_TPS = 100
#: a load that cannot connect exits within this time
START_CHECK_SECONDS = 0.5
DEFAULT_THREADS = 4
DEFAULT_HOURS = 12.0


def rows_per_table(settings: Settings) -> int:
    return max(100, settings.size_bytes // ROW_BYTES // settings.tables)


@dataclass(frozen=True, slots=True)
class Load:
    """sysbench for one primary. ``folder`` contains its option file, log and process number."""

    folder: Path
    primary: LabHost
    account: Account
    settings: Settings
    program: str

    @property
    def pid_file(self) -> Path:
        return self.folder / "load.pid"

    @property
    def config_file(self) -> Path:
        return self.folder / "load.conf"

    @property
    def log(self) -> Path:
        return self.folder / "load.log"

    def fill(self) -> None:
        """Create and fill the tables, one thread per table."""
        self.write_options()
        run([*self.command(self.settings.tables), "prepare"], timeout_seconds=24 * 3600)

    def start(self, tps: int = DEFAULT_TPS, threads: int = DEFAULT_THREADS, hours: float = DEFAULT_HOURS) -> int:
        """Start a steady load of ``tps`` transactions per second and return the process number of its keeper.

        The load survives errors and restarts of the primary, and stops after ``hours``: binary logs are kept for a
        day, and at 100 transactions per second each host writes about 13 MiB of them per minute.
        """
        if tps < 1 or threads < 1 or hours <= 0:
            raise LabError("--tps and --threads are at least 1, --hours is more than 0")
        running = self.pid()
        if running is not None:
            raise LabError(f"the load already runs as process {running}. Stop it with lab load stop")
        if self.primary.server_pid() is None:
            raise LabError(f"{self.primary.name} does not run. Start it with lab up")
        self.write_options()
        keeper = ["sh", str(KEEPER), str(int(hours * 3600))]
        rate = [f"--rate={tps}", "--report-interval=10", "--mysql-ignore-errors=all"]
        pid = start_detached([*keeper, *self.command(threads), *rate], self.log)
        self.pid_file.write_text(f"{pid}\n")
        time.sleep(START_CHECK_SECONDS)
        if not self.writers():
            self.stop()
            raise LabError(f"the load exited immediately:\n{tail(self.log.read_text(errors='replace'))}")
        return pid

    def stop(self) -> bool:
        """Stop the load; ``False`` if none was running."""
        writers = self.writers()
        stopped = end(self.pid(), self.mark, what="the load")
        for writer in writers:  # the keeper stops sysbench, unless the keeper was killed
            end(writer, self.mark, what="sysbench")
        self.pid_file.unlink(missing_ok=True)
        return stopped

    @property
    def mark(self) -> str:
        """Text that only the command lines of this lab's keeper and sysbench contain."""
        return f"--config-file={self.config_file}"

    def pid(self) -> int | None:
        pid = read_pid(self.pid_file)
        return pid if is_running(pid, self.mark) else None

    def writers(self) -> list[int]:
        pid = self.pid()
        return [child for child in children(pid) if is_running(child, self.mark)] if pid is not None else []

    def last_report(self) -> str:
        """Return sysbench's last report line, ``""`` before the first one."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line for line in reversed(lines) if " tps: " in line), "")

    def write_options(self) -> None:
        """Write sysbench's option file: every user of the machine could read a password in the arguments.

        The other options are arguments: sysbench 1.0 silently ignores a workload's options in the file.
        """
        write_private(self.config_file, f"db-driver=mysql\nmysql-password={self.account.password}\n")

    def command(self, threads: int) -> list[str]:
        return [
            self.program,
            f"--config-file={self.config_file}",
            f"--mysql-socket={self.primary.socket}",
            f"--mysql-user={self.account.user}",
            f"--mysql-db={SCHEMA}",
            f"--tables={self.settings.tables}",
            f"--table-size={rows_per_table(self.settings)}",
            "--db-ps-mode=disable",  # prepared statements would be lost with the connection
            f"--threads={threads}",
            WORKLOAD,
        ]
