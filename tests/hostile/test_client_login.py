"""An impostor on a server's socket asks the programs on the host, which root starts, for the password."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dbops.drivers.jobs import HostJobs
from dbops.drivers.probe_host import Inspect, read_host
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.optionfile import credentials_text
from dbops.engine.flavors.replication_login import replication_login
from dbops.engine.flavors.tool_options import script_arguments
from dbops.engine.hosts.jobs import IN_BASH
from dbops.engine.hosts.local_login import PLUGINS, Account, local_login
from dbops.engine.hosts.scripts import load
from lab.unpacked import MARIADB_11_8, MYSQL
from tests.fakes import FakeShell
from tests.hostile.fake_server import CACHING_SHA2, CLEAR, DIALOG, ED25519, NATIVE, OLD, SHA256, Demand, FakeServer

PASSWORD = "correct horse battery"
SECRET = "of-root-alone"
#: Of the client library, whose login plugins a hostile server's option file could name for the backup tool.
CLIENTS_PLUGINS = Path("/usr/lib/x86_64-linux-gnu/libmariadb3/plugin")
METHODS = (CLEAR, DIALOG, SHA256, CACHING_SHA2, OLD)
DEMANDS = (
    *(Demand(switches_to=method) for method in METHODS),
    Demand(greets_with=CLEAR),
    Demand(greets_with=CACHING_SHA2),
    Demand(legacy=True),
)
COMMANDS = {
    "mariadb": ("mariadb", "-e", "SELECT 1"),
    "mariadb-dump": ("mariadb-dump", "--all-databases"),
    "mariadb-backup": ("mariadb-backup", "--backup", "--stream=xbstream"),
}


@dataclass(frozen=True)
class Programs:
    """The programs of one version. ``folder``: where they are unpacked, empty for the installed ones."""

    version: str
    folder: Mapping[str, str]

    def command(self, name: str) -> list[str]:
        program, *words = COMMANDS[name]
        return [self.folder.get(program, program), *words]


@pytest.fixture(params=["10.11.19-MariaDB", "11.8.9-MariaDB"])
def programs(request: pytest.FixtureRequest) -> Programs:
    if request.param.startswith("10"):
        return Programs(request.param, {})
    if reason := MARIADB_11_8.why_not():
        pytest.skip(reason)
    folder = MARIADB_11_8.folder()
    assert folder
    return Programs(request.param, MARIADB_11_8.programs(folder))


def log_in(
    programs: Programs, name: str, server: FakeServer, folder: Path, own_options: str = "", further: str = ""
) -> None:
    """Start a program as a job does: with the option file of a run, in the run's directory, against the fake server.

    ``own_options``: of the server's option file, of which the backup tool gets a part. ``further``: lines for the run's file.
    """
    run = f"run-{len(list(folder.iterdir()))}"
    shell = FakeShell(runs_here=True)
    jobs = HostJobs(shell, work_dir=str(folder), instance_key="r1", run_id=run, token=1, dashboard="d1")
    flavor = flavor_for(programs.version)
    (folder / "my.cnf").write_text(own_options)
    with server.listening(str(folder / "s")) as listener:
        text = local_login(flavor, Account("backup", PASSWORD), jobs.run_directory, socket=listener.getsockname())
        script = f'{load("common", "tool_options")}\ncat >login.cnf; add_tool_options login.cnf "$1" "$2" "$3" "$4"; shift 4\n'
        script += 'program=$1; shift; timeout 20 "$program" --defaults-file="$PWD/login.cnf" "$@" >/dev/null; exit 0'
        words = [str(folder), *script_arguments(flavor, str(folder / "my.cnf")), *programs.command(name)]
        jobs.act(IN_BASH, script, *words, stdin=(text + further).encode(), timeout_seconds=30)
    (folder / "s").unlink()
    assert server.logins, "the program has to get as far as the server"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("tls", [False, True])
def test_password_stays_on_the_host_whatever_is_asked(
    programs: Programs, name: str, tls: bool, stolen_certificate: Path, tmp_path: Path
) -> None:
    for demand in DEMANDS:
        server = FakeServer(demand, stolen_certificate if tls else None)
        log_in(programs, name, server, tmp_path, f"[mysqld]\nplugin-dir={CLIENTS_PLUGINS}\n")
        assert not server.got(PASSWORD), demand


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("method", [NATIVE, ED25519])
def test_challenges_are_answered(
    programs: Programs, name: str, method: str, stolen_certificate: Path, tmp_path: Path
) -> None:
    """Accounts with these methods log in: the backup tool found no ``client_ed25519`` before."""
    server = FakeServer(Demand(switches_to=method), stolen_certificate)
    log_in(programs, name, server, tmp_path)
    assert len(server.answers[-1]) == {NATIVE: 20, ED25519: 64}[method]
    assert not server.got(PASSWORD)


def test_only_plugins_of_root_are_linked(tmp_path: Path) -> None:
    """The server names its plugin directory, and root would run its files."""
    own = tmp_path / "own"
    own.mkdir()
    own.chmod(0o777)
    (own / "client_ed25519.so").write_bytes((CLIENTS_PLUGINS / "client_ed25519.so").read_bytes())
    (tmp_path / "link").symlink_to(CLIENTS_PLUGINS)
    for folder, expected in (
        (own, []),
        (CLIENTS_PLUGINS, ["client_ed25519.so"]),
        (tmp_path / "link", ["client_ed25519.so"]),
    ):
        into = tmp_path / f"from {folder.name}"
        script = f'{load("exchangeable", "login_plugins")}\nlink_plugins "$@"'
        subprocess.run(["sh", "-c", script, "dbops", into, folder], check=True)
        links = sorted(into.iterdir())
        assert [path.name for path in links] == expected
        assert all(path.readlink() == CLIENTS_PLUGINS / path.name for path in links)


@pytest.mark.skipif(bool(MYSQL.why_not()), reason=MYSQL.why_not())
@pytest.mark.parametrize(("method", "reveals"), [(CLEAR, False), (DIALOG, False), (CACHING_SHA2, True)])
def test_mysql_s_client_reveals_what_dbops_withholds(method: str, reveals: bool, tmp_path: Path) -> None:
    """An option that forbids the last one would make ``credentials.shared`` needless."""
    server, socket = FakeServer(Demand(switches_to=method)), str(tmp_path / "s")
    file = tmp_path / "login.cnf"
    file.touch(0o600)
    file.write_text(local_login(flavor_for("9.7.4"), Account("own", PASSWORD), str(tmp_path), socket=socket))
    with server.listening(socket):
        command = [f"{MYSQL.folder()}/usr/bin/mysql", f"--defaults-file={file}", "-e", "SELECT 1"]
        subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert server.logins
    assert server.got(PASSWORD) is reveals


@pytest.mark.skipif(bool(MYSQL.why_not()), reason=MYSQL.why_not())
def test_mysql_s_client_answers_the_challenge_of_5_7(tmp_path: Path) -> None:
    """MySQL 9 has that login as a file beside its programs; these are not where a package installs them."""
    place = f"{MYSQL.folder()}/usr/bin"
    script = f'{load("exchangeable", "login_plugins")}\nlink_installed_plugins "$1"'
    subprocess.run(
        ["sh", "-c", script, "dbops", tmp_path / PLUGINS], env={"PATH": f"{place}:/usr/bin:/bin"}, check=True
    )
    server, socket, file = FakeServer(Demand(switches_to=NATIVE)), str(tmp_path / "s"), tmp_path / "login.cnf"
    file.touch(0o600)
    file.write_text(local_login(flavor_for("5.7.22"), Account("own", PASSWORD), str(tmp_path), socket=socket))
    with server.listening(socket):
        command = [f"{place}/mysql", f"--defaults-file={file}", "-e", "SELECT 1"]
        subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert len(server.answers[-1]) == 20
    assert not server.got(PASSWORD)


@pytest.mark.parametrize("method", [CLEAR, DIALOG, CACHING_SHA2])
def test_probe_keeps_the_password(method: str, stolen_certificate: Path, tmp_path: Path) -> None:
    server, flavor = FakeServer(Demand(switches_to=method), stolen_certificate), flavor_for("10.11.19-MariaDB")
    with server.listening(str(tmp_path / "s")):
        found = read_host(
            FakeShell(runs_here=True),
            datadir=str(tmp_path),
            defaults_file="",
            inspect=Inspect.CHEAP,
            socket=str(tmp_path / "s"),
            credentials=credentials_text(flavor.credential_groups, "backup", PASSWORD, plugin_dir=PLUGINS),
            statements=["SELECT 1"],
        )
    assert server.logins
    assert found.statements[0].error
    assert not server.got(PASSWORD)


@pytest.mark.parametrize("method", [CLEAR, DIALOG, CACHING_SHA2])
def test_trial_of_the_replication_account_keeps_the_password(method: str, tmp_path: Path) -> None:
    """The target's server names the plugin directory: here that of the client library."""
    server, flavor = FakeServer(Demand(switches_to=method)), flavor_for("10.11.19-MariaDB")
    text = replication_login(flavor, "repl", PASSWORD, {}, plugin_dir=f"{tmp_path}/server_plugins")
    with server.listening(("127.0.0.1", 0)) as listener:
        words = ["mariadb", "127.0.0.1", str(listener.getsockname()[1]), str(CLIENTS_PLUGINS)]
        script = load("exchangeable", "login_plugins", "check_donor_login")
        done = subprocess.run(
            ["bash", "-c", script, "dbops", *words], input=text, text=True, check=False, cwd=tmp_path, timeout=30
        )
    assert server.logins
    assert done.returncode
    assert not server.got(PASSWORD)


@pytest.mark.parametrize("asks", [False, True])
def test_program_on_a_host_sends_no_file(
    programs: Programs, asks: bool, stolen_certificate: Path, tmp_path: Path
) -> None:
    """A server can ask for a file of the client in answer to any statement. With another option it arrives: the control."""
    (tmp_path / "secret").write_text(SECRET)
    server = FakeServer(Demand(wants_file=str(tmp_path / "secret")), stolen_certificate)
    (tmp_path / "work").mkdir()
    log_in(programs, "mariadb", server, tmp_path / "work", further="[mysql]\nlocal-infile=1\n" if asks else "")
    assert server.got(SECRET) is asks
