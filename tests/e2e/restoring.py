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

from lab.checks import is_root, server_user
from lab.flavors.base import Account
from tests.networks import free_port
from tests.stack import Stack, wait_for

from .host_state import TABLES


def shell(command: str) -> str:
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


class Restored:
    """A server over restored data."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder, self.account, self.port = folder, account, free_port()
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
            *("mariadbd", "--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.folder / 'tmp'}"),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.socket}", "--server-id=4000000001"),
            *("--skip-name-resolve", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2"),
            *("--skip-slave-start", "--performance-schema=OFF"),
        ]
        with (self.folder / "server.log").open("ab") as log:
            user = server_user() if is_root() else None
            self.process = subprocess.Popen(words, user=user, stdout=log, stderr=log, start_new_session=True)
        wait_for("the restored server", self.socket.exists, 30)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)

    def ask(self, *statements: str) -> list[dict[str, Any]]:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.account.user,
            password=self.account.password,
            cursorclass=pymysql.cursors.DictCursor,
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def follow_primary(self, stack: Stack, position: str) -> None:
        """Replicate from the primary, from the position beside the backup, up to the primary's current position."""
        primary, account = stack.lab.primary, stack.lab.accounts["replication"]
        with stack.lab.connect(primary.name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos AS goal")
            goal = cursor.fetchone()["goal"]
        self.ask(
            "STOP SLAVE",
            "RESET SLAVE ALL",
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO MASTER_HOST='{primary.address}', MASTER_PORT={primary.port}, MASTER_USER='{account.user}',"
            f" MASTER_PASSWORD='{account.password}', MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )
        reached = self.ask(f"SELECT MASTER_GTID_WAIT('{goal}', 30) AS reached")[0]["reached"]
        assert reached == 0, self.ask("SHOW SLAVE STATUS")

    def checksums(self) -> dict[str, tuple[int, int]]:
        found = {}
        for row in self.ask(TABLES):
            table = row["TABLE_NAME"]
            count = self.ask(f"SELECT COUNT(*) AS n FROM sbtest.{table}")[0]["n"]
            found[table] = (count, self.ask(f"CHECKSUM TABLE sbtest.{table}")[0]["Checksum"])
        return found


@contextmanager
def restored_server(folder: Path, account: Account) -> Iterator[Restored]:
    server = Restored(folder, account)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def from_physical(server: Restored, file: str) -> None:
    data = shlex.quote(str(server.data))
    shell(f"zstd -q -dc {shlex.quote(file)} | mbstream -x -C {data}")
    shell(f"mariadb-backup --prepare --target-dir={data} 2>&1 | tail -n 1 | grep -q 'completed OK!'")
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
