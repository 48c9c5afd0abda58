"""The probe against a real host and a real server, and its parts alone."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import MEASURE_SECONDS, ProbeTarget, probe_instance
from dbops.drivers.probe_host import (
    HostReading,
    Inspect,
    read_host,
)
from dbops.drivers.ssh import SshShell
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import InstanceFacts, RunTimeSetting, from_record, to_record
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Database, Shell
from tests.drivers.conftest import ADDRESS, BACKUP_PASSWORD, MYSQL_PORT, PASSWORD, Server, Sshd, chosen_shell
from tests.fakes import FakeShell
from tests.scratch import left_in_tmp

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def ask(shell: Shell, datadir: Path | str, **options: Any) -> HostReading:
    settings: dict[str, Any] = {
        "defaults_file": "",
        "inspect": Inspect.CHEAP,
        "socket": "",
        "credentials": "",
        "statements": [],
    }
    return read_host(shell, datadir=str(datadir), **{**settings, **options})


@pytest.fixture(params=["here", *(pytest.param(name, marks=pytest.mark.services) for name in ("ssh", "csh"))])
def any_shell(request: pytest.FixtureRequest) -> Shell:
    return chosen_shell(request)


@pytest.fixture
def target(server: Server) -> ProbeTarget:
    accounts = Account("monitor", PASSWORD), Account("backup", BACKUP_PASSWORD)
    return ProbeTarget(str(server.datadir), str(server.defaults_file), *accounts, ("monitor", "repl", "backup"))


@pytest.fixture
def opened(server: Server) -> Callable[[], Database]:
    return lambda: MysqlDatabase(server.address)


class TestHost:
    def test_host_facts_describe_the_machine(self, any_shell: Shell, tmp_path: Path) -> None:
        host = ask(any_shell, tmp_path).host
        assert host.hostname
        assert host.cpu_count == len(os.sched_getaffinity(0))
        assert host.memory_available_bytes > 1_000_000
        assert "aes128-gcm@openssh.com" in host.ssh_ciphers
        assert host.open_files_limit > 255
        assert host.clock_offset_seconds == 0.0
        assert host.tools["bash"].path.endswith("/bash")
        assert host.tools["ssh"].version
        assert "xtrabackup" not in host.tools or host.tools["xtrabackup"].version

    def test_datadir_facts_of_a_missing_directory(self, any_shell: Shell, tmp_path: Path) -> None:
        found = ask(any_shell, tmp_path / "no 'such" / "data", inspect=Inspect.ALL).datadir
        assert (found.exists, found.identity, found.is_empty) == (False, "", False)
        assert found.free_bytes > 0
        assert found.filesystem
        assert found.storage is not None
        assert found.storage.block_bytes >= 512
        assert found.total_bytes is None

    def test_storage_facts_match_the_kernel(self, any_shell: Shell, tmp_path: Path) -> None:
        found = ask(any_shell, tmp_path).datadir.storage
        assert found is not None
        block = Path(f"/sys/class/block/{found.device}").resolve()
        queue = next((place for place in (block / "queue", block.parent / "queue") if place.is_dir()), None)
        if queue is None:  # an overlay, or a file system in memory
            assert found.turns is None
            return
        is_virtual = " hypervisor" in Path("/proc/cpuinfo").read_text() or Path("/sys/class/block/vda").exists()
        says_so = None if is_virtual else True
        assert found.turns is (says_so if (queue / "rotational").read_text().strip() == "1" else False)

    def test_storage_facts_are_unknown_without_a_device(self, any_shell: Shell) -> None:
        found = ask(any_shell, "/proc").datadir.storage
        assert found is not None
        assert (found.filesystem, found.atomic_bytes, found.turns) == ("proc", None, None)

    def test_datadir_facts_of_an_empty_directory(self, any_shell: Shell, tmp_path: Path) -> None:
        found = ask(any_shell, tmp_path, inspect=Inspect.ALL).datadir
        assert (found.exists, found.is_empty, found.is_mount_point) == (True, True, False)
        assert (found.data_bytes, found.total_bytes) == (0, 0)
        assert found.identity == f"{tmp_path.stat().st_dev}:{tmp_path.stat().st_ino}"

    @pytest.mark.parametrize("name", ["a'b", "$(id)", "a\nb", "a\tb", "-n", 'a"b;id', "ü"])
    def test_probe_accepts_any_names(self, any_shell: Shell, tmp_path: Path, name: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
        found = ask(any_shell, tmp_path / name).datadir
        assert (found.path, found.exists, found.is_empty) == (str(tmp_path / name), True, False)

    def test_probe_follows_a_link(self, any_shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert ask(any_shell, tmp_path / "link").datadir.path == str(tmp_path / "real")

    def test_probe_detects_a_mount_point(self, any_shell: Shell) -> None:
        assert ask(any_shell, "/proc").datadir.is_mount_point

    def test_data_bytes_omit_files_that_a_backup_skips(self, any_shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "shop").mkdir()
        for name, size in {
            "ibdata1": 10,
            "shop/a b.ibd": 5,
            "shop/m.MYD": 3,
            "binlog.000001": 100,
            "ib_logfile0": 1000,
        }.items():
            (tmp_path / name).write_bytes(b"x" * size)
        found = ask(any_shell, tmp_path, inspect=Inspect.ALL).datadir
        assert (found.data_bytes, found.total_bytes) == (18, 1118)
        assert ask(any_shell, tmp_path).datadir.total_bytes is None

    @pytest.mark.parametrize(
        "names", [("data.dbops-old-1", "data.dbops-failed-2"), ("data/.dbops-old-1", "data/.dbops-failed-2")]
    )
    def test_kept_bytes_are_those_of_directories_moved_aside(
        self, any_shell: Shell, tmp_path: Path, names: tuple[str, str]
    ) -> None:
        data = tmp_path / "data"
        data.mkdir()
        assert ask(any_shell, data, inspect=Inspect.ALL).datadir.kept_bytes == 0
        for name, size in zip(names, (70, 30), strict=True):
            (tmp_path / name / "shop").mkdir(parents=True)
            (tmp_path / name / "shop" / "a.ibd").write_bytes(b"x" * size)
        (tmp_path / "data.dbops-old-3").symlink_to("/usr")
        (tmp_path / "data" / "now").write_bytes(b"x" * 5)
        found = ask(any_shell, data, inspect=Inspect.ALL).datadir
        assert (found.kept_bytes, found.total_bytes) == (100, 5)
        assert found.disk_bytes is not None
        assert found.disk_bytes >= found.free_bytes
        assert ask(any_shell, data).datadir.kept_bytes is None

    def test_probe_reads_option_files(self, any_shell: Shell, tmp_path: Path) -> None:
        file = tmp_path / "my.cnf"
        file.write_text(
            "[mysqld]\nserver-id = 5\nport=3307\nskip_slave_start\nloose-read-only=ON\nwsrep_sst_auth=a:b\n[client]\nport=1\n"
        )
        config = ask(any_shell, tmp_path, defaults_file=str(file)).config
        assert config is not None
        assert (config.server_id, config.port, config.read_only, config.skip_replica_start) == (5, 3307, True, True)
        assert config.options["wsrep_sst_auth"] == "***"
        assert ask(any_shell, tmp_path, defaults_file=str(tmp_path / "none")).config is None

    def test_tool_version_is_cached_by_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        tool, starts = tmp_path / "xtrabackup", tmp_path / "starts"

        def install(version: str) -> None:
            script = f"#!/bin/sh\necho >>{starts}\necho 'xtrabackup version {version} based on MySQL server 8.0.35'\n"
            (tmp_path / "new").write_text(script)
            (tmp_path / "new").chmod(0o755)
            (tmp_path / "new").rename(tool)

        install("8.0.35-30")
        shell = FakeShell(runs_here=True)
        first = ask(shell, tmp_path).host.tools
        again = ask(shell, tmp_path, known=first).host.tools
        assert first["xtrabackup"].version == "8.0.35-30"
        assert again == first
        assert starts.read_text() == "\n"
        silent = {**again, "xtrabackup": replace(again["xtrabackup"], version=None)}
        assert ask(shell, tmp_path, known=silent).host.tools == first, "one that could not say it is asked again"
        install("8.0.35-31")
        newer = ask(shell, tmp_path, known=again).host.tools
        assert newer["xtrabackup"].version == "8.0.35-31"
        assert starts.read_text() == "\n\n\n"
        assert {name: newer[name] for name in first if name != "xtrabackup"} == {
            name: first[name] for name in first if name != "xtrabackup"
        }
        tool.unlink()
        assert "xtrabackup" not in ask(shell, tmp_path, known=newer).host.tools

    def test_programs_get_no_login_plugins_from_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tool = tmp_path / "xtrabackup"
        tool.write_text('#!/bin/sh\necho "$LIBMYSQL_PLUGINS$LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN|$LC_ALL"\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setenv("LIBMYSQL_PLUGINS", "other")
        monkeypatch.setenv("LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN", "1")
        assert ask(FakeShell(runs_here=True), tmp_path).host.tools["xtrabackup"].said == "|C"

    def test_probe_fails_when_tools_are_missing(self, tmp_path: Path) -> None:
        shell = FakeShell()
        shell.expect("", "this account is currently not available\n")
        with pytest.raises(RemoteFailure) as caught:
            ask(shell, tmp_path)
        assert caught.value.code == "host.probe_failed"


@pytest.mark.services
class TestHostOverSsh:
    def test_probe_finds_the_address_of_the_host(self, shell: SshShell, tmp_path: Path) -> None:
        assert ask(shell, tmp_path).host.local_address == ADDRESS

    def test_probe_finds_the_address_of_the_host_under_sudo(self, sshd: Sshd, tmp_path: Path) -> None:
        shell = SshShell(sshd.with_sudo())
        assert ask(shell, tmp_path).host.local_address == ADDRESS
        shell.close()

    def test_probe_finds_the_server_by_its_directory(self, shell: SshShell, server: Server, tmp_path: Path) -> None:
        assert ask(shell, server.datadir).datadir.server_pids == (server.pid,)
        assert ask(shell, tmp_path).datadir.server_pids == ()

    def test_probe_leaves_no_credentials(self, shell: SshShell, server: Server, tmp_path: Path) -> None:
        password = f"wrong-{uuid4().hex}"

        def has_it(path: Path) -> bool:
            try:
                return password.encode() in path.read_bytes()
            except OSError:  # of another probe that has ended
                return False

        reading = ask(
            shell,
            server.datadir,
            defaults_file=str(server.defaults_file),
            credentials=f'[client]\nuser=backup\npassword="{password}"\n',
            statements=["SELECT 1"],
        )
        assert "Access denied" in reading.statements[0].error
        assert password not in reading.statements[0].error
        assert [
            path for path in (file for folder in left_in_tmp("tmp.*") for file in folder.glob("*")) if has_it(path)
        ] == []


@pytest.mark.services
class TestInstance:
    def test_probe_instance_reads_all_parts(
        self, target: ProbeTarget, shell: SshShell, opened: Callable[[], Database], database: MysqlDatabase
    ) -> None:
        database.execute("SET GLOBAL slave_net_timeout = 77")
        facts = probe_instance(target, shell, opened, NOW)
        assert (facts.host_problem, facts.server_problem) == (None, None)
        assert facts.is_reachable
        assert facts.server is not None
        assert RunTimeSetting("slave_net_timeout", "77", "60") in (facts.server.set_at_run_time or ())
        assert (facts.server.flavor, facts.server.server_id, facts.server.port) == ("mariadb", 31, MYSQL_PORT)
        assert facts.server.log_bin
        assert facts.server.redo_lsn > 0
        assert facts.server.innodb_bytes
        assert facts.server.replication == ()
        assert facts.datadir is not None
        assert facts.datadir.data_bytes
        assert facts.datadir.measured_at == NOW
        assert facts.config is not None
        assert facts.config.server_id == 31
        assert facts.backup_account
        assert [check for check in facts.backup_account if check.error] == []
        assert from_record(InstanceFacts, to_record(facts)) == facts

    def test_backup_account_checks_fail_without_privileges(
        self, target: ProbeTarget, shell: SshShell, opened: Callable[[], Database], database: MysqlDatabase
    ) -> None:
        database.execute("CREATE USER poor@localhost IDENTIFIED BY 'poor'")
        poor = replace(target, backup=Account("poor", "poor"))
        facts = probe_instance(poor, shell, opened, NOW)
        assert any("Access denied" in check.error for check in facts.backup_account)
        assert all("\n" not in check.error for check in facts.backup_account)

    def test_local_login_of_the_dashboard_fails_where_the_account_requires_a_certificate(
        self, target: ProbeTarget, shell: SshShell, opened: Callable[[], Database], database: MysqlDatabase
    ) -> None:
        login = probe_instance(target, shell, opened, NOW).admin_login
        assert login is not None
        assert login.error == ""
        database.execute("CREATE USER monitor@localhost IDENTIFIED BY %s REQUIRE X509", (PASSWORD,))
        try:
            refused = probe_instance(target, shell, opened, NOW)
        finally:
            database.execute("DROP USER monitor@localhost")
        assert refused.admin_login is not None
        assert "1045" in refused.admin_login.error
        assert refused.server is not None
        assert [check for check in refused.backup_account if check.error] == []

    def test_probe_instance_reads_the_server_without_ssh(
        self, target: ProbeTarget, sshd: Sshd, opened: Callable[[], Database]
    ) -> None:
        facts = probe_instance(target, SshShell(replace(sshd.pinned(), port=1)), opened, NOW)
        assert facts.server is not None
        assert facts.host is None
        assert facts.host_problem is not None
        assert facts.host_problem.code == "ssh.unreachable"

    def test_probe_instance_reads_the_host_without_a_server(
        self, target: ProbeTarget, shell: SshShell, server: Server
    ) -> None:
        facts = probe_instance(target, shell, lambda: MysqlDatabase(replace(server.address, port=1)), NOW)
        assert facts.server is None
        assert facts.server_problem is not None
        assert facts.server_problem.code == "mysql.unreachable"
        assert facts.host is not None
        assert facts.config is not None
        assert facts.backup_account == ()

    def test_probe_instance_reads_clients_engines_and_rates(
        self,
        target: ProbeTarget,
        shell: SshShell,
        opened: Callable[[], Database],
        server: Server,
        database: MysqlDatabase,
    ) -> None:
        database.execute("CREATE DATABASE shop")
        database.execute("CREATE TABLE shop.m (a INT) ENGINE=MyISAM")
        client = MysqlDatabase(replace(server.address, user="plain", password="plain"))
        client.query("SELECT 1")
        first = probe_instance(target, shell, opened, NOW)
        assert first.server is not None
        assert [item.user for item in first.server.clients] == ["plain"]
        assert first.server.foreign_engines == {"MyISAM": 1}
        assert first.server.redo_bytes_per_second is None
        client.close()
        database.execute("CREATE TABLE shop.n (a TEXT)")
        database.execute("INSERT INTO shop.n SELECT REPEAT('x', 10000) FROM shop.seq_1_to_100")
        database.execute("DROP TABLE shop.m")
        second = probe_instance(target, shell, opened, NOW + timedelta(seconds=10), first)
        assert second.server is not None
        assert second.server.clients == ()
        assert (second.server.redo_bytes_per_second or 0) > 100_000
        assert second.server.foreign_engines == {"MyISAM": 1}
        assert second.datadir is not None
        assert first.datadir is not None
        assert (second.datadir.total_bytes, second.datadir.measured_at) == (first.datadir.total_bytes, NOW)
        assert first.host is not None
        assert second.host is not None
        assert second.host.tools == first.host.tools
        assert second.host.tools["mariadbd"].version
        third = probe_instance(target, shell, opened, NOW + timedelta(seconds=MEASURE_SECONDS), second)
        assert third.server is not None
        assert third.server.foreign_engines == {}
        database.execute("DROP DATABASE shop")
