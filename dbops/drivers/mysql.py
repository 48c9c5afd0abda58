"""SQL to one server; only this module and ``mysql_login`` import pymysql."""

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

from dbops.drivers.mysql_login import BadCertificate, Login, MethodRefused, ServerProof, Unproven, verified
from dbops.drivers.ssh_jumps import NotForwarded, forwarded_socket
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database

#: no connection or a lost one: client errors 2xxx, server shutdown, killed, closed as idle
LOST = {1053, 1080, 1152, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2005, 2006, 2013, 2014, 2055, 4031}
#: the TCP connection failed
NO_CONNECTION = 2003
#: TLS is required, and the server offers none
NO_TLS = 2026
#: wrong password, host not allowed, account without a usable login
DENIED = {1045, 1129, 1130, 1698, 1862, 3118, 4151}


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """Address and account. ``tls_ca``: certificates of the authority as PEM; the server must then offer TLS with a certificate of it
    for ``host``. Empty: TLS is used if the server offers it, and its certificate is not verified.

    ``jump``: the jump host that opens the connection; ``None``: the dashboard connects itself.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls_ca: str = ""
    jump: SshAddress | None = None

    @property
    def place(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


class MysqlDatabase(Database):
    """``Database`` over one connection, opened by the first statement.

    A lost connection is not reopened automatically, because its locks and session variables are lost too. Each call raises
    ``Unreachable`` until the owner calls ``close``; the next statement then opens a new connection.

    Args:
        address: address and account.
        connect_timeout_seconds: for TCP and the login.
        read_timeout_seconds: for one answer of the server; waits inside a statement must be shorter.
        idle_seconds: the server closes the connection after this time without a statement and releases its locks, so that
            a dead worker holds none.
        prove: returns what the server must show before it gets the whole password; ``None``: nothing can prove it, and a login
            that needs it is refused (``mysql.unproven``). Its own errors pass through.
        write_binlog: write this session's statements to the binary log. Off by default: on a replica they would be errant
            transactions. Turning it off needs a privilege; without it, the session is unchanged.
    """

    def __init__(
        self,
        address: MysqlAddress,
        *,
        connect_timeout_seconds: float = 5.0,
        read_timeout_seconds: float = 10.0,
        idle_seconds: int = 15,
        write_binlog: bool = False,
        prove: Callable[[], ServerProof] | None = None,
    ) -> None:
        self.address = address
        self._connect_timeout = connect_timeout_seconds
        self._read_timeout = read_timeout_seconds
        self._idle_seconds = idle_seconds
        self._write_binlog = write_binlog
        self._prove = prove
        self._connection: Connection[DictCursor] | None = None

    def __repr__(self) -> str:
        return f"MysqlDatabase({self.address.place})"

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        try:
            connection = self._connection = self._connection or self._connect()
            with connection.cursor() as cursor:
                # without parameters the text is sent unchanged, so that a % needs no escaping
                cursor.execute(sql, tuple(parameters) or None)
                return list(cursor.fetchall())
        except UnicodeEncodeError as error:
            raise RemoteFailure(
                "mysql.not_text",
                phrase(
                    "Querying the server on {host}:{port} as {user}",
                    host=self.address.host,
                    port=self.address.port,
                    user=repr(self.address.user),
                ),
                cause=phrase(
                    "a character cannot be written as UTF-8: {reason}", reason=error.reason
                ),  # without the text, which can be a secret
            ) from None
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            raise self._failure(sql, parameters, error) from None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.query(sql, parameters)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.open:
            try:
                connection.close()
            except (pymysql.MySQLError, OSError):
                pass  # already closed

    def _connect(self) -> "Connection[DictCursor]":
        connection = Login(
            prove=self._prove,
            host=self.address.host,
            port=self.address.port,
            user=self.address.user,
            password=self.address.password.encode(),  # as the servers' own clients; PyMySQL would use latin1 for text
            charset="utf8mb4",
            autocommit=True,
            cursorclass=DictCursor,
            connect_timeout=max(1, round(self._connect_timeout)),
            # for greeting and login: an open but silent port never answers
            read_timeout=self._connect_timeout,
            write_timeout=self._read_timeout,
            local_infile=False,
            ssl=verified(self.address.tls_ca) if self.address.tls_ca else None,
            defer_connect=True,
        )
        connection.connect(self._forwarded())
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION wait_timeout = {int(self._idle_seconds)}")
            if not self._write_binlog:
                try:
                    cursor.execute("SET SESSION sql_log_bin = 0")
                except pymysql.MySQLError as error:
                    if _number(error) in LOST:
                        raise
        connection._read_timeout = self._read_timeout  # type: ignore[attr-defined]  # there is no public way
        return connection

    def _forwarded(self) -> socket.socket | None:
        """Return a socket through the jump host; ``None`` without one. Errors of a jump host pass through ``query``."""
        if self.address.jump is None:
            return None
        host, port = self.address.host, self.address.port
        try:
            return forwarded_socket(self.address.jump, host, port, timeout_seconds=self._connect_timeout)
        except NotForwarded as error:
            raise pymysql.OperationalError(NO_CONNECTION, str(error)) from None

    def _failure(self, sql: str, parameters: Sequence[Any], error: Exception) -> RemoteFailure:
        number = _number(error)
        place = f"{self.address.host}:{self.address.port}"
        login = phrase("Logging in to {place} as {user}", place=place, user=self.address.user)
        if isinstance(error, MethodRefused):
            return RemoteFailure("mysql.login_method", login, cause=str(error))
        if isinstance(error, Unproven):
            return RemoteFailure("mysql.unproven", login, cause=str(error))
        if isinstance(error, BadCertificate) or number == NO_TLS:
            return RemoteFailure("mysql.certificate", login, cause=str(error.args[-1]))
        # a statement can be refused with the error of a login, too: STOP SLAVE of MySQL 5.7 without SUPER
        if number in DENIED and self._connection is None:
            return RemoteFailure(
                "mysql.access_denied",
                login,
                cause=_clean(error, (self.address.password,)),
            )
        if number in LOST or not isinstance(error, pymysql.MySQLError) or isinstance(error, pymysql.InterfaceError):
            failure = Unreachable(
                "mysql.unreachable",
                phrase("Querying the server on {place}", place=place),
                cause=_clean(error, (self.address.password, *parameters)),
            )
            failure.took_no_connection = number == NO_CONNECTION
            return failure
        return RemoteFailure(
            "mysql.error",
            phrase("Running {statement} on {place}", statement=_shortened(sql), place=place),
            cause=_clean(error, (self.address.password, *parameters)),
        )


def _number(error: Exception) -> int | None:
    return error.args[0] if error.args and isinstance(error.args[0], int) else None


def _shortened(sql: str) -> str:
    """Return the start of a statement up to the first quote, because secrets can follow."""
    return " ".join(re.split(r"['\"]", sql, maxsplit=1)[0].split())[:60]


def _clean(error: Exception, secrets: Sequence[Any]) -> str:
    """Return the error's number and text without parameters and without the statement text of syntax errors.

    Both can contain secrets.
    """
    number = _number(error)
    text = str(error.args[-1]) if error.args else type(error).__name__
    if isinstance(error, pymysql.InterfaceError) and not text:
        return phrase("the connection was already lost")
    if number in (1064, 1149):
        text = text.partition(" near '")[0]
    for secret in secrets:
        if isinstance(secret, str) and len(secret) > 3:
            text = text.replace(secret, "***")
    return f"{number}: {text}" if number is not None else text
