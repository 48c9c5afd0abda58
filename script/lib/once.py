"""Run one rebuild without a browser and check the result on the servers.

`manage.py rebuild` calls the same operation as a click, and the same worker runs it. The check reads the servers
directly and does not rely on dbops.
"""

import json
import secrets
import sqlite3
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql
import pymysql.cursors
import yaml

from script.lib import supervisor
from script.lib.stage import COMMANDS_LOG, FOLDER, Stage
from script.lib.supervisor import Failed

REPLICA = "replica-1"
PROBE_SECONDS = 120.0
MARK_SECONDS = 60.0
LAG_SECONDS = 1
REFUSED_SECONDS = 20.0  # dbops can refuse a plan until the next probe
ASK_AGAIN_SECONDS = 2.0
REFUSED = 2


@dataclass
class Server:
    """The address of an instance of the fleet file, and an account to read it."""

    name: str
    role: str
    address: str
    port: int
    user: str
    password: str

    def connect(self) -> "pymysql.Connection[pymysql.cursors.DictCursor]":
        return pymysql.connect(
            host=self.address,
            port=self.port,
            user=self.user,
            password=self.password,
            autocommit=True,
            connect_timeout=5,
            read_timeout=30,
            cursorclass=pymysql.cursors.DictCursor,
        )

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())


@dataclass
class Report:
    """The output of `--json`."""

    ok: bool = False
    replica: str = REPLICA
    data_bytes: int = 0
    seconds: float = 0.0
    preparation: list[dict[str, Any]] = field(default_factory=list)
    rebuild: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def servers_of(fleet_file: Path) -> dict[str, Server]:
    """Return the fleet file's instances by name."""
    content = yaml.safe_load(fleet_file.read_text())
    hosts = {host["name"]: host for host in content["hosts"]}
    found = {}
    for cluster in content["clusters"]:
        admin = cluster["accounts"]["admin"]
        for entry in cluster["instances"]:
            address = entry.get("address") or hosts[entry["host"]]["ssh"]["address"]
            found[entry["name"]] = Server(
                entry["name"], entry["role"], address, entry.get("port", 3306), admin["user"], admin["password"]
            )
    return found


def rebuild_once(stage: Stage, fleet_file: Path, report: Report) -> None:
    """Break, rebuild and check the replica. Raises ``Failed`` with the problem."""
    servers = servers_of(fleet_file)
    primary = next(server for server in servers.values() if server.role == "primary")
    with stage.step(f"break {REPLICA}: end its server, empty its data directory"):
        stage.lab("break", REPLICA, "--how", "wipe")
    broken_at = datetime.now(UTC)
    if answers(servers[REPLICA]):
        raise Failed(f"{REPLICA} still answers after it was broken")
    with stage.step("notice it: probe every instance again"):
        supervisor.wait_until(
            lambda: all_probed_since(broken_at, set(servers)),
            "a fresh probe",
            PROBE_SECONDS,
            stage.processes,
            stage.stop,
        )
    with stage.step(f"rebuild {REPLICA}"):
        report.rebuild = follow_rebuild(stage)
    show_steps(stage, report.rebuild)
    if report.rebuild.get("status") != "succeeded":
        raise Failed(f"the rebuild is {report.rebuild.get('status')}: {why(report.rebuild)}")
    with stage.step("check by SQL: the replica serves, replicates from the primary and has caught up"):
        report.checks = examine(stage, servers[REPLICA], primary)


def answers(server: Server) -> bool:
    try:
        server.rows("SELECT 1")
    except pymysql.MySQLError:
        return False
    return True


def all_probed_since(moment: datetime, names: set[str]) -> bool:
    """Read the demonstration's database, as the pages do."""
    statement = (
        "SELECT instance.name, state.observed_at FROM dbops_instancestate state"
        " JOIN dbops_instance instance ON instance.id = state.instance_id WHERE state.observed_at > ?"
    )
    connection = sqlite3.connect(f"file:{FOLDER / 'dbops.sqlite3'}?mode=ro", uri=True, timeout=20)
    try:
        rows = connection.execute(statement, (moment.strftime("%Y-%m-%d %H:%M:%S.%f"),)).fetchall()
    finally:
        connection.close()
    return names <= {name for name, _ in rows}


def follow_rebuild(stage: Stage) -> dict[str, Any]:
    """Run `manage.py rebuild` and return its last object. Retry if the plan changed."""
    began, refusal = time.monotonic(), ""
    while True:
        status, output = stage.manage(
            *("rebuild", REPLICA, "--reason", "demo", "--follow", "--json"),
            on_line=lambda line: show_event(stage, line, began),
            allowed=(0, 1, REFUSED, 3),
        )
        result = last_object(output)
        if status != REFUSED or time.monotonic() - began > REFUSED_SECONDS:
            return result
        if why(result) != refusal:
            refusal = why(result)
            stage.say(f"           refused for now: {refusal}")
        pause_until = time.monotonic() + ASK_AGAIN_SECONDS
        while time.monotonic() < pause_until:
            stage.check()
            time.sleep(supervisor.POLL_SECONDS)


