"""Restores by hand, as ``docs/how-to/backups.md`` tells it: a published backup becomes a server on a spare loopback port."""

import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.base import Coordinates
from lab.checks import is_root, server_user
from tests.networks import free_port
from tests.programs import backup_tool, program_of, unpack_tool
from tests.stack import Stack, wait_for

from .host_state import TABLES, position_of


def shell(command: str) -> str:
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


class Restored:
    """A server over restored data, with the option file of a host of the lab and places and addresses of its own."""

    def __init__(self, folder: Path, stack: Stack) -> None:
        self.stack, self.folder, self.port = stack, folder, free_port()
        self.host, self.account = stack.lab.host("backup-1"), stack.lab.accounts["owner"]
        self.data, self.socket = folder / "data", folder / "s.sock"
        self.process: subprocess.Popen[bytes] | None = None
        for path in (folder, self.data, folder / "tmp"):
            path.mkdir(exist_ok=True)

    def own(self) -> None:
        if is_root():
            shell(f"chown -R {server_user()}: {shlex.quote(str(self.folder))}")

    def start(self) -> None:
        self.own()
        words = [
            *(self.stack.lab.flavor.server, f"--defaults-file={self.host.config_file}", f"--datadir={self.data}"),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.socket}", "--server-id=4000000001"),
            *(f"--tmpdir={self.folder / 'tmp'}", f"--pid-file={self.folder / 'pid'}", "--skip-log-bin"),
            *("--innodb-buffer-pool-size=64M", "--skip-slave-start", "--performance-schema=OFF"),
            f"--log-error={self.folder / 'error.log'}",
        ]
        with (self.folder / "server.log").open("ab") as log:
            user = server_user() if is_root() else None
            self.process = subprocess.Popen(words, user=user, stdout=log, stderr=log, start_new_session=True)
        wait_for("the restored server", self.socket.exists, 30)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)

    def ask(self, *statements: str, parameters: tuple[object, ...] = ()) -> list[dict[str, Any]]:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.account.user,
            password=self.account.password,
            cursorclass=pymysql.cursors.DictCursor,
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, parameters or None)
            return list(cursor.fetchall())

    def follow_primary(self, position: str) -> None:
        """Replicate from the primary, from the position beside the backup, up to the primary's current position."""
        primary, flavor = self.stack.lab.primary, self.stack.lab.flavor
        goal = position_of(self.stack, primary.name)
        words = flavor_for(str(self.ask("SELECT VERSION() AS version")[0]["version"]))
        start = Coordinates(gtid=position)
        self.ask(*words.stop_replication(), *words.forget_replication(), *words.set_position(start, ""))
        for statement, values in flavor.replicate_statements(
            primary.address, primary.port, self.stack.lab.accounts["replication"]
        ):
            self.ask(statement, parameters=values)
        [reached] = self.ask(flavor.gtid_wait, parameters=(goal, 30))
        assert list(reached.values()) == [0], self.ask(flavor.show_replication)

    def checksums(self) -> dict[str, tuple[int, int]]:
        found = {}
        for row in self.ask(TABLES):
            table = row["name"]
            count = self.ask(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]
            found[table] = (count, self.ask(f"CHECKSUM TABLE {table}")[0]["Checksum"])
        return found


@contextmanager
def restored_server(folder: Path, stack: Stack) -> Iterator[Restored]:
    server = Restored(folder, stack)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def from_physical(server: Restored, file: str) -> None:
    data = shlex.quote(str(server.data))
    unpack, tool = (program_of(server.host, name(server.host)) for name in (unpack_tool, backup_tool))
    shell(f"zstd -q -dc {shlex.quote(file)} | {unpack} -x -C {data}")
    shell(f"{tool} --prepare --target-dir={data} 2>&1 | tail -n 1 | grep -q 'completed OK!'")
    server.start()


def from_dump(server: Restored, file: str) -> None:
    server.own()
    owner = f"--user={server_user()}" if is_root() else ""
    shell(f"mariadb-install-db --no-defaults {owner} --datadir={shlex.quote(str(server.data))} --skip-test-db")
    server.start()
    client = f"mariadb --no-defaults --socket={shlex.quote(str(server.socket))}"
    deadline = time.monotonic() + 20
    while subprocess.run(shlex.split(f"{client} -e 'SELECT 1'"), capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shell(f"zcat {shlex.quote(file)} | {client}")
    shell(f"{client} -e 'FLUSH PRIVILEGES'")
