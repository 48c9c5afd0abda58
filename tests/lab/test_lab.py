"""A real lab: its servers, sshds, replication and faults."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest
import yaml

from lab import Lab, LabError
from lab.breaking import power_off, power_on
from lab.checks import server_user
from lab.cli import main
from lab.data import rows_per_table
from lab.hosts import LabHost
from lab.processes import command_line, working_for
from lab.pytest_plugin import start_lab
from lab.status import HostStatus
from tests.networks import free_network
from tests.run_folder import new_folder
from tests.said import names

pytestmark = pytest.mark.services
NETWORK = free_network()
SECOND_NETWORK = free_network()


@pytest.fixture(scope="module")
def parent() -> Iterator[Path]:
    folder = new_folder("lab")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def lab(parent: Path) -> Iterator[Lab]:
    with start_lab(parent / "one", NETWORK, replicas=2, parallel_appliers=2) as running:
        yield running


def eventually(what: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.1)
    return False


def status_of(lab: Lab, name: str) -> HostStatus:
    return next(row for row in lab.status() if row.name == lab.host(name).name)


def ssh(lab: Lab, host: LabHost, command: str) -> str:
    known = lab.folder / "known_hosts"
    known.write_text(f"[{host.address}]:{host.ssh_port} {host.sshd.host_key}\n")
    options = ["-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    port = ["-F", "/dev/null", "-i", str(lab.ssh_key), "-p", str(host.ssh_port)]
    done = subprocess.run(["ssh", *options, *port, host.address, command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def replicates(lab: Lab, name: str) -> bool:
    row = status_of(lab, name)
    return row.replication is not None and row.replication.works


def count(lab: Lab, host: str, statement: str) -> int:
    with lab.connect(host) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
    return int(next(iter((row or {}).values())))


def test_lab_hosts_run_and_replicate(lab: Lab) -> None:
    rows = {row.name: row for row in lab.status()}
    assert list(rows) == ["primary-1", "backup-1", "replica-1", "replica-2"]
    assert all(row.sshd_pid and row.server_pid and row.answers for row in rows.values())
    assert [row.read_only for row in rows.values()] == [False, True, True, True]
    assert rows["primary-1"].replication is None
    for name in ("backup-1", "replica-1", "replica-2"):
        replication = rows[name].replication
        assert replication is not None
        assert replication.works
        assert replication.source == f"{NETWORK}.11:3306"
    assert len({row.gtid for row in rows.values()}) == 1
    assert rows["primary-1"].gtid


def test_lab_data_has_the_requested_size(lab: Lab) -> None:
    tables = sum(path.stat().st_size for path in (lab.primary.data_dir / "sbtest").glob("*.ibd"))
    # small tables are twice as large as their rows: files grow by 4 MiB
    assert 0.7 < tables / lab.settings.size_bytes < 2.2


def test_lab_replicates_a_write_everywhere(lab: Lab) -> None:
    with lab.connect("primary-1", database="sbtest") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE note (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO note VALUES (42)")
    query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='sbtest' AND table_name='note'"
    assert all(eventually(lambda name=name: count(lab, name, query) == 1) for name in ("backup-1", "replica-2"))


def test_lab_hosts_have_their_own_servers(lab: Lab) -> None:
    ids = {count(lab, host.name, "SELECT @@server_id") for host in lab.hosts}
    assert ids == {host.server_id for host in lab.hosts}
    assert len(ids) == len(lab.hosts)
    assert {count(lab, host.name, "SELECT @@innodb_log_file_size") for host in lab.hosts} == {lab.settings.redo_bytes}
    for host in lab.hosts:
        pid = host.server_pid()
        assert Path(f"/proc/{pid}").owner() == server_user()
        assert Path(f"/proc/{pid}/cwd").resolve() == host.data_dir


def test_lab_accounts_of_the_fleet_file_work(lab: Lab) -> None:
    content = yaml.safe_load(lab.fleet_yaml.read_text())
    accounts = content["clusters"][0]["accounts"]
    for host in lab.hosts:
        for key in ("admin", "backup"):
            connection = pymysql.connect(host=host.address, port=host.port, **accounts[key])
            connection.close()


WHERE_ARE_THEY = "command -v mariadbd mariadb-backup mbstream"


def test_lab_backup_account_satisfies_the_backup_tool(lab: Lab) -> None:
    host, account = lab.host("backup-1"), lab.accounts["backup"]
    options = f"[client]\nuser={account.user}\npassword={account.password}\nsocket={host.socket}\n"
    option_file = lab.folder / "backup.cnf"
    option_file.write_text(options)
    target = Path(tempfile.mkdtemp(dir=lab.folder))
    tool = ["mariadb-backup", f"--defaults-extra-file={option_file}", "--backup", "--slave-info"]
    done = subprocess.run(
        [*tool, f"--datadir={host.data_dir}", f"--target-dir={target}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.rstrip().endswith("completed OK!")
    assert "gtid_slave_pos" in (target / "xtrabackup_slave_info").read_text()


def test_lab_ssh_reaches_each_host_with_its_key(lab: Lab) -> None:
    assert len({host.sshd.host_key for host in lab.hosts}) == len(lab.hosts)
    for host in lab.hosts:
        assert ssh(lab, host, "echo $SSH_CONNECTION").split()[2] == host.address
    assert ssh(lab, lab.primary, WHERE_ARE_THEY).count("\n") == 3


def test_lab_start_and_stop_by_ssh_return_at_once(lab: Lab) -> None:
    host = lab.host("replica-1")
    began = time.monotonic()
    ssh(lab, host, str(host.stop_script))
    assert host.server_pid() is None
    assert "not running" in ssh(lab, host, str(host.stop_script))
    # a lock that the caller holds must be free again when the server runs on
    ssh(lab, host, f"exec 7>{lab.folder}/lock && flock 7 && {host.start_script}")
    subprocess.run(["flock", "-n", f"{lab.folder}/lock", "true"], check=True)
    assert "already running" in ssh(lab, host, str(host.start_script))
    assert time.monotonic() - began < 60
    assert eventually(lambda: replicates(lab, "replica-1"))


def test_lab_server_survives_its_sshd(lab: Lab) -> None:
    host = lab.host("replica-2")
    ssh(lab, host, f"{host.stop_script} && {host.start_script}")
    pid = host.server_pid()
    host.sshd.stop()
    assert status_of(lab, "replica-2").sshd_pid is None
    assert host.server_pid() == pid
    host.sshd.start()


def test_lab_data_directory_can_be_replaced(lab: Lab) -> None:
    host = lab.host("replica-1")
    host.stop_server()
    aside = host.data_dir.with_name("data.aside")
    host.data_dir.rename(aside)
    with pytest.raises(LabError, match="replica-1"):
        host.start_server()
    shutil.copytree(aside, host.data_dir)
    for folder, _, files in os.walk(host.data_dir):
        for name in ("", *files):
            shutil.chown(Path(folder) / name, server_user())
    host.start_server()
    assert eventually(lambda: replicates(lab, "replica-1"))
    shutil.rmtree(aside)


def test_lab_load_writes_steadily_and_survives_a_restart(lab: Lab) -> None:
    def written() -> int:
        return int((status_of(lab, "primary-1").gtid or "0-0-0").rpartition("-")[2])

    before = written()
    lab.load_start(tps=50, threads=2)
    with pytest.raises(LabError):
        lab.load_start()
    try:
        assert eventually(lambda: written() > before + 50)
        lab.primary.stop_server()
        lab.primary.start_server()
        after = written()
        assert eventually(lambda: written() > after + 50)
    finally:
        assert lab.load_stop()
    assert not lab.load_stop()
    assert eventually(lambda: status_of(lab, "replica-1").gtid == status_of(lab, "primary-1").gtid)


def test_break_stop_kills_the_server_and_up_starts_it_again(lab: Lab) -> None:
    lab.break_host("replica-2", "stop")
    row = status_of(lab, "replica-2")
    assert row.server_pid is None
    assert row.sshd_pid
    assert row.data_bytes > lab.settings.size_bytes // 2
    lab.up()
    assert eventually(lambda: replicates(lab, "replica-2"))


def test_power_off_ends_processes_of_one_host_only(lab: Lab) -> None:
    host, other = lab.host("replica-1"), lab.host("replica-2")
    detached = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"
    on_host, elsewhere = int(ssh(lab, host, detached)), int(ssh(lab, other, detached))
    try:
        assert "power off" in power_off(host)
        assert [pid for pid in (on_host, elsewhere) if command_line(pid)] == [elsewhere]
        assert (host.server_pid(), host.sshd.pid(), working_for(host.folder)) == (None, None, [])
        assert other.server_pid() is not None
        power_on(host)
        assert eventually(lambda: replicates(lab, "replica-1"))
        assert ssh(lab, host, "echo up") == "up\n"
    finally:
        os.kill(elsewhere, signal.SIGKILL)


def test_program_of_a_host_precedes_the_machine(lab: Lab) -> None:
    host = lab.host("replica-1")
    program = host.sshd.programs / "hostname"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho another\n")
    program.chmod(0o755)
    try:
        assert ssh(lab, host, "hostname") == "another\n"
        assert ssh(lab, lab.host("replica-2"), "hostname") != "another\n"
    finally:
        shutil.rmtree(program.parent)


def test_down_ends_everything_and_up_resumes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = lab.fleet_yaml.read_text()
    lab.load_start(tps=10)
    folder = ["--folder", str(lab.folder)]
    assert main(["down", *folder]) == 0
    assert all(row.sshd_pid is None and row.server_pid is None for row in lab.status())
    assert processes_of(lab) == []
    assert main(["up", "--json", *folder]) == 0
    shown = json.loads(capsys.readouterr().out.partition("down\n")[2])
    assert shown["fleet_file"] == str(lab.fleet_yaml)
    assert all(host["answers"] for host in shown["hosts"])
    assert shown["load_pid"] is None
    assert lab.fleet_yaml.read_text() == fleet
    assert main(["status", *folder]) == 0
    assert f"from {NETWORK}.11:3306" in capsys.readouterr().out


def processes_of(lab: Lab) -> list[str]:
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [line for number in numbers if str(lab.folder) in (line := command_line(number))]


def test_lab_is_refused_when_ports_are_taken(lab: Lab, parent: Path) -> None:
    other = Lab("other", parent / "other", NETWORK, size="32M")
    with pytest.raises(LabError, match=rf"{NETWORK}\.11:2222 is in use by \D*{lab.primary.sshd.pid()}\b"):
        other.up()
    assert not other.folder.exists()


def test_labs_run_side_by_side(lab: Lab, parent: Path) -> None:
    with start_lab(parent / "two", SECOND_NETWORK, name="two", prefix="two-", backups=0) as second:
        assert [row.name for row in second.status()] == ["two-primary-1", "two-replica-1"]
        assert replicates(second, "replica-1")
        assert replicates(lab, "replica-1")
        second.break_host("primary-1", "stop", force=True)
        assert status_of(lab, "primary-1").answers
        folder = second.folder
    assert not folder.exists()
    assert processes_of(second) == []
    assert status_of(lab, "primary-1").answers


def test_break_corrupt_leaves_a_server_that_does_not_start(lab: Lab) -> None:
    lab.break_host("replica-1", "corrupt")
    host = lab.host("replica-1")
    with pytest.raises(LabError, match="replica-1"):
        host.start_server()
    assert host.server_pid() is None


def test_break_wipe_leaves_an_empty_data_directory(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["break", "replica-2", "--folder", str(lab.folder)]) == 0
    host = lab.host("replica-2")
    assert host.data_dir.is_dir()
    assert list(host.data_dir.iterdir()) == []
    lab.down()
    assert main(["up", "--folder", str(lab.folder)]) == 0  # the broken ones stay down, the others come back
    found = capsys.readouterr()
    assert names(found.err, "replica-2")
    assert status_of(lab, "replica-2").server_pid is None
    assert replicates(lab, "backup-1")


def test_lab_copies_its_data_when_a_lab_of_the_same_kind_was_filled(parent: Path) -> None:
    first, second = list[str](), list[str]()
    for said, name in ((first, "filled"), (second, "copied")):
        made = Lab(
            name, parent / name, SECOND_NETWORK, size="8M", backups=0, templates=parent / "templates", say=said.append
        )
        made.up()
        try:
            with made.connect("replica-1") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) AS n FROM sbtest.sbtest1")
                assert cursor.fetchone() == {"n": rows_per_table(made.settings)}
        finally:
            made.destroy()
    assert any("filling" in text for text in first)
    assert not any("filling" in text for text in second)
