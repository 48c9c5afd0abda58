"""Ways through jump hosts: real sshds, one behind the other."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_jumps import fetch_host_key
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from tests.drivers.conftest import ADDRESS, SSH_PORT, Server, Sshd, keygen
from tests.drivers.jump_hosts import JumpHost, jump_host

pytestmark = pytest.mark.services


@pytest.fixture
def first(tmp_path: Path) -> Iterator[JumpHost]:
    with jump_host(tmp_path, "jump-1", 2231) as made:
        yield made


@pytest.fixture
def second(tmp_path: Path) -> Iterator[JumpHost]:
    with jump_host(tmp_path, "jump-2", 2232) as made:
        yield made


@pytest.fixture
def third(tmp_path: Path) -> Iterator[JumpHost]:
    with jump_host(tmp_path, "jump-3", 2233) as made:
        yield made


def error_of(address: SshAddress, **options: float) -> DbopsError:
    shell = SshShell(address, **options)  # type: ignore[arg-type]
    try:
        with pytest.raises(DbopsError) as caught:
            shell.run("true")
    finally:
        shell.close()
    return caught.value


def says(address: SshAddress, text: str = "there") -> bool:
    shell = SshShell(address)
    try:
        return shell.run('echo "$1"', text).stdout == f"{text}\n"
    finally:
        shell.close()


class TestHops:
    def test_host_is_reached_through_one(self, sshd: Sshd, first: JumpHost) -> None:
        assert says(replace(sshd.pinned(), jump=first.address()))
        assert first.logins() == 1

    def test_host_is_reached_through_three(
        self, sshd: Sshd, first: JumpHost, second: JumpHost, third: JumpHost
    ) -> None:
        way = third.address(second.address(first.address()))
        assert says(replace(sshd.pinned(), jump=way), "x" * 50_000)
        assert [hop.logins() for hop in (first, second, third)] == [1, 1, 1]

    def test_many_connections_at_the_same_time_do_not_disturb_each_other(self, sshd: Sshd, first: JumpHost) -> None:
        address, done = replace(sshd.pinned(), jump=first.address()), []
        for _ in range(5):
            threads = [threading.Thread(target=lambda: done.append(says(address))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert done == [True] * 40

    def test_host_key_is_fetched_through_a_jump_host(self, sshd: Sshd, first: JumpHost) -> None:
        assert fetch_host_key(ADDRESS, SSH_PORT, jump=first.address()) == sshd.host_key("ed25519")
        assert first.logins() == 1


class TestKeys:
    def test_wrong_key_of_the_middle_hop_is_refused(
        self, sshd: Sshd, first: JumpHost, second: JumpHost, third: JumpHost
    ) -> None:
        keygen(second.folder / "other")
        other = " ".join((second.folder / "other.pub").read_text().split()[:2])
        middle = replace(second.address(first.address()), host_key=other)
        error = error_of(replace(sshd.pinned(), jump=third.address(middle)))
        assert isinstance(error, NoAccess)
        assert error.code == "ssh.host_key_changed"
        assert "jump-2" in error.operation
        assert third.logins() == 0

    def test_unknown_key_of_a_hop_is_refused(self, sshd: Sshd, first: JumpHost) -> None:
        error = error_of(replace(sshd.pinned(), jump=replace(first.address(), host_key="")))
        assert (error.code, "jump-1" in error.operation) == ("ssh.host_key_unknown", True)
        assert first.logins() == 0

    def test_wrong_key_of_the_host_behind_is_refused(self, sshd: Sshd, first: JumpHost) -> None:
        error = error_of(replace(sshd.pinned(), host_key=first.address().host_key, jump=first.address()))
        assert (error.code, "jump-1" in error.operation) == ("ssh.host_key_changed", False)

    def test_login_that_a_hop_refuses_names_it(self, sshd: Sshd, first: JumpHost) -> None:
        stranger = replace(first.address(), private_key=(sshd.folder / "stranger").read_text())
        error = error_of(replace(sshd.pinned(), jump=stranger))
        assert isinstance(error, NoAccess)
        assert (error.code, "jump-1" in error.operation) == ("ssh.auth_failed", True)


class TestDead:
    def test_dead_hop_is_named(self, sshd: Sshd, first: JumpHost, second: JumpHost) -> None:
        address = replace(sshd.pinned(), jump=second.address(first.address()))
        for hop in (second, first):
            hop.stop()
            error = error_of(address)
            assert isinstance(error, Unreachable)
            assert (error.code, hop.name in error.operation) == ("ssh.jump_unreachable", True)

    def test_host_is_reached_again_when_the_hop_is_back(self, sshd: Sshd, first: JumpHost) -> None:
        shell = SshShell(replace(sshd.pinned(), jump=first.address()))
        assert shell.run("echo 1").stdout == "1\n"
        first.stop()
        with pytest.raises(Unreachable) as caught:
            shell.run("echo 2")
        assert caught.value.code == "ssh.jump_unreachable"
        first.start()
        assert shell.run("echo 3").stdout == "3\n"
        shell.close()

    def test_dead_host_behind_a_hop_is_not_the_hop(self, sshd: Sshd, first: JumpHost) -> None:
        error = error_of(replace(sshd.pinned(), port=1, jump=first.address()))
        assert (error.code, "jump-1" in error.operation) == ("ssh.unreachable", False)

    def test_hop_that_forwards_nothing_is_named(self, sshd: Sshd, tmp_path: Path) -> None:
        with jump_host(tmp_path, "closed", 2234, forwarding="no") as hop:
            error = error_of(replace(sshd.pinned(), jump=hop.address()))
        assert isinstance(error, NoAccess)
        assert (error.code, "closed" in error.operation) == ("ssh.jump_refused", True)


class TestMysql:
    def test_statements_go_through_two_hops(self, server: Server, first: JumpHost, second: JumpHost) -> None:
        database = MysqlDatabase(replace(server.address, jump=second.address(first.address())))
        assert database.query("SELECT REPEAT('x', 300000) AS found")[0]["found"] == "x" * 300_000
        assert database.query("SHOW SESSION STATUS LIKE 'Ssl_version'")[0]["Value"].startswith("TLS")
        database.close()
        assert [first.logins(), second.logins()] == [1, 1]

    def test_nothing_listens_for_it(self, server: Server, first: JumpHost) -> None:
        def listening() -> set[str]:
            found = subprocess.run(["ss", "-lntxpH"], capture_output=True, text=True, check=True).stdout
            return {line for line in found.splitlines() if f"pid={os.getpid()}," in line}

        before = listening()
        database = MysqlDatabase(replace(server.address, jump=first.address()))
        assert database.query("SELECT 1 AS one") == [{"one": 1}]
        assert listening() == before
        database.close()

    def test_refused_port_took_no_connection(self, server: Server, first: JumpHost) -> None:
        with pytest.raises(Unreachable) as caught:
            MysqlDatabase(replace(server.address, port=1, jump=first.address())).query("SELECT 1")
        assert (caught.value.code, caught.value.took_no_connection) == ("mysql.unreachable", True)

    def test_dead_hop_is_named(self, server: Server, first: JumpHost) -> None:
        first.stop()
        with pytest.raises(Unreachable) as caught:
            MysqlDatabase(replace(server.address, jump=first.address())).query("SELECT 1")
        assert (caught.value.code, "jump-1" in caught.value.operation) == ("ssh.jump_unreachable", True)

    def test_connection_is_lost_with_the_hop(self, server: Server, first: JumpHost) -> None:
        database = MysqlDatabase(replace(server.address, jump=first.address()))
        assert database.query("SELECT 1 AS one") == [{"one": 1}]
        first.stop()
        with pytest.raises(Unreachable) as caught:
            database.query("SELECT 1")
        assert (caught.value.code, caught.value.took_no_connection) == ("mysql.unreachable", False)

    def test_server_forgets_a_closed_connection(self, server: Server, first: JumpHost) -> None:
        direct, database = MysqlDatabase(server.address), MysqlDatabase(replace(server.address, jump=first.address()))
        number = database.query("SELECT CONNECTION_ID() AS id")[0]["id"]
        database.close()
        deadline, sql = time.monotonic() + 10, f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {number}"
        while direct.query(sql) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert direct.query(sql) == []
        direct.close()


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(one) for one in found.stdout.split()]
