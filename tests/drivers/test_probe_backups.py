"""Running backups and found schedules: real processes and real files through the real script."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dbops.drivers import probe_host
from dbops.drivers.probe_backups import address_of, found_schedules, is_below
from dbops.drivers.probe_host import Inspect
from dbops.drivers.probe_server import backup_connections, client_host
from dbops.engine.facts.backups import BackupProcess, Reads
from dbops.engine.ports import Shell
from dbops.engine.states import BackupMethod
from tests.drivers.test_probe import NOW, ask
from tests.fakes import FakeShell


@pytest.fixture(params=["here", pytest.param("ssh", marks=pytest.mark.services)])
def any_shell(request: pytest.FixtureRequest) -> Shell:
    shell: Shell = FakeShell(runs_here=True) if request.param == "here" else request.getfixturevalue("shell")
    return shell


@contextmanager
def running(folder: Path, name: str, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called like a backup tool and sleeps: a copy of `sleep` would refuse the tool's options."""
    program = folder / name
    program.write_text("#!/bin/sh\nread -r line\n")
    program.chmod(0o755)
    process = subprocess.Popen([program, *words], stdin=subprocess.PIPE, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def seen(shell: Shell, process: subprocess.Popen[bytes], datadir: Path, **options: Any) -> list[BackupProcess]:
    found = ask(shell, datadir, **options).backups
    return [item for item in found if item.pid == process.pid]


class TestProcesses:
    def test_dump_process_has_file_and_age(self, any_shell: Shell, tmp_path: Path) -> None:
        before = datetime.now(UTC)
        with (tmp_path / "out.sql").open("wb") as out:
            out.write(b"x" * 1234)
            out.flush()
            with running(tmp_path, "mysqldump", "-psecret", f"--socket={tmp_path}/s", stdout=out) as process:
                started = datetime.now(UTC)
                (found,) = seen(any_shell, process, tmp_path, socket=f"{tmp_path}/s")
                (again,) = seen(any_shell, process, tmp_path, socket=f"{tmp_path}/s")
        assert (found.tool, found.method, found.reads) == ("mysqldump", BackupMethod.DUMP, Reads.THIS)
        assert (found.output_path, found.output_bytes) == (str(tmp_path / "out.sql"), 1234)
        assert "secret" not in found.command
        assert before - timedelta(seconds=3) <= found.started_at <= started + timedelta(seconds=3)
        assert found.key == again.key
        assert any(key.split(":")[1] == str(os.getpid()) for key in found.parents)
        assert not found.is_ours

    def test_processes_in_the_work_directory_are_ours(self, any_shell: Shell, tmp_path: Path) -> None:
        work = tmp_path / "work dir"
        work.mkdir()
        with running(tmp_path, "mariadb-dump", f"--defaults-extra-file={work}/rebuilds/u1/c.cnf") as process:
            assert [item.is_ours for item in seen(any_shell, process, tmp_path, work_dir=str(work))] == [True]
            assert [item.is_ours for item in seen(any_shell, process, tmp_path, work_dir="/elsewhere")] == [False]
        with (work / "alive").open("w") as lock, running(tmp_path, "mysqldump", pass_fds=[lock.fileno()]) as process:
            assert [item.is_ours for item in seen(any_shell, process, tmp_path, work_dir=str(work))] == [True]

    def test_wrapper_and_tool_are_one_process(self, any_shell: Shell, tmp_path: Path) -> None:
        inner = tmp_path / "xtrabackup"
        inner.write_text("#!/bin/sh\nread -r line\n")
        outer = tmp_path / "innobackupex"
        outer.write_text(f"#!/bin/sh\n{inner} --backup --target-dir=/b\nexit\n")
        for program in (inner, outer):
            program.chmod(0o755)
        with subprocess.Popen([outer, str(tmp_path)], stdin=subprocess.PIPE) as process:
            try:
                found = [item for item in ask(any_shell, tmp_path).backups if str(tmp_path) in item.command]
                assert [(item.pid, item.tool) for item in found] == [(process.pid, "innobackupex")]
            finally:
                process.communicate(b"\n", timeout=60)

    def test_restore_is_not_a_backup(self, any_shell: Shell, tmp_path: Path) -> None:
        with running(tmp_path, "mariadb-backup", "--prepare", f"--target-dir={tmp_path}") as process:
            assert seen(any_shell, process, tmp_path) == []

    def test_script_is_one_family_and_names_are_data(self, any_shell: Shell, tmp_path: Path) -> None:
        with running(tmp_path, "mydumper", "a\tb", "$(id)", "ü") as process:
            (found,) = seen(any_shell, process, tmp_path)
        assert found.family == found.parents[0]
        assert "$(id)" in found.command


class TestSchedules:
    @pytest.fixture
    def host(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The script, with a folder in the place of the directories that it looks into."""
        script = probe_host.SCRIPT
        for directory in ("/etc/cron", "/var/spool/cron", "/etc/systemd", "/usr/lib/systemd", "/etc/timezone"):
            script = script.replace(directory, f"{tmp_path}{directory}")
        monkeypatch.setattr(probe_host, "SCRIPT", script)
        for name in ("etc/cron.d", "var/spool/cron/crontabs", "etc/systemd/system"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "etc/timezone").write_text("Europe/Berlin\n")
        return tmp_path

    def test_found_schedules_name_their_tool(self, host: Path) -> None:
        script = host / "nightly.sh"
        script.write_text("#!/bin/sh\n# not xtrabackup\nmariadb-backup --backup --target-dir=/b\n")
        (host / "etc/crontab").write_text(
            "# 1 1 * * * root mysqldump old\nMAILTO=root\n"
            "0 2 * * *\troot\tmysqldump -psecret --all-databases | gzip > /b/x.gz\n"
            f"@daily backup {script} --quiet\n5 * * * * root run-parts /etc/cron.hourly\n"
        )
        (host / "var/spool/cron/crontabs/dba").write_text("CRON_TZ=UTC\n30 3 * * 1-5 mydumper -o /b\n")
        (host / "etc/systemd/system/full.service").write_text(
            "[Service]\nUser=mysql\nExecStart=/usr/bin/xtrabackup --backup\n"
        )
        (host / "etc/systemd/system/full.timer").write_text("[Timer]\nOnCalendar=*-*-* 04:00:00\n")
        (host / "etc/systemd/system/other.service").write_text("[Service]\nExecStart=/bin/true\n")
        (host / "etc/systemd/system/other.timer").write_text("[Timer]\nOnCalendar=hourly\n")
        found = ask(FakeShell(runs_here=True), host, inspect=Inspect.ALL).schedules or ()
        shown = [(item.kind, item.timing, item.time_zone, item.user, item.tool, item.method) for item in found]
        dump, physical, zone = BackupMethod.DUMP, BackupMethod.PHYSICAL, "Europe/Berlin"
        assert shown == [
            ("cron", "0 2 * * *", zone, "root", "mysqldump", dump),
            ("cron", "@daily", zone, "backup", "mariadb-backup", physical),
            ("cron", "30 3 * * 1-5", "UTC", "dba", "mydumper", dump),
            ("systemd", "*-*-* 04:00:00", zone, "mysql", "xtrabackup", physical),
        ]
        assert "secret" not in "".join(item.command for item in found)

    def test_schedules_are_searched_rarely(self, host: Path) -> None:
        (host / "etc/crontab").write_text("0 2 * * * root mysqldump shop\n")
        assert ask(FakeShell(runs_here=True), host).schedules is None

    def test_found_schedules_accept_a_truncated_record(self) -> None:
        assert found_schedules({"crontab./etc/crontab": "mysqldump\tnonsense", "timer./x": ""})[0].kind == "systemd"


class TestParts:
    @pytest.mark.parametrize(
        ("hexadecimal", "address"),
        [
            ("0100007F", "127.0.0.1"),
            ("00000000000000000000000001000000", "::1"),
            ("0000000000000000FFFF00000C00000A", "10.0.0.12"),
        ],
    )
    def test_addresses_of_proc_are_parsed(self, hexadecimal: str, address: str) -> None:
        assert address_of(hexadecimal) == address

    @pytest.mark.parametrize(
        ("text", "ours"),
        [("/w/rebuilds/u/x", True), ("--target-dir=/w/b", True), ("/w", True), ("/work", False), ("/w/../x", False)],
    )
    def test_work_directory_is_recognized(self, text: str, ours: bool) -> None:
        assert is_below("/w", [text]) is ours

    @pytest.mark.parametrize(
        ("client", "host"), [("10.0.0.9:4000", "10.0.0.9"), ("localhost", "localhost"), ("::1:4000", "::1")]
    )
    def test_clients_are_recognized(self, client: str, host: str) -> None:
        assert client_host(client) == host

    def test_backup_connection_survives_a_pause_between_statements(self) -> None:
        def row(number: int, info: str | None, seconds: int = 5) -> dict[str, Any]:
            return {"Id": number, "User": "root", "Host": "10.0.0.9:4000", "Time": seconds, "Info": info}

        dump = "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`"
        first = backup_connections([row(1, dump), row(2, "SELECT 1")], ["10.0.0.12"], NOW, ())
        assert [(item.number, item.is_local, item.since) for item in first] == [(1, False, NOW - timedelta(seconds=5))]
        later = NOW + timedelta(seconds=15)
        assert backup_connections([row(1, None), row(2, "SELECT 1")], [], later, first) == first
        assert backup_connections([row(1, dump, 1)], [], later, first)[0].since == first[0].since
        assert backup_connections([row(3, None)], [], later, first) == ()
