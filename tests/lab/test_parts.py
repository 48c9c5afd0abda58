"""The lab's parts that need no server."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from lab import checks, fleetfile, unpacked
from lab.cli import main
from lab.data import rows_per_table
from lab.errors import LabError
from lab.flavors import flavor_named
from lab.flavors.base import Account
from lab.flavors.mariadb import MariaDB
from lab.flavors.mysql import MySQL
from lab.hosts import write_script
from lab.lab import Lab
from lab.processes import children, end, is_gone, is_running, start_detached
from lab.secrets import USERS, read_or_make_accounts
from lab.settings import Settings, parse_size, read_marker, settings_of, write_marker
from lab.status import HostStatus, as_table

ACCOUNTS = {key: Account(user, f"secret-of-{key}") for key, user in USERS.items()}


@pytest.mark.parametrize(
    ("text", "size"), [("32M", 32 * 2**20), ("1G", 2**30), ("1.5GiB", 3 * 2**29), ("2048", 2048), ("10 kb", 10240)]
)
def test_parse_size_reads_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1G", "1X", "1 G B"])
def test_parse_size_refuses_invalid_text(text: str) -> None:
    with pytest.raises(LabError, match=re.escape(repr(text))):
        parse_size(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": "10.0.0"},
        {"network": "127.0.0.1"},
        {"network": "127.0.300"},
        {"name": "../x"},
        {"prefix": "A b"},
        {"first": 253, "replicas": 3},
        {"replicas": -1},
        {"size_bytes": 1000},
    ],
)
def test_settings_refuse_impossible_values(wrong: dict[str, object]) -> None:
    with pytest.raises(LabError):
        Settings(**wrong)  # type: ignore[arg-type]


def test_hosts_have_increasing_addresses_and_ids() -> None:
    lab = Lab(network="127.0.7", first=20, replicas=2, prefix="x-")
    assert [(host.name, host.role, host.address, host.server_id) for host in lab.hosts] == [
        ("x-primary-1", "primary", "127.0.7.20", 7020),
        ("x-backup-1", "backup", "127.0.7.21", 7021),
        ("x-replica-1", "replica", "127.0.7.22", 7022),
        ("x-replica-2", "replica", "127.0.7.23", 7023),
    ]
    assert lab.host("replica-2") is lab.host("x-replica-2")
    with pytest.raises(LabError, match="replica-3.*x-primary-1"):
        lab.host("replica-3")


def test_rows_are_distributed_among_tables() -> None:
    assert rows_per_table(Settings(size_bytes=2**30, tables=4)) * 4 * 268 == pytest.approx(2**30, rel=0.001)


def test_settings_survive_the_marker_file(tmp_path: Path) -> None:
    chosen = Settings(name="two", network="127.0.9", replicas=3, parallel_appliers=4)
    write_marker(tmp_path, chosen, built=True)
    marker = read_marker(tmp_path)
    assert marker is not None
    assert marker["built"] is True
    assert settings_of(marker) == chosen


def test_destroy_removes_only_a_lab(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(LabError, match=re.escape(str(tmp_path))):
        Lab(folder=tmp_path).destroy()
    (tmp_path / "lab.json").write_text('{"format": "something else"}')
    with pytest.raises(LabError, match="lab.json"):
        Lab(folder=tmp_path).destroy()
    assert (tmp_path / "precious").exists()


def test_up_refuses_a_folder_with_other_things(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(LabError, match=re.escape(str(tmp_path))):
        Lab(folder=tmp_path).up()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_up_refuses_other_settings_than_the_lab_was_built_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_marker(tmp_path, Settings(name="x", replicas=1), built=True)
    with pytest.raises(LabError, match=re.escape(str(tmp_path))):
        Lab("x", tmp_path, replicas=2).up()
    assert main(["up", "--folder", str(tmp_path), "--replicas", "2"]) == 1
    assert "replicas 1" in capsys.readouterr().err


def test_commands_fail_without_a_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["status"], ["down"], ["destroy"], ["load", "start"], ["break", "replica-1"]):
        assert main([*verb, "--folder", str(tmp_path / "none")]) == 1
        assert str(tmp_path / "none") in capsys.readouterr().err


def test_check_ports_names_the_listening_program() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.24.99", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LabError, match=rf"127\.0\.24\.99:{port} .*{os.getpid()} \("):
            checks.check_ports([("127.0.24.98", port), ("127.0.24.99", port)])
        checks.check_ports([("127.0.24.98", port)])


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_who_listens_finds_wildcard_listeners(family: socket.AddressFamily) -> None:
    with socket.socket(family) as taken:
        try:
            taken.bind(("", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        taken.listen()
        assert f"process {os.getpid()} " in checks.who_listens("127.0.24.99", taken.getsockname()[1])


def test_too_little_space_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--size"):
        checks.check_space(tmp_path / "not" / "yet", 2**60)
    checks.check_space(tmp_path, 1)


def test_check_reachable_refuses_a_closed_folder(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(LabError, match=f"{tmp_path}|closed"):
        checks.check_reachable(closed / "lab", "somebody-else")
    checks.check_reachable(closed / "lab", checks.current_user())


def test_missing_programs_are_named_with_packages() -> None:
    with pytest.raises(LabError, match=r"no-such-program.*nowhere"):
        checks.need_programs({"sh": "dash", "no-such-program": "nowhere"})


def test_end_kills_only_the_expected_program(tmp_path: Path) -> None:
    pid = start_detached(["sleep", "61"], tmp_path / "log")
    assert not end(pid, "something else", what="it")
    assert is_running(pid, "sleep 61")
    assert children(pid) == []
    assert end(pid, "sleep 61", what="it")
    assert is_gone(pid)
    assert not end(pid, "sleep 61", what="it")


def test_passwords_are_random_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    accounts = read_or_make_accounts(path)
    assert read_or_make_accounts(path) == accounts
    assert path.stat().st_mode & 0o777 == 0o600
    assert len({account.password for account in accounts.values()}) == len(USERS)


def make_host_keys(lab: Lab) -> None:
    for host in lab.hosts:
        host.folder.mkdir()
        host.sshd.host_key_file.with_name("ssh_host_ed25519_key.pub").write_text(f"ssh-ed25519 AAAA{host.name} comment")


def test_fleet_file_has_the_documented_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.hosts.server_user", lambda: "mysql")
    lab = Lab("shop", tmp_path)
    make_host_keys(lab)
    path = tmp_path / "fleet.yaml"
    fleetfile.write_fleet_file(path, fleetfile.fleet("shop", lab.hosts, ACCOUNTS, lab.ssh_key))
    assert path.stat().st_mode & 0o777 == 0o600
    content = yaml.safe_load(path.read_text())
    assert content["version"] == 1
    replica = content["hosts"][2]
    assert replica["ssh"]["host_key"] == "ssh-ed25519 AAAAreplica-1"
    assert replica["ssh"]["key_file"] == str(tmp_path / "id_ed25519")
    (cluster,) = content["clusters"]
    assert cluster["accounts"] == {
        "admin": {"user": "dbops", "password": "secret-of-admin"},
        "replication": {"user": "repl", "password": "secret-of-replication"},
        "backup": {"user": "backup", "password": "secret-of-backup"},
    }
    assert [instance["role"] for instance in cluster["instances"]] == ["primary", "backup", "replica"]
    assert cluster["instances"][2]["service"] == {
        "start": str(tmp_path / "replica-1" / "start"),
        "stop": str(tmp_path / "replica-1" / "stop"),
    }


def test_break_refuses_other_roles_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_marker(tmp_path, Settings(), built=True)
    for host in ("primary-1", "backup-1"):
        assert main(["break", host, "--folder", str(tmp_path)]) == 1
        assert "--force" in capsys.readouterr().err


def test_configurations_differ_by_flavor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.hosts.server_user", lambda: "mysql")
    plan = Lab(folder=tmp_path, parallel_appliers=4).host("replica-1").plan()
    mariadb = object.__new__(MariaDB).config(plan)
    mysql = object.__new__(MySQL).config(plan)
    for text in (mariadb, mysql):
        assert "server-id = 1013" in text
        assert "read-only = ON" in text
        assert "bind-address = 127.0.1.13" in text
    assert "gtid-strict-mode = ON" in mariadb
    assert "slave-parallel-threads = 4" in mariadb
    assert "gtid-mode = ON" in mysql
    assert "skip-replica-start = ON" in mysql
    assert "replica-parallel-workers = 4" in mysql


def test_old_mysql_gives_each_host_accounts_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.hosts.server_user", lambda: "mysql")
    lab = Lab(folder=tmp_path, replicas=2)
    make_host_keys(lab)
    content = fleetfile.fleet("demo", lab.hosts, ACCOUNTS, lab.ssh_key, own_accounts=True)
    [cluster] = content["clusters"]
    given = [entry["accounts"][key] for entry in cluster["instances"] for key in ("local", "backup")]
    assert [one["user"] for one in given[:2]] == ["dbops1", "backup1"]
    assert len({one["password"] for one in given}) == 2 * len(lab.hosts)


@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mysql-9.7"])
def test_flavor_named_refuses_a_missing_series(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (unpacked.MYSQL, unpacked.MYSQL_5_7, unpacked.MYSQL_8_0):
        monkeypatch.setenv(server.place_variable, str(tmp_path))
    with pytest.raises(LabError, match="script/test"):
        flavor_named(name)


def test_flavor_named_refuses_mysql_when_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if unpacked.installed_mysql():
        pytest.skip("MySQL is installed here")
    monkeypatch.setenv(unpacked.MYSQL.place_variable, str(tmp_path))
    with pytest.raises(LabError, match="MySQL.*script/test"):
        flavor_named("mysql")
    assert unpacked.why_no_mysql()


def test_flavor_named_refuses_a_missing_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(unpacked.MARIADB_11_8.place_variable, str(tmp_path))
    with pytest.raises(LabError, match=r"MariaDB 11\.8"):
        flavor_named("mariadb-11.8")


@pytest.mark.parametrize("server", [unpacked.MYSQL, unpacked.MYSQL_5_7, unpacked.MARIADB_11_8])
def test_programs_of_another_user_are_refused(
    server: unpacked.Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in server.paths.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setenv(server.place_variable, str(tmp_path))
    assert server.folder() == tmp_path
    monkeypatch.setattr(unpacked.os, "geteuid", lambda: 4242)
    if tmp_path.stat().st_uid == 0:
        shutil.chown(tmp_path, 4243)
    with pytest.raises(LabError, match=re.escape(str(tmp_path))):
        server.folder()


def test_status_text_names_problems() -> None:
    down = HostStatus("replica-1", "replica", "127.0.1.13", 2222, 3306, None, None, False, None, None, None, 0)
    mute = HostStatus("backup-1", "backup", "127.0.1.12", 2222, 3306, 7, 8, False, None, None, None, 0, "1045 no")
    text = as_table([down, mute], None, "")
    assert text.splitlines()[1].split() == ["replica-1", "127.0.1.13", "down", "down", "0", "MiB"]
    assert "pid 8" in text
    assert "backup-1: 1045 no" in text


def test_the_server_may_write_its_number_as_soon_as_it_runs(tmp_path: Path) -> None:
    server, admin, start = (tmp_path / name for name in ("server", "admin", "start"))
    pid_file = tmp_path / "server.pid"
    server.write_text(f"#!/bin/sh\nstat -c %U {pid_file} >{tmp_path}/owner\nsleep 5\n")
    admin.write_text(f"#!/bin/sh\ntest -s {tmp_path}/owner\n")
    chown = tmp_path / "chown"  # slow, like all of a busy machine
    chown.write_text('#!/bin/sh\nsleep 0.5\nexec /bin/chown "$@"\n')
    for program in (server, admin, chown):
        program.chmod(0o755)
    owner = checks.server_user()
    logs = {name: tmp_path / name for name in ("server_log", "error_log")}
    paths = {"server": server, "admin": admin, "config": "my.cnf", "socket": "s", "pid_file": pid_file, "owner": owner}
    write_script(start, Path(checks.__file__).parent / "scripts/start.sh", paths | logs)
    subprocess.run([start], check=True, timeout=60, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
    assert (tmp_path / "owner").read_text().strip() == owner


def test_lab_scripts_parse() -> None:
    for script in sorted((Path(checks.__file__).parent / "scripts").glob("*.sh")):
        subprocess.run(["sh", "-n", str(script)], check=True)
