"""One server of a series alone: no hosts, no replication, options of a test's own. It ends with the ``with`` block."""

import fcntl
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.mysql_login import ServerProof
from dbops.drivers.server_proof import read_proof
from dbops.engine.flavors import Flavor, flavor_for
from lab.checks import is_root, server_user
from lab.flavors import Flavor as LabFlavor
from lab.flavors import flavor_named
from lab.flavors.base import ServerPlan
from lab.hosts import copy_data_dir
from lab.processes import run
from tests import run_folder
from tests.fakes import FakeShell
from tests.networks import free_port

OWNER, PASSWORD = "owner", "a-password-of-the-tests"


@dataclass(frozen=True)
class PlainServer:
    """A running server, with an account that owns all rights."""

    series: str
    flavor: Flavor
    plan: ServerPlan
    process: subprocess.Popen[bytes]

    def connect(self, user: str = OWNER, password: str = PASSWORD, *, idle_seconds: int = 60) -> MysqlDatabase:
        address = MysqlAddress(self.plan.address, self.plan.port, user, password)
        plan = self.plan
        shell = FakeShell(runs_here=True)

        def proof() -> ServerProof:
            return read_proof(shell, datadir=str(plan.data_dir), defaults_file=str(plan.config_file))

        return MysqlDatabase(
            address, prove=proof, read_timeout_seconds=60, idle_seconds=idle_seconds, write_binlog=True
        )

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as database:
            for statement in statements:
                database.execute(statement)

    def ask(self, sql: str) -> object:
        """Return the first value of the first row."""
        with closing(self.connect()) as database:
            return next(iter(database.query(sql)[0].values()))


@contextmanager
def plain_server(series: str, options: Sequence[str] = ()) -> Iterator[PlainServer]:
    """Start a server of a series of ``lab.flavors``. ``options``: lines of its option file, after those of a lab."""
    kind = flavor_named(series)
    folder = Path(tempfile.mkdtemp(prefix="plain-", dir=run_folder.parent()))
    folder.chmod(0o755)
    plan = _plan(folder)
    try:
        _make_folders(plan)
        copy_data_dir(_template(series, kind), plan.data_dir, kind)
        plan.config_file.write_text(kind.config(plan) + "\n".join(["[mysqld]", *options, ""]))
        yield from _running(series, kind, plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _template(series: str, kind: LabFlavor) -> Path:
    """Return a data directory that no server has used. The first process of a test run that needs the series makes it for all."""
    folder = run_folder.shared() / f"plain-{series}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made"
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of an interrupted one
            folder.mkdir(mode=0o755)
            plan = _plan(folder)
            _make_folders(plan)
            plan.data_dir.mkdir()
            if is_root():
                shutil.chown(plan.data_dir, plan.user)
            plan.config_file.write_text(kind.config(plan))
            kind.initialise(plan)
            made.touch()
    return folder / "data"


def _make_folders(plan: ServerPlan) -> None:
    for path in (plan.tmp_dir, plan.socket.parent):
        path.mkdir()
        if is_root():
            shutil.chown(path, plan.user)


def _plan(folder: Path) -> ServerPlan:
    return ServerPlan(
        address="127.0.0.1",
        port=free_port(),
        server_id=7,
        role="primary",
        user=server_user(),
        as_root=is_root(),
        config_file=folder / "my.cnf",
        data_dir=folder / "data",
        tmp_dir=folder / "tmp",
        socket=folder / "run" / "s",
        pid_file=folder / "run" / "pid",
        error_log=folder / "run" / "error.log",
        redo_bytes=96 * 1024**2,
        parallel_appliers=0,
    )


def _running(series: str, kind: LabFlavor, plan: ServerPlan) -> Iterator[PlainServer]:
    client = kind.superuser_client(plan)
    command = [kind.server, f"--defaults-file={plan.config_file}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until(client, plan, process)
        version = run([*client, "--batch", "--skip-column-names", "--execute=SELECT VERSION()"]).strip()
        run(
            client,
            stdin="".join(  # the second one: through the socket
                f"CREATE USER {name} IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO {name} WITH GRANT OPTION;\n"
                for name in (f"'{OWNER}'@'127.0.0.1'", f"'{OWNER}'@'localhost'")
            ),
        )
        yield PlainServer(series, flavor_for(version, version), plan, process)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_until(client: Sequence[str], plan: ServerPlan, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while subprocess.run([*client, "--execute=SELECT 1"], capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            log = plan.error_log.read_text(errors="replace")[-2000:] if plan.error_log.exists() else ""
            raise RuntimeError(f"the server does not start:\n{log}")
        time.sleep(0.1)
