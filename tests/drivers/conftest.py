"""A real sshd and a real server, each started once, on loopback addresses of their own; and where the tests of jobs take place."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from dbops.drivers.gate import Gate
from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.hosts.host_keys import HostKey, parse_host_key
from dbops.engine.ports import Shell
from dbops.security.gate_key import gate_key
from dbops.security.keys import make_signing_key
from tests.drivers.worlds import Maker, end_sessions, make_real
from tests.fakes import FakeHost, FakeJobs, FakeShell, ended, running
from tests.networks import free_network
from tests.run_folder import new_folder

ADDRESS = f"{free_network()}.11"
SSH_PORT = 2222
MYSQL_PORT = 33061
PASSWORD = "monitor's \\ password"
BACKUP_PASSWORD = 'bk"p\\x #1'


@dataclass(frozen=True)
class Sshd:
    folder: Path
    address: SshAddress

    def host_key(self, kind: str) -> HostKey:
        return parse_host_key((self.folder / f"host_{kind}.pub").read_text())

    def pinned(self, kind: str = "ed25519") -> SshAddress:
        return replace(self.address, host_key=self.host_key(kind).line)

    def with_sudo(self) -> SshAddress:
        """Return the address of an account that may run any command through sudo."""
        pinned = self.pinned()
        return replace(pinned, gate=Gate(pinned.host_key, gate_key(make_signing_key())))


@dataclass(frozen=True)
class Server:
    datadir: Path
    defaults_file: Path
    address: MysqlAddress
    pid: int


def keygen(path: Path, kind: str = "ed25519", *options: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *options, "-N", "", "-C", "test", "-f", path], check=True)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((ADDRESS, port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {ADDRESS}:{port}")


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Below /var/tmp: socket paths stay short, and pytest's own directories are closed to other users."""
    path = new_folder("drivers")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def sshd(folder: Path) -> Iterator[Sshd]:
    ssh = folder / "ssh"
    ssh.mkdir(mode=0o700)
    for kind in ("ed25519", "rsa", "ecdsa"):
        keygen(ssh / f"host_{kind}", kind)
    for name in ("user", "csh_user", "stranger"):
        keygen(ssh / name)
    # where this machine's sudo is, or is missing, does not matter: this one allows all until the file `forbid` is there
    (ssh / "bin").mkdir()
    (ssh / "bin" / "sudo").write_text(
        f"#!/bin/sh\n[ ! -e {ssh}/forbid ] || {{ echo 'sudo: a password is required' >&2; exit 1; }}\n"
        '[ "$1 $2" = "-n --" ] || exit 2\nshift 2\nenv -i PATH="$PATH" UNDER_SUDO=1 "$@"\nexit $?\n'
    )
    (ssh / "bin" / "sudo").chmod(0o755)
    # as sshd calls a login shell: `tcsh -c COMMAND`
    in_csh = f'command="exec tcsh -c \\"$SSH_ORIGINAL_COMMAND\\"" {(ssh / "csh_user.pub").read_text()}'
    (ssh / "authorized_keys").write_text((ssh / "user.pub").read_text() + in_csh)
    (ssh / "sshd_config").write_text(
        "".join(f"HostKey {ssh}/host_{kind}\n" for kind in ("ed25519", "rsa", "ecdsa"))
        + f"ListenAddress {ADDRESS}\nPort {SSH_PORT}\nAuthorizedKeysFile {ssh}/authorized_keys\nPidFile none\n"
        f"SetEnv PATH={ssh}/bin:/usr/local/bin:/usr/bin:/bin SHLVL=2\n"  # no ~/.bashrc: the host is not this machine
        "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxStartups 100\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "/usr/sbin/sshd"
    with (ssh / "log").open("w") as log:
        process = subprocess.Popen(
            [program, "-D", "-e", "-f", ssh / "sshd_config"], stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        wait_for_port(SSH_PORT)
        yield Sshd(ssh, SshAddress(ADDRESS, SSH_PORT, getpass.getuser(), (ssh / "user").read_text()))
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def csh_shell(sshd: Sshd) -> Iterator[SshShell]:
    """A user whose login shell is tcsh."""
    shell = SshShell(replace(sshd.pinned(), private_key=(sshd.folder / "csh_user").read_text()))
    yield shell
    shell.close()


@pytest.fixture
def shell(sshd: Sshd) -> Iterator[SshShell]:
    shell = SshShell(sshd.pinned())
    yield shell
    shell.close()


def certificate(folder: Path) -> dict[str, Path]:
    """Make a certificate that vouches for itself, as servers do when they are set up."""
    paths = {"cert": folder / "server.pem", "key": folder / "server.key"}
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(ADDRESS))]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    paths["cert"].write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    paths["key"].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


