"""SSH certificates of users: a real authority, and a real sshd that trusts nothing else."""

import getpass
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress, check_private_key
from dbops.engine.errors import NoAccess, Refused
from dbops.security.ssh_certificates import read_certificate
from tests.drivers.conftest import ADDRESS, keygen, wait_for_port
from tests.drivers.jump_hosts import PROGRAM

PORT = 2241


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    keygen(folder / "ca")
    keygen(folder / "other_ca")
    keygen(folder / "host")
    return folder


def signed(authority: Path, key: Path, *options: str, ca: str = "ca", name: str = "dbops test") -> str:
    words = ["ssh-keygen", "-q", "-s", authority / ca, "-I", name, *options, f"{key}.pub"]
    subprocess.run(words, check=True, capture_output=True)
    return Path(f"{key}-cert.pub").read_text()


@pytest.fixture(scope="module")
def sshd(authority: Path) -> Iterator[None]:
    config = authority / "sshd_config"
    config.write_text(
        f"HostKey {authority}/host\nListenAddress {ADDRESS}\nPort {PORT}\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile none\nTrustedUserCAKeys {authority}/ca.pub\nPasswordAuthentication no\n"
    )
    with (authority / "log").open("w") as log:
        process = subprocess.Popen([PROGRAM, "-D", "-e", "-f", config], stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for_port(PORT)
        yield
    finally:
        process.terminate()
        process.wait(60)


def address(authority: Path, key: Path, certificate: str) -> SshAddress:
    host_key = " ".join((authority / "host.pub").read_text().split()[:2])
    return SshAddress(ADDRESS, PORT, getpass.getuser(), key.read_text(), host_key, certificate=certificate)


@pytest.mark.services
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_certificate_logs_in_where_the_key_alone_does_not(
    sshd: None, authority: Path, tmp_path: Path, kind: str
) -> None:
    keygen(tmp_path / "key", kind)
    text = signed(authority, tmp_path / "key", "-n", getpass.getuser(), "-V", "+1h")
    shell = SshShell(address(authority, tmp_path / "key", read_certificate(text).text))
    assert shell.run("echo in").stdout == "in\n"
    shell.close()
    with pytest.raises(NoAccess) as caught:
        SshShell(address(authority, tmp_path / "key", "")).run("true")
    assert caught.value.code == "ssh.auth_failed"


@pytest.mark.services
@pytest.mark.parametrize(
    ("options", "ca"),
    [(["-n", "somebody-else"], "ca"), (["-n", getpass.getuser()], "other_ca")],
    ids=["principal", "authority"],
)
def test_host_refuses_another_principal_and_another_authority(
    sshd: None, authority: Path, tmp_path: Path, options: list[str], ca: str
) -> None:
    keygen(tmp_path / "key")
    text = signed(authority, tmp_path / "key", *options, "-V", "+1h", ca=ca)
    with pytest.raises(NoAccess) as caught:
        SshShell(address(authority, tmp_path / "key", text.strip())).run("true")
    assert caught.value.code == "ssh.auth_failed"


def test_certificate_says_what_is_in_it(authority: Path, tmp_path: Path) -> None:
    keygen(tmp_path / "key")
    found = read_certificate(signed(authority, tmp_path / "key", "-n", "a,b", "-V", "-1h:+1h"))
    assert (found.name, found.principals) == ("dbops test", ("a", "b"))
    assert found.fingerprint == check_private_key((tmp_path / "key").read_text())
    assert found.until is not None
    now = datetime.now(UTC)
    assert abs(found.until - now - timedelta(hours=1)) < timedelta(minutes=10)
    assert [found.is_valid_at(now + timedelta(hours=hours)) for hours in (-2, 0, 2)] == [False, True, False]
    forever = read_certificate(signed(authority, tmp_path / "key"))
    assert (forever.until, forever.is_valid_at(now + timedelta(days=36500))) == (None, True)


def test_other_files_are_refused(authority: Path, tmp_path: Path) -> None:
    keygen(tmp_path / "key")
    good = signed(authority, tmp_path / "key", "-n", "a")
    kind, blob, *_ = good.split()
    wrong = blob[:-8] + ("AAAA" if blob[-8:-4] != "AAAA" else "BBBB") + blob[-4:]
    for text in (
        "",
        "nonsense",
        (tmp_path / "key.pub").read_text(),
        signed(authority, tmp_path / "key", "-h", "-n", "host"),
        f"{kind} {wrong}",
    ):
        with pytest.raises(Refused) as caught:
            read_certificate(text)
        assert caught.value.code == "ssh.bad_certificate"