def last_object(output: str) -> dict[str, Any]:
    """Return the command's result. Raises ``Failed`` if there is none."""
    try:
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"manage.py rebuild ended without a result:\n{supervisor.tail(COMMANDS_LOG)}") from None
    return result


def show_event(stage: Stage, line: str, began: float) -> None:
    try:
        event = json.loads(line)
    except ValueError:
        event = {"text": line}
    if "text" in event:
        stage.say(f"{'':9}  {time.monotonic() - began:6.1f}  {event.get('step', ''):14} {event['text']}")
    for process in stage.processes:
        process.check()


def why(result: dict[str, Any]) -> str:
    """Return a result's reason: the error's text, else the outcome."""
    error = result.get("error") or {}
    refusal = " ".join(str(error[part]) for part in ("operation", "cause", "state", "next_step") if error.get(part))
    return refusal or str(result.get("outcome") or "unknown reason")


def show_steps(stage: Stage, rebuild: dict[str, Any]) -> None:
    stage.say(f"\nRebuild {rebuild.get('rebuild', '?')}: {rebuild.get('status')} {rebuild.get('outcome', '')}".rstrip())
    for step in rebuild.get("steps", []):
        seconds = step.get("seconds")
        took = f"{seconds:7.1f} s" if seconds is not None else f"{'-':>9}"
        size = f"  ({step['bytes'] / 1024**2:.0f} MiB)" if step.get("bytes") else ""
        stage.say(f"{took}  {step.get('state', ''):9} {step.get('title') or step['name']}{size}")
    stage.say("")


def examine(stage: Stage, replica: Server, primary: Server) -> dict[str, Any]:
    """Return the observations. Raises ``Failed`` for the first unexpected one."""
    mark = secrets.token_hex(8)
    primary.rows("CREATE DATABASE IF NOT EXISTS dbops_demo")
    primary.rows("CREATE TABLE IF NOT EXISTS dbops_demo.mark (mark CHAR(16) PRIMARY KEY) ENGINE=InnoDB")
    primary.rows("INSERT INTO dbops_demo.mark VALUES (%s)", (mark,))
    began = time.monotonic()
    supervisor.wait_until(
        lambda: has_mark(replica, mark), "a row just written on the primary", MARK_SECONDS, (), stage.stop
    )
    arrived = time.monotonic() - began
    seen = replication(replica)
    if seen["source_address"] != f"{primary.address}:{primary.port}":
        raise Failed(f"{replica.name} replicates from {seen['source_address']}, not from {primary.name}")
    if not seen["receiving"] or not seen["applying"]:
        raise Failed(f"replication does not run on {replica.name}: {seen}")
    if seen["lag_seconds"] is None or seen["lag_seconds"] > LAG_SECONDS:
        raise Failed(f"{replica.name} lags by {seen['lag_seconds']} s")
    tables = tables_of(replica)
    if tables != tables_of(primary):
        raise Failed(f"{replica.name} does not have the tables of {primary.name}")
    return {**seen, "serves": True, "tables": len(tables), "row_arrived_seconds": round(arrived, 3)}


def has_mark(replica: Server, mark: str) -> bool:
    try:
        return bool(replica.rows("SELECT 1 FROM dbops_demo.mark WHERE mark = %s", (mark,)))
    except pymysql.MySQLError:
        return False


def replication(server: Server) -> dict[str, Any]:
    """Return the replication status under the same names for MySQL and MariaDB."""
    rows = server.rows("SHOW REPLICA STATUS")
    if not rows:
        raise Failed(f"{server.name} does not replicate at all")
    row = rows[0]

    def get(*names: str) -> Any:
        return next((row[name] for name in names if name in row), None)

    return {
        "source_address": f"{get('Source_Host', 'Master_Host')}:{get('Source_Port', 'Master_Port')}",
        "receiving": get("Replica_IO_Running", "Slave_IO_Running") == "Yes",
        "applying": get("Replica_SQL_Running", "Slave_SQL_Running") == "Yes",
        "lag_seconds": get("Seconds_Behind_Source", "Seconds_Behind_Master"),
    }


def tables_of(server: Server) -> set[tuple[str, str]]:
    """Return the names of the tables written by the load and this demonstration."""
    rows = server.rows(
        "SELECT table_schema AS s, table_name AS t FROM information_schema.tables WHERE table_schema NOT IN"
        " ('mysql', 'sys', 'information_schema', 'performance_schema')"
    )
    return {(row["s"], row["t"]) for row in rows}
