"""A private TiDB server with its own store (unistore), where a developer has built ``tidb-server``; no package archive has it."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import Database
from tests.networks import free_port
from tests.run_folder import new_folder

PLACE = Path(os.environ.get("DBOPS_TEST_TIDB") or "/var/tmp/dbops-tidb-programs")
PROGRAM = "tidb-server"


def program() -> str:
    """Return the path of ``tidb-server``, ``""`` if there is none. A folder of another user is not used."""
    own = PLACE / PROGRAM
    if own.is_file() and PLACE.stat().st_uid in (0, os.geteuid()):
        return str(own)
    return shutil.which(PROGRAM) or ""


WHY_NOT = "" if program() else f"tidb-server is not installed: build it by hand and put it into {PLACE}"


@contextmanager
def running_tidb() -> Iterator[int]:
    """Yield the port of a new server on loopback; its data is removed at the end."""
    folder = new_folder("tidb")
    port, status = free_port(), free_port()
    words = [program(), "-store", "unistore", "-path", folder / "data", "-host", "127.0.0.1", "-P", str(port)]
    words += ["-advertise-address", "127.0.0.1", "-status-host", "127.0.0.1", "-status", str(status)]
    words += ["-log-file", folder / "log", "-socket", ""]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder, start_new_session=True)
    try:
        _wait(process, port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.2)
        else:
            return


def connect(port: int) -> MysqlDatabase:
    return MysqlDatabase(MysqlAddress("127.0.0.1", port, "root", ""), read_timeout_seconds=60.0)


class Recorder(Database):
    """Notes each statement with its answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.acts: list[dict[str, Any]] = []

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        act: dict[str, Any] = {"sql": sql, "parameters": list(parameters)}
        self.acts.append(act)
        try:
            rows = self._database.query(sql, parameters)
        except RemoteFailure as error:
            act["error"] = error.cause
            raise
        act["rows"] = [{name: _plain(value) for name, value in row.items()} for row in rows]
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.query(sql, parameters)

    def close(self) -> None:
        self._database.close()


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str | None) else str(value)


class Replay(Database):
    """Answers as recorded. A statement that was not recorded fails as one that the server does not know; ``lost`` is the number
    of answers before the connection is lost.
    """

    def __init__(self, acts: Sequence[dict[str, Any]], *, lost: int | None = None) -> None:
        self._known = {(act["sql"], tuple(act["parameters"])): act for act in acts}
        self._left = lost

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        if self._left is not None:
            if not self._left:
                raise Unreachable("mysql.unreachable", "Querying", cause="2013 lost")
            self._left -= 1
        act = self._known.get((sql, tuple(parameters)))
        if act is None or "error" in act:
            raise RemoteFailure("mysql.error", "Querying", cause=act["error"] if act else "1064 not recorded")
        return [dict(row) for row in act["rows"]]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.query(sql, parameters)

    def close(self) -> None: ...
