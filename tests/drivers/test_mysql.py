"""SQL against a real server; what any database must do is asked of the fake as well."""

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.engine.errors import DbopsError, RemoteFailure, Unreachable
from dbops.engine.ports import Database
from tests.drivers.conftest import ADDRESS, PASSWORD, Server, certificate
from tests.fakes import FakeDatabase, server_error

HOSTILE = ["a'b", 'a"b', "a\\", "%s", "$(id)", "a\nb", "; DROP TABLE x", "ü€😀", ""]


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.services)])
def any_database(request: pytest.FixtureRequest) -> Database:
    if request.param == "real":
        database: Database = request.getfixturevalue("database")
        return database
    fake = FakeDatabase()
    fake.expect("^SELECT 1", [{"one": 1}])
    fake.expect("^SELECT nonsense", server_error(1054, "Unknown column 'nonsense'"))
    return fake


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        listener.listen()
        yield listener.getsockname()[1]


def refusal(database: MysqlDatabase, sql: str = "SELECT 1") -> DbopsError:
    with pytest.raises(DbopsError) as caught:
        database.query(sql)
    database.close()
    return caught.value


class TestEveryDatabase:
    def test_query_returns_dictionaries(self, any_database: Database) -> None:
        assert any_database.query("SELECT 1 AS one") == [{"one": 1}]

    def test_execute_returns_nothing(self, any_database: Database) -> None:
        any_database.execute("SET @x = %s", ("y",))

    def test_errors_contain_the_text_of_the_server(self, any_database: Database) -> None:
        with pytest.raises(RemoteFailure) as caught:
            any_database.query("SELECT nonsense")
        assert not isinstance(caught.value, Unreachable)
        assert caught.value.code == "mysql.error"
        assert caught.value.cause.startswith("1054: Unknown column 'nonsense'")

    def test_lost_connection_stays_lost_until_closed(
        self, any_database: Database, request: pytest.FixtureRequest
    ) -> None:
        any_database.query("SELECT 1 AS one")
        if isinstance(any_database, FakeDatabase):
            any_database.lose()
        else:
            kill(request.getfixturevalue("server"), any_database)
        for _ in range(2):
            with pytest.raises(Unreachable) as caught:
                any_database.query("SELECT 1 AS one")
            assert caught.value.code == "mysql.unreachable"
        any_database.close()
        assert any_database.query("SELECT 1 AS one") == [{"one": 1}]


def kill(server: Server, database: Database) -> None:
    number = database.query("SELECT CONNECTION_ID() AS number")[0]["number"]
    other = MysqlDatabase(server.address)
    other.execute(f"KILL {number}")
    other.close()
    time.sleep(0.1)


