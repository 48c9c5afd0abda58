"""A MySQL server whose accounts use ``caching_sha2_password``: it wants the whole password from who has not logged in since its start."""

import getpass
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.mysql_login import ServerProof
from dbops.drivers.server_proof import read_proof
from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.local_login import Account, local_login
from lab.unpacked import MYSQL
from tests.fakes import FakeShell
from tests.networks import free_port
from tests.run_folder import new_folder, remove

pytestmark = [pytest.mark.services, pytest.mark.skipif(bool(MYSQL.why_not()), reason=MYSQL.why_not())]
PASSWORD = "a long one"


@dataclass
class Server:
    folder: Path
    programs: dict[str, str]
    address: MysqlAddress
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        command = [self.programs["mysqld"], f"--defaults-file={self.folder}/my.cnf"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while self.ask("SELECT 1").returncode:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.2)

    def stop(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, sql: str, *words: str) -> "subprocess.CompletedProcess[str]":
        words = words or ("--no-defaults", f"--socket={self.folder}/s", "--user=root")
        command = [self.programs["mysql"], *words, "--batch", "--skip-column-names", "-e", sql]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def proof(self) -> ServerProof:
        return read_proof(
            FakeShell(runs_here=True), datadir=f"{self.folder}/data", defaults_file=f"{self.folder}/my.cnf"
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    prefix, folder = MYSQL.folder(), new_folder("mysql")
    assert prefix
    server = Server(folder, MYSQL.programs(prefix), MysqlAddress("127.0.0.1", free_port(), "dbops", PASSWORD))
    (folder / "my.cnf").write_text(
        f"[mysqld]\nuser={getpass.getuser()}\ndatadir={folder}/data\nsocket={folder}/s\nport={server.address.port}\n"
        f"bind-address=127.0.0.1\nmysqlx=OFF\nbasedir={prefix}/usr\nlc-messages-dir={prefix}/usr/share/mysql\n"
        f"character-sets-dir={prefix}/usr/share/mysql/charsets\nplugin-dir={prefix}/usr/lib/mysql/plugin\n"
        "plugin-load-add=auth_socket.so\ninnodb-buffer-pool-size=32M\nskip-log-bin\nsecure-file-priv=\ninnodb-doublewrite=OFF\n"
    )
    initialize = [server.programs["mysqld"], f"--defaults-file={folder}/my.cnf", "--initialize-insecure"]
    subprocess.run(initialize, check=True, capture_output=True, timeout=120)
    accounts = (
        f"CREATE USER dbops@'%' IDENTIFIED BY '{PASSWORD}'; CREATE USER other@'%' IDENTIFIED BY '{PASSWORD}';"
        f"CREATE USER here@localhost IDENTIFIED WITH auth_socket AS '{getpass.getuser()}'"
    )
    try:
        server.start()
        assert not server.ask(accounts).returncode
        yield server
    finally:
        server.stop()
        remove(folder)


def code_of(database: MysqlDatabase) -> str:
    try:
        database.query("SELECT 1 AS one")
    except RemoteFailure as error:
        return error.code
    finally:
        database.close()
    return ""


def test_default_account_logs_in_to_the_server_that_its_host_proves(server: Server) -> None:
    other = replace(server.address, user="other")
    assert code_of(MysqlDatabase(server.address)) == "mysql.unproven"
    assert code_of(MysqlDatabase(server.address, prove=lambda: ServerProof())) == "mysql.unproven"
    assert code_of(MysqlDatabase(server.address, prove=server.proof)) == ""
    assert code_of(MysqlDatabase(server.address)) == "", "now the server remembers the account"
    assert code_of(MysqlDatabase(other)) == "mysql.unproven"
    assert code_of(MysqlDatabase(replace(other, password="wrong"), prove=server.proof)) == "mysql.access_denied"


def test_client_logs_in_by_its_system_account_without_a_password(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "login.cnf"
    file.touch(0o600)
    file.write_text(local_login(flavor_for("9.7.4"), Account("here", ""), str(tmp_path), socket=f"{server.folder}/s"))
    assert server.ask("SELECT CURRENT_USER()", f"--defaults-file={file}").stdout == "here@localhost\n"