@pytest.fixture(scope="session")
def server(folder: Path) -> Iterator[Server]:
    datadir, config, socket_path = folder / "data", folder / "my.cnf", folder / "s.sock"
    user, tmpdir = f"--user={getpass.getuser()}", folder / "tmp"
    tmpdir.mkdir()
    subprocess.run(
        [
            "mariadb-install-db",
            "--no-defaults",
            user,
            f"--datadir={datadir}",
            f"--tmpdir={tmpdir}",
            "--auth-root-authentication-method=normal",
        ],
        check=True,
        capture_output=True,
    )
    config.write_text(
        f"[mysqld]\ndatadir={datadir}\ntmpdir={tmpdir}\nsocket={socket_path}\nport={MYSQL_PORT}\nbind-address={ADDRESS}\n"
        "server-id=31\nlog-bin=binlog\nloose-read-only=0\nskip-name-resolve\ninnodb-buffer-pool-size=32M\n"
    )
    config.write_text(
        config.read_text() + "".join(f"ssl-{name}={path}\n" for name, path in certificate(folder).items())
    )
    accounts = (
        f"GRANT ALL ON *.* TO monitor@'%' IDENTIFIED BY '{_sql(PASSWORD)}' WITH GRANT OPTION;\n"
        "GRANT SELECT ON *.* TO plain@'%' IDENTIFIED BY 'plain';\n"
        "GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* TO"
        f" backup@localhost IDENTIFIED BY '{_sql(BACKUP_PASSWORD)}';\n"
        "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES;\n"
    )
    program = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin") or "mariadbd"
    with (folder / "server.log").open("w") as log:
        command = [program, f"--defaults-file={config}", user]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for_port(MYSQL_PORT)
        client = ["mariadb", "--no-defaults", f"--socket={socket_path}", "--user=root"]
        subprocess.run(client, input=accounts, text=True, check=True)
        yield Server(datadir, config, MysqlAddress(ADDRESS, MYSQL_PORT, "monitor", PASSWORD), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture
def database(server: Server) -> Iterator[MysqlDatabase]:
    database = MysqlDatabase(server.address)
    yield database
    database.close()


def chosen_shell(request: pytest.FixtureRequest) -> Shell:
    names = {"ssh": "shell", "csh": "csh_shell"}
    shell: Shell = (
        request.getfixturevalue(names[request.param]) if request.param in names else FakeShell(runs_here=True)
    )
    return shell


@pytest.fixture(params=["here", pytest.param("ssh", marks=pytest.mark.services)])
def shell_of_host(request: pytest.FixtureRequest) -> Shell:
    return chosen_shell(request)


@pytest.fixture
def make(shell_of_host: Shell, tmp_path: Path) -> Iterator[Maker]:
    yield make_real(shell_of_host, tmp_path)
    end_sessions(tmp_path)


@pytest.fixture(params=["fake", "here", pytest.param("ssh", marks=pytest.mark.services)])
def make_any(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maker]:
    if request.param == "fake":
        host = FakeHost()

        def make(token: int = 1, run_id: str = "run-1", dashboard: str = "dashboard-1") -> FakeJobs:
            jobs = FakeJobs(host, token=token, run_id=run_id, dashboard=dashboard)
            jobs.play("long.*", running())
            jobs.play("fails", running(), ended(3))
            return jobs

        yield make
    else:
        shell = FakeShell(runs_here=True) if request.param == "here" else request.getfixturevalue("shell")
        yield make_real(shell, tmp_path)
        end_sessions(tmp_path)


def _sql(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")
