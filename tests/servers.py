"""Private database servers for the dashboard itself: on loopback, in a temporary folder, ended with the ``with`` block."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from tests.run_folder import new_folder

KINDS = ("sqlite", "postgresql", "mariadb")
USER, PASSWORD = "dbops", "a password: with / every @ mark"
QUOTED_PASSWORD = "a%20password%3A%20with%20%2F%20every%20%40%20mark"


def wanted_kinds() -> tuple[str, ...]:
    """Return the databases to test on: ``DBOPS_TEST_DATABASES``, separated by commas, else all."""
    wanted = tuple(os.environ.get("DBOPS_TEST_DATABASES", ",".join(KINDS)).split(","))
    if unknown := set(wanted) - set(KINDS):
        raise ValueError(f"DBOPS_TEST_DATABASES: {', '.join(sorted(unknown))} is none of {', '.join(KINDS)}")
    return wanted


class Server:
    """One database server, or the folder of SQLite files. It gives addresses of new, empty databases."""

    kind = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str) -> str:
        """Return the address of a new database, as ``DBOPS_DATABASE_URL`` wants it."""
        raise NotImplementedError

    def start(self) -> None: ...

    def stop(self) -> None: ...


class SqliteFiles(Server):
    kind = "sqlite"

    def create(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.sqlite3"


class Daemon(Server):
    """A server process of ours. ``user`` runs it when root runs the tests."""

    user = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = int(listener.getsockname()[1])
        if os.geteuid() == 0:
            owner = pwd.getpwnam(self.user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(self, *words: str | Path) -> None:
        done = subprocess.run(words, user=self._owner(), capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

    def _owner(self) -> str | None:
        return self.user if os.geteuid() == 0 else None

    def command(self) -> list[str | Path]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), user=self._owner(), stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        deadline = time.monotonic() + 40
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"{self.kind} does not start:\n{(self.folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGINT) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(40)
            self.process = None

    def freeze(self) -> None:
        """Stop every process of the server where it is: connections stay open and nothing is answered."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGCONT)


class Postgresql(Daemon):
    kind, user = "postgresql", "postgres"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.run(
            *(self.programs / "initdb", "--pgdata", folder / "data", "--auth=scram-sha-256", "--encoding=UTF8"),
            *("--username=admin", f"--pwfile={_file(folder / 'password', PASSWORD)}", "--no-sync", "--locale=C.UTF-8"),
        )

    def command(self) -> list[str | Path]:
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        # its children get a process group of their own from none but us: `freeze` must reach them all
        return [
            *(self.programs / "postgres", "-D", self.folder / "data"),
            *(f"--{name}={value}" for name, value in settings.items()),
        ]

    def freeze(self) -> None:
        _signal_all(self.process, signal.SIGSTOP)

    def thaw(self) -> None:
        _signal_all(self.process, signal.SIGCONT)

    def _connect(self) -> "psycopg.Connection[Any]":
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="admin", password=PASSWORD, dbname="postgres", autocommit=True
        )

    def answers(self) -> bool:
        return _succeeds(lambda: self._connect().close(), psycopg.OperationalError)

    def create(self, name: str) -> str:
        with self._connect() as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'dbops'").fetchall():
                connection.execute(f"CREATE ROLE {USER} LOGIN CREATEDB PASSWORD '{PASSWORD}'")
            connection.execute(f"CREATE DATABASE {name} OWNER {USER}")
        return f"postgresql://{USER}:{QUOTED_PASSWORD}@127.0.0.1:{self.port}/{name}"


class Mariadb(Daemon):
    kind, user = "mariadb", "mysql"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.storage = (f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'tmp'}")
        self.run("mkdir", "tmp")
        self.run("mariadb-install-db", "--no-defaults", *self.storage, "--skip-test-db")
        self.first = _file(
            folder / "first.sql",
            f"CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON `dbops%`.* TO {USER}@'127.0.0.1';\n"
            f"GRANT ALL ON `test\\_dbops%`.* TO {USER}@'127.0.0.1';\n",
        )

    def command(self) -> list[str | Path]:
        return [
            *("mariadbd", "--no-defaults", *self.storage, f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}", f"--init-file={self.first}"),
            *("--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M"),
        ]

    def stop(self, number: int = signal.SIGTERM) -> None:
        super().stop(number)

    def _connect(self) -> "pymysql.Connection[Any]":
        return pymysql.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, connect_timeout=5)

    def answers(self) -> bool:
        return _succeeds(lambda: self._connect().close(), pymysql.OperationalError)

    def create(self, name: str) -> str:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        return f"mysql://{USER}:{QUOTED_PASSWORD}@127.0.0.1:{self.port}/{name}"


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def _succeeds(call: Callable[[], object], error: type[Exception]) -> bool:
    try:
        call()
    except error:
        return False
    return True


def _signal_all(process: "subprocess.Popen[bytes] | None", number: int) -> None:
    """PostgreSQL makes each of its processes the leader of a session of its own."""
    assert process is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in [process.pid, *map(int, children)]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


SERVERS: dict[str, type[Server]] = {"sqlite": SqliteFiles, "postgresql": Postgresql, "mariadb": Mariadb}


@contextmanager
def running_server(kind: str) -> Iterator[Server]:
    """A server of this kind, ended and removed afterwards."""
    folder = new_folder(kind)
    try:
        server = SERVERS[kind](folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
