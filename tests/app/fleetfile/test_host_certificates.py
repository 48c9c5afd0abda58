"""Host certificates: a real sshd presents one, and it proves the host's key only if all of it is right."""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.models import Host
from dbops.operations.host_certificates import read_host_certificate
from dbops.security.ssh_certificates import check_host_certificate
from tests.app.factories import make_host
from tests.drivers.conftest import ADDRESS, keygen, wait_for_port
from tests.drivers.jump_hosts import PROGRAM

pytestmark = pytest.mark.django_db
PORT = 2243


def signed(folder: Path, *options: str, ca: str = "ca", kind: str = "-h") -> str:
    words = ["ssh-keygen", "-q", "-s", folder / ca, "-I", "db-1 of test", *([kind] if kind else []), *options]
    subprocess.run([*words, folder / "host.pub"], check=True, capture_output=True)
    return (folder / "host-cert.pub").read_text()


def line(file: Path) -> str:
    return " ".join(file.read_text().split()[:2])


@pytest.fixture(scope="module", params=["ed25519", "ecdsa", "rsa"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    made = tmp_path_factory.mktemp("hosts")
    for name in ("ca", "new_ca", "stranger"):
        keygen(made / name)
    keygen(made / "host", request.param)
    (made / "cas").write_text(
        f"# during a rotation\n{(made / 'ca.pub').read_text()}{(made / 'new_ca.pub').read_text()}"
    )
    return made


@pytest.fixture(scope="module")
def sshd(folder: Path) -> Iterator[Any]:
    process: list[subprocess.Popen[bytes]] = []

    def start(certificate: str) -> None:
        stop()
        (folder / "shown-cert.pub").write_text(certificate)
        lines = [f"HostKey {folder}/host", f"ListenAddress {ADDRESS}", f"Port {PORT}", "PidFile none", "UsePAM no"]
        lines += [f"HostCertificate {folder}/shown-cert.pub"] if certificate else []
        (folder / "config").write_text("\n".join(lines) + "\n")
        words = [PROGRAM, "-D", "-e", "-f", str(folder / "config")]
        process.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for_port(PORT)

    def stop() -> None:
        while process:
            process[-1].terminate()
            process.pop().wait(30)

    yield start
    stop()


@pytest.fixture
def host(folder: Path, settings: Any) -> Host:
    settings.SSH_HOST_CA_FILE = str(folder / "cas")
    return make_host("db-1", ssh_address=ADDRESS, ssh_port=PORT, host_key="")


@pytest.mark.services
def test_a_certificate_proves_the_key_and_it_is_pinned(sshd: Any, folder: Path, host: Host, operator: Client) -> None:
    sshd(signed(folder, "-n", "db-1,other", "-V", "+1h", ca="new_ca"))
    url = "/inventory/host/db-1/key/"
    answer = operator.post(url, {"action": "read"})
    found = answer.context["certificate"]
    assert (found.key.line, found.principals) == (line(folder / "host.pub"), ("db-1", "other"))
    assert b"data-certificate" in answer.content
    operator.post(url, {"action": "accept", "host_key": answer.context["found"].line, "shown": ""})
    assert Host.objects.get().host_key == line(folder / "host.pub")


@pytest.mark.services
def test_a_host_without_one_is_read_as_before(sshd: Any, folder: Path, host: Host, operator: Client) -> None:
    sshd("")
    answer = operator.post("/inventory/host/db-1/key/", {"action": "read"})
    assert (answer.context["certificate"], answer.context["found"].line) == (None, line(folder / "host.pub"))


@pytest.mark.services
def test_a_wrong_one_is_refused_with_its_code(sshd: Any, folder: Path, host: Host, operator: Client) -> None:
    sshd(signed(folder, "-n", "db-2", "-V", "+1h"))
    answer = operator.post("/inventory/host/db-1/key/", {"action": "read"})
    assert (answer.status_code, answer.context["problem"].code) == (409, "ssh.host_certificate")


@pytest.mark.services
def test_a_new_key_of_a_trusted_name_needs_no_click(sshd: Any, folder: Path, host: Host, operator: Client) -> None:
    pinned = line(folder / "ca.pub")
    Host.objects.update(certificate_name="db.example", host_key=pinned)
    url = "/inventory/host/db-1/key/"
    sshd(signed(folder, "-n", "db.example", "-V", "+1h"))
    answer = operator.post(url, {"action": "read"})
    assert (answer.status_code, answer.context["certificate"].principals) == (200, ("db.example",))
    assert (b"data-new-key" in answer.content, b'name="replace"' in answer.content) == (True, False)
    for certificate in (signed(folder, "-n", "db-1", "-V", "+1h"), ""):
        sshd(certificate)
        answer = operator.post(url, {"action": "read"})
        assert (answer.status_code, answer.context["problem"].code) == (409, "ssh.host_certificate")
    assert Host.objects.get().host_key == pinned


@pytest.mark.parametrize("content", [None, "nonsense", "@revoked", "@cert-authority * ssh-ed25519 AAAA", b"\xff"])
def test_authorities_that_cannot_be_read(host: Host, tmp_path: Path, settings: Any, content: Any) -> None:
    settings.SSH_HOST_CA_FILE = str(tmp_path / "cas")
    if content:
        (tmp_path / "cas").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Refused) as caught:
        read_host_certificate(host)
    assert caught.value.code == "ssh.host_ca_file"


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["-n", "db-1"], {"ca": "stranger"}),
        (["-n", "db-2"], {}),
        ([], {}),
        (["-n", "db-1", "-V", "-2h:-1h"], {}),
        (["-n", "db-1", "-V", "+1h:+2h"], {}),
        (["-n", "db-1"], {"kind": ""}),
    ],
    ids=["another CA", "another name", "every name", "ended", "not yet", "of a user"],
)
def test_what_proves_nothing(folder: Path, options: list[str], changes: dict[str, str]) -> None:
    text = signed(folder, *options, **changes)
    with pytest.raises(Refused) as caught:
        check_host_certificate(
            text, authorities=HostAuthorities((line(folder / "ca.pub"),)), names={"db-1"}, now=clock.now()
        )
    assert caught.value.code == "ssh.host_certificate"


@pytest.mark.parametrize(
    ("algorithm", "is_proof"), [("ssh-rsa", False), ("rsa-sha2-256", True), ("rsa-sha2-512", True)]
)
def test_an_authority_signs_without_sha_1(folder: Path, algorithm: str, is_proof: bool) -> None:
    if not (folder / "rsa_ca").exists():
        keygen(folder / "rsa_ca", "rsa")
    text = signed(folder, "-n", "db-1", "-t", algorithm, ca="rsa_ca")
    good = {"authorities": HostAuthorities((line(folder / "rsa_ca.pub"),)), "names": {"db-1"}, "now": clock.now()}
    if is_proof:
        assert check_host_certificate(text, **good).principals == ("db-1",)
        return
    with pytest.raises(Refused) as caught:
        check_host_certificate(text, **good)
    assert caught.value.code == "ssh.host_certificate"


def test_a_changed_byte_proves_nothing(folder: Path) -> None:
    text = signed(folder, "-n", "db-1")
    kind, body = text.split()[:2]
    changed = body[:-12] + ("A" if body[-12] != "A" else "B") + body[-11:]
    good = {
        "authorities": HostAuthorities((line(folder / "ca.pub"),)),
        "names": {"db-1"},
        "now": clock.now() + timedelta(days=9999),
    }
    assert check_host_certificate(text, **good).validity.until is None
    with pytest.raises(Refused):
        check_host_certificate(f"{kind} {changed}", **good)
