"""Hosts that their certificate proves: real sshds with host certificates, at each connection of dbops and of one host to another."""

import getpass
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_jumps import fetch_host_certificate
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.errors import NoAccess
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.engine.hosts.ssh import known_host, ssh_command
from dbops.loaders.host_authorities import CertificateProof
from dbops.loaders.ssh_addresses import JUMPS
from dbops.models import ConnectionTest, Host, Instance, InstanceState
from dbops.operations.host_certificates import read_host_certificate
from dbops.worker.connection_tests.runner import run_test
from dbops.worker.prober import probe_all
from tests.app.factories import make_cluster, make_host, make_instance
from tests.drivers.conftest import ADDRESS, keygen, wait_for_port
from tests.drivers.jump_hosts import PROGRAM

pytestmark = pytest.mark.services
NAME = "db-1.example"
KINDS = ("ed25519", "ecdsa", "rsa")
SINCE, UNTIL = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)
SPAN = f"{SINCE:%Y%m%d%H%M%S}Z:{UNTIL:%Y%m%d%H%M%S}Z"


def line(file: Path) -> str:
    return " ".join(file.read_text().split()[:2])


@dataclass
class CertifiedHost:
    """One sshd with a certificate of its key, and every key that it ever had."""

    folder: Path
    port: int
    key: Path = field(init=False)
    process: "subprocess.Popen[bytes] | None" = None

    def rekey(self, kind: str = "ed25519") -> None:
        """Get a new key without a certificate."""
        self.key = self.folder / f"host-{len(list(self.folder.glob('host-*.pub')))}"
        keygen(self.key, kind)

    def sign(self, *options: str, name: str = NAME, ca: str = "ca", kind: str = "-h") -> None:
        words = ["ssh-keygen", "-q", "-s", self.folder.parent / ca, "-I", "x", *([kind] if kind else [])]
        options = options or ("-V", "+1h")
        subprocess.run([*words, "-n", name, *options, f"{self.key}.pub"], check=True, capture_output=True)

    def start(self) -> None:
        self.stop()
        certificate = Path(f"{self.key}-cert.pub")
        lines = [f"HostKey {self.key}", f"ListenAddress {ADDRESS}", f"Port {self.port}", "PidFile none", "UsePAM no"]
        lines += ["StrictModes no", f"AuthorizedKeysFile {self.folder}/user.pub", "PasswordAuthentication no"]
        lines += [f"HostCertificate {certificate}"] if certificate.exists() else []
        (self.folder / "config").write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("a") as log:
            words = [PROGRAM, "-D", "-e", "-f", self.folder / "config"]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
        wait_for_port(self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def address(self, authorities: HostAuthorities | None, *, name: str = NAME) -> SshAddress:
        """Return the address with the present key pinned, and the certificate as proof if there are CAs."""
        key = (self.folder / "user").read_text()
        proof = CertificateProof(Host(certificate_name=name), authorities) if authorities else None
        return SshAddress(ADDRESS, self.port, getpass.getuser(), key, line(Path(f"{self.key}.pub")), proof=proof)


@pytest.fixture
def cas(tmp_path: Path) -> HostAuthorities:
    for name in ("old_ca", "ca", "stranger"):
        keygen(tmp_path / name)
    return HostAuthorities((line(tmp_path / "old_ca.pub"), line(tmp_path / "ca.pub")))


def made(folder: Path, port: int) -> CertifiedHost:
    folder.mkdir(mode=0o700)
    keygen(folder / "user")
    found = CertifiedHost(folder, port)
    found.rekey()
    return found


@pytest.fixture
def host(tmp_path: Path, cas: HostAuthorities) -> Iterator[CertifiedHost]:
    found = made(tmp_path / "host", 2251)
    yield found
    found.stop()


@pytest.fixture
def jump(tmp_path: Path, cas: HostAuthorities) -> Iterator[CertifiedHost]:
    found = made(tmp_path / "jump", 2252)
    yield found
    found.stop()


def answer(address: SshAddress) -> str:
    shell = SshShell(address)
    try:
        return shell.run("echo in").stdout
    except NoAccess as error:
        return error.code
    finally:
        shell.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_key_is_accepted_by_its_certificate_alone(host: CertifiedHost, cas: HostAuthorities, kind: str) -> None:
    host.sign(ca="old_ca")
    host.start()
    address, pinned = host.address(cas), host.address(None)
    assert (answer(address), answer(pinned)) == ("in\n", "in\n")
    host.rekey(kind)
    host.sign()
    host.start()
    assert (answer(address), answer(pinned)) == ("in\n", "ssh.host_key_changed")


class TestEnds:
    """What connections saw of certificates, also of jump hosts, without one more connection."""

    @pytest.fixture
    def way(self, host: CertifiedHost, jump: CertifiedHost, cas: HostAuthorities, settings: Any) -> Instance:
        """Return an instance behind a jump host, both proven by certificates. Nothing answers as its server."""
        file = host.folder.parent / "cas"
        file.write_text("\n".join(cas.keys))
        settings.SSH_HOST_CA_FILE = str(file)
        before: Host | None = None
        for name, one, span in (("jump", jump, SPAN), (NAME, host, "20200102030405Z:forever")):
            one.sign("-V", span, name=name)
            one.start()
            address = one.address(None)
            before = make_host(
                name.partition(".")[0],
                ssh_address=ADDRESS,
                ssh_port=one.port,
                ssh_user=address.user,
                ssh_private_key=address.private_key,
                host_key=address.host_key,
                certificate_name=name,
                jump_host=before,
                work_dir=str(one.folder),
            )
        return make_instance("shop-1", cluster=make_cluster(), host=before, address=ADDRESS, port=1)

    @staticmethod
    def known() -> dict[str, tuple[datetime | None, datetime | None]]:
        rows = Host.objects.values_list("name", "certificate_since", "certificate_until")
        return {name: (since, until) for name, since, until in rows}

    @staticmethod
    def probe() -> str:
        """Probe the instance; return the problem of its host."""
        instance = Instance.objects.select_related(f"host__{JUMPS}", "cluster", "state").get(name="shop-1")
        assert probe_all([instance]) == 1
        facts = InstanceState.objects.get().facts()
        assert facts is not None
        return facts.host_problem.code if facts.host_problem else ""

    @pytest.mark.django_db
    def test_a_probe_notes_them_of_the_host_and_of_the_jump_host(self, way: Instance, jump: CertifiedHost) -> None:
        InstanceState.objects.create(instance=way, probe_due_at=SINCE)
        assert self.probe() == ""
        logins = (jump.folder / "log").read_text().count("Accepted publickey")
        assert self.known() == {"db-1": (SINCE, None), "jump": (SINCE, UNTIL)}
        with CaptureQueriesContext(connection) as queries:
            assert self.probe() == ""
        assert [one["sql"] for one in queries if 'UPDATE "dbops_host"' in one["sql"]] == [], "they are known"
        assert (jump.folder / "log").read_text().count("Accepted publickey") == 2 * logins
        jump.sign("-V", "-2h:-1h", name="jump")
        jump.start()
        assert self.probe() == "ssh.host_not_proven"
        assert self.known()["jump"] == (SINCE, UNTIL), "its end stays known"
        jump.sign("-V", f"20200102030405Z:{UNTIL + timedelta(days=1):%Y%m%d%H%M%S}Z", name="jump")
        jump.start()
        assert self.probe() == ""
        assert self.known()["jump"] == (SINCE, UNTIL + timedelta(days=1))

    @pytest.mark.django_db
    def test_a_dead_host_does_not_hide_that_of_its_jump_host(self, way: Instance, host: CertifiedHost) -> None:
        InstanceState.objects.create(instance=way, probe_due_at=SINCE)
        host.stop()
        assert self.probe() == "ssh.unreachable"
        assert self.known() == {"db-1": (None, None), "jump": (SINCE, UNTIL)}

    @pytest.mark.django_db
    def test_a_connection_test_names_and_notes_them(self, way: Instance, jump: CertifiedHost) -> None:
        ca, user = jump.folder.parent / "ca", jump.folder / "user"
        words = ["ssh-keygen", "-q", "-s", ca, "-I", "login", "-n", getpass.getuser(), "-V", SPAN]
        subprocess.run([*words, f"{user}.pub"], check=True, capture_output=True)
        Path(f"{user}.pub").write_text(f"cert-authority {line(Path(f'{ca}.pub'))}\n")
        Host.objects.filter(name="jump").update(ssh_private_key="", ssh_key_file=str(user))
        kind, status = ConnectionTest.Kinds.SSH, ConnectionTest.Statuses.QUEUED
        row = ConnectionTest.objects.create(kind=kind, status=status, host=way.host, requested_at=SINCE)
        assert run_test(row.pk)
        row.refresh_from_db()
        assert (row.status, row.error) == (ConnectionTest.Statuses.PASSED, {})
        checks, end = {item["title"]: item["text"] for item in row.result["checks"]}, f"{UNTIL:%Y-%m-%d %H:%M}"
        assert [end in checks[title] for title in ("Jump hosts", "SSH certificate", "Host key")] == [True, True, False]
        assert self.known() == {"db-1": (SINCE, None), "jump": (SINCE, UNTIL)}

    @pytest.mark.django_db
    def test_reading_the_key_of_a_jump_host_notes_it(self, way: Instance) -> None:
        assert read_host_certificate(Host.objects.get(name="jump"))
        assert self.known()["jump"] == (SINCE, UNTIL)


WRONG: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "ended": (("-V", "-2h:-1h"), {}),
    "not yet": (("-V", "+1h:+2h"), {}),
    "another name": ((), {"name": "db-2.example"}),
    "a pattern": ((), {"name": "*.example"}),
    "another CA": ((), {"ca": "stranger"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_certificate_of_the_pinned_key_is_refused(host: CertifiedHost, cas: HostAuthorities, case: str) -> None:
    options, changes = WRONG[case]
    host.sign(*options, **changes)
    host.start()
    assert answer(host.address(cas)) == "ssh.host_not_proven"


def test_the_pinned_key_without_a_certificate_is_refused(host: CertifiedHost, cas: HostAuthorities) -> None:
    host.start()
    assert (answer(host.address(cas)), answer(host.address(None))) == ("ssh.host_not_proven", "in\n")
    assert (host.folder / "log").read_text().count("Accepted publickey") == 1


def test_a_revoked_key_or_ca_is_refused(host: CertifiedHost, cas: HostAuthorities, tmp_path: Path) -> None:
    host.sign()
    host.start()
    address = host.address(cas)
    for file in (Path(f"{host.key}.pub"), tmp_path / "ca.pub"):
        revoked = replace(cas, revoked=(line(file),))
        assert (
            answer(replace(address, proof=CertificateProof(Host(certificate_name=NAME), revoked)))
            == "ssh.host_not_proven"
        )
    assert answer(address) == "in\n"


def test_no_key_was_accepted_at_all(host: CertifiedHost, cas: HostAuthorities) -> None:
    host.sign()
    host.start()
    assert answer(replace(host.address(cas), host_key="")) == "ssh.host_key_unknown"


def test_a_jump_host_is_proven_by_its_own(host: CertifiedHost, jump: CertifiedHost, cas: HostAuthorities) -> None:
    host.sign()
    jump.sign(name="jump")
    host.start()
    jump.start()
    way = replace(jump.address(cas, name="jump"), name="jump-1")
    address = replace(host.address(cas), jump=way)
    for one, name in ((host, NAME), (jump, "jump")):
        one.rekey()
        one.sign(name=name)
        one.start()
    assert answer(address) == "in\n"
    assert (
        fetch_host_certificate(ADDRESS, host.port, jump=way).split()[1] == line(Path(f"{host.key}-cert.pub")).split()[1]
    )
    jump.sign("-V", "-2h:-1h", name="jump")
    jump.start()
    shell = SshShell(address)
    with pytest.raises(NoAccess) as caught:
        shell.run("true")
    assert (caught.value.code, "jump-1" in caught.value.operation) == ("ssh.host_not_proven", True)


class TestBetweenHosts:
    """OpenSSH's client, with the files and words of a rebuild's stream."""

    def pulls(self, host: CertifiedHost, known_hosts: str, name: str = "") -> bool:
        folder = host.folder / "run"
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / "known_hosts").write_text(known_hosts + "\n")
        (folder / "key").touch(0o600)
        (folder / "key").write_text((host.folder / "user").read_text())
        words = ssh_command(
            address=ADDRESS,
            port=host.port,
            user=getpass.getuser(),
            bind_address="",
            ciphers="aes128-gcm@openssh.com",
            directory=str(folder),
            certificate_name=name,
        )
        found = subprocess.run([*words, "echo in"], capture_output=True, text=True, timeout=30)
        assert (
            found.returncode == 0 or "verification failed" in found.stderr.lower() or "revoked" in found.stderr.lower()
        )
        return found.stdout == "in\n"

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_new_key_is_accepted(self, host: CertifiedHost, cas: HostAuthorities, kind: str) -> None:
        pinned = known_host(ADDRESS, host.port, line(Path(f"{host.key}.pub")))
        host.rekey(kind)
        host.sign()
        host.start()
        assert self.pulls(host, cas.known_hosts(NAME), NAME)
        assert not self.pulls(host, pinned)

    @pytest.mark.parametrize("case", [case for case in WRONG if case != "a pattern"])
    def test_what_is_wrong_is_refused(self, host: CertifiedHost, cas: HostAuthorities, case: str) -> None:
        options, changes = WRONG[case]
        host.sign(*options, **changes)
        host.start()
        assert not self.pulls(host, cas.known_hosts(NAME), NAME)

    def test_no_certificate_and_no_ca_are_refused(self, host: CertifiedHost, cas: HostAuthorities) -> None:
        host.start()
        assert not self.pulls(host, cas.known_hosts(NAME), NAME)
        host.sign()
        host.start()
        assert not self.pulls(host, HostAuthorities().known_hosts(NAME), NAME)

    def test_what_is_revoked_is_refused(self, host: CertifiedHost, cas: HostAuthorities, tmp_path: Path) -> None:
        host.sign()
        host.start()
        for file in (Path(f"{host.key}.pub"), tmp_path / "ca.pub"):
            assert not self.pulls(host, replace(cas, revoked=(line(file),)).known_hosts(NAME), NAME)
        assert self.pulls(host, cas.known_hosts(NAME), NAME)
