"""The current state of a lab."""

import dataclasses
import ssl
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql
import pymysql.connections
import pymysql.cursors

from lab.flavors.base import Account, Flavor, ReplicationStatus
from lab.hosts import LabHost
from lab.settings import MIB

Connection: TypeAlias = "pymysql.Connection[pymysql.cursors.DictCursor]"
CONNECT_SECONDS = 5
if TYPE_CHECKING:
    _Base = pymysql.connections.Connection[pymysql.cursors.DictCursor]
else:
    _Base = pymysql.connections.Connection


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host. Process numbers are ``None`` if nothing runs; ``error`` explains why a server did not answer."""

    name: str
    role: str
    address: str
    ssh_port: int
    port: int
    sshd_pid: int | None
    server_pid: int | None
    answers: bool
    read_only: bool | None
    gtid: str | None
    replication: ReplicationStatus | None
    data_bytes: int
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _Connection(_Base):
    """Uses TLS if the server offers it. PyMySQL would load the machine's authorities each time (17 ms) and verify nothing."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        return _unverified()


def connect(host: LabHost, account: Account, database: str | None = None) -> Connection:
    """Return a TCP connection with dictionary rows and autocommit."""
    return _Connection(
        host=host.address,
        port=host.port,
        user=account.user,
        password=account.password,
        database=database,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        cursorclass=pymysql.cursors.DictCursor,
    )


def replication_of(cursor: pymysql.cursors.DictCursor, flavor: Flavor) -> ReplicationStatus | None:
    cursor.execute(flavor.show_replication)
    row = cursor.fetchone()
    return flavor.parse_replication(row) if row else None


def gtid_of(cursor: pymysql.cursors.DictCursor, flavor: Flavor) -> str:
    cursor.execute(flavor.gtid_query)
    row = cursor.fetchone() or {}
    return str(next(iter(row.values()), "") or "")


def read_status(host: LabHost, account: Account, flavor: Flavor) -> HostStatus:
    """Read one host; a server that does not answer is part of the result, not an error."""
    base = HostStatus(
        name=host.name,
        role=host.role,
        address=host.address,
        ssh_port=host.ssh_port,
        port=host.port,
        sshd_pid=host.sshd.pid(),
        server_pid=host.server_pid(),
        answers=False,
        read_only=None,
        gtid=None,
        replication=None,
        data_bytes=host.data_bytes(),
    )
    if base.server_pid is None:
        return base
    try:
        with connect(host, account) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@global.read_only AS read_only")
            read_only = bool((cursor.fetchone() or {})["read_only"])
            gtid = gtid_of(cursor, flavor)
            replication = replication_of(cursor, flavor)
    except pymysql.MySQLError as error:
        return dataclasses.replace(base, error=" ".join(str(part) for part in error.args))
    return dataclasses.replace(base, answers=True, read_only=read_only, gtid=gtid, replication=replication)


def as_table(rows: list[HostStatus], load_pid: int | None, load_line: str) -> str:
    """Format the status for a terminal."""
    table = [("HOST", "ADDRESS", "SSHD", "SERVER", "REPLICATION", "LAG", "DATA", "GTID")]
    table += [
        (
            row.name,
            row.address,
            "down" if row.sshd_pid is None else f"pid {row.sshd_pid}",
            server_text(row),
            replication_text(row),
            lag_text(row),
            f"{row.data_bytes // MIB} MiB",
            row.gtid or "",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    lines += [f"{row.name}: {error_text(row)}" for row in rows if error_text(row)]
    load = f"write load: runs as process {load_pid}" if load_pid else "write load: off"
    return "\n".join([*lines, f"{load}  {load_line}".rstrip()])


def server_text(row: HostStatus) -> str:
    if row.server_pid is None:
        return "down"
    return f"pid {row.server_pid}" if row.answers else f"pid {row.server_pid}, no answer"


def replication_text(row: HostStatus) -> str:
    if row.replication is None:
        return "" if row.role == "primary" or not row.answers else "not set up"
    if row.replication.works:
        return f"from {row.replication.source}"
    io, sql = ("yes" if running else "no" for running in (row.replication.io_running, row.replication.sql_running))
    return f"broken (IO {io}, SQL {sql})"


def error_text(row: HostStatus) -> str:
    return row.error or (row.replication.error if row.replication else "")


def lag_text(row: HostStatus) -> str:
    lag = row.replication.lag_seconds if row.replication else None
    return "" if lag is None else f"{lag} s"