@pytest.mark.services
class TestServer:
    @pytest.mark.parametrize("text", HOSTILE)
    def test_parameters_are_escaped(self, database: MysqlDatabase, text: str) -> None:
        assert database.query("SELECT %s AS x", (text,)) == [{"x": text}]

    def test_percent_sign_is_literal_without_parameters(self, database: MysqlDatabase) -> None:
        assert database.query("SELECT 'a%b' LIKE 'a%' AS x") == [{"x": 1}]

    def test_session_skips_the_binlog_and_has_an_idle_limit(self, database: MysqlDatabase) -> None:
        row = database.query("SELECT @@sql_log_bin AS log, @@wait_timeout AS idle, @@autocommit AS auto")[0]
        assert row == {"log": 0, "idle": 15, "auto": 1}

    def test_account_without_binlog_privilege_works(self, server: Server) -> None:
        database = MysqlDatabase(replace(server.address, user="plain", password="plain"))
        assert database.query("SELECT @@sql_log_bin AS log") == [{"log": 1}]
        database.close()

    def test_idle_session_is_closed_by_the_server(self, server: Server) -> None:
        database = MysqlDatabase(server.address, idle_seconds=1)
        database.query("SELECT 1")
        time.sleep(2.2)
        assert refusal(database).code == "mysql.unreachable"

    def test_wrong_password_is_denied_and_not_shown(self, server: Server) -> None:
        error = refusal(MysqlDatabase(replace(server.address, password="wrong-one")))
        assert not isinstance(error, Unreachable)
        assert error.code == "mysql.access_denied"
        assert "wrong-one" not in str(error)

    def test_statement_that_is_denied_is_no_failed_login(self, server: Server) -> None:
        """MySQL 5.7 answers STOP SLAVE without SUPER with the error of a login."""
        error = refusal(MysqlDatabase(server.address), "SIGNAL SQLSTATE '28000' SET MYSQL_ERRNO = 1045")
        assert (error.code, error.cause.partition(":")[0]) == ("mysql.error", "1045")

    @pytest.mark.parametrize("password", ["gehe\u00ebim", "x\u20ac", "\u65e5\u672c '\"\\ %s"])
    def test_passwords_are_sent_as_utf8(self, server: Server, database: MysqlDatabase, password: str) -> None:
        database.execute("CREATE OR REPLACE USER odd@'%%' IDENTIFIED BY %s", (password,))
        odd = MysqlDatabase(replace(server.address, user="odd", password=password))
        assert odd.query("SELECT 1 AS one") == [{"one": 1}]
        odd.close()

    @pytest.mark.parametrize("field", ["user", "password"])
    def test_account_that_is_no_text_is_an_error_without_it(self, server: Server, field: str) -> None:
        error = refusal(MysqlDatabase(replace(server.address, **{field: "secret\udc80"})))  # type: ignore[arg-type]
        assert error.code == "mysql.not_text"
        assert "\udc80" not in str(error)

    def test_closed_port_is_unreachable(self, server: Server) -> None:
        error = refusal(MysqlDatabase(replace(server.address, port=1)))
        assert isinstance(error, Unreachable)
        assert (error.code, error.took_no_connection) == ("mysql.unreachable", True)

    def test_silent_port_times_out_soon(self, server: Server, silent_port: int) -> None:
        before = time.monotonic()
        database = MysqlDatabase(replace(server.address, port=silent_port), connect_timeout_seconds=1)
        error = refusal(database)
        assert isinstance(error, Unreachable)
        assert (error.code, error.took_no_connection) == ("mysql.unreachable", False)
        assert time.monotonic() - before < 300

    def test_slow_answer_is_unreachable(self, server: Server) -> None:
        before = time.monotonic()
        error = refusal(MysqlDatabase(server.address, read_timeout_seconds=1), "SELECT SLEEP(60)")
        assert error.code == "mysql.unreachable"
        assert time.monotonic() - before < 30

    def test_passwords_are_in_no_repr_and_no_error(self, server: Server, database: MysqlDatabase) -> None:
        with pytest.raises(RemoteFailure) as caught:
            database.execute("CHANGE MASTER TO MASTER_HOST = %s, MASTER_PASSWRD = %s", ("h", "very-secret"))
        texts = [
            str(caught.value),
            repr(caught.value),
            repr(database),
            repr(server.address),
            str(caught.value.as_record()),
        ]
        assert "1064" in caught.value.cause
        assert not any("very-secret" in text or PASSWORD in text for text in texts)
        assert caught.value.__suppress_context__

    def test_database_object_works_in_another_thread(self, database: MysqlDatabase) -> None:
        rows: list[object] = []
        thread = threading.Thread(target=lambda: rows.extend(database.query("SELECT 1 AS one")))
        thread.start()
        thread.join()
        assert rows == [{"one": 1}]


@pytest.mark.services
class TestEncryption:
    """TLS is used if the server offers it; with an authority it is a condition."""

    def cipher(self, database: MysqlDatabase) -> str:
        [row] = database.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        database.close()
        return str(row["Value"])

    def test_connection_uses_tls_when_offered(self, server: Server) -> None:
        assert self.cipher(MysqlDatabase(server.address)).startswith("TLS_")

    def test_server_is_verified_with_an_authority(self, server: Server, folder: Path, tmp_path: Path) -> None:
        ours = replace(server.address, tls_ca=(folder / "server.pem").read_text())
        assert self.cipher(MysqlDatabase(ours)).startswith("TLS_")
        other = certificate(tmp_path)["cert"].read_text()
        assert refusal(MysqlDatabase(replace(ours, tls_ca=other))).code == "mysql.certificate"

    def test_connections_share_their_tls_context(self, server: Server) -> None:
        """Each would read every certificate authority of the machine otherwise, and ask none."""
        one, other = (MysqlDatabase(server.address)._connect() for _ in range(2))
        assert one.ctx is other.ctx  # type: ignore[attr-defined]
        one.close()
        other.close()
