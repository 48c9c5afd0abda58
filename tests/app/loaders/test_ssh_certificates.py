"""The certificate beside a host's key file: used while it is valid, and shown on the page of credentials."""

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import Client

from dbops.engine.errors import Refused
from dbops.loaders.ssh_addresses import certificate_of, jump_of, ssh_address_of
from dbops.models import Host
from dbops.queries.monitoring import metrics
from tests.app.factories import make_host

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    for name in ("ca", "key", "stranger"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(words, check=True)
    return tmp_path / "key"


def sign(key: Path, validity: str, of: str = "key") -> str:
    words = ["ssh-keygen", "-q", "-s", key.with_name("ca"), "-I", "test", "-n", "dbops", "-V", validity]
    subprocess.run([*words, key.with_name(f"{of}.pub")], check=True, capture_output=True)
    made = key.with_name(f"{of}-cert.pub")
    return made.rename(key.with_name("key-cert.pub")).read_text().strip()


@pytest.fixture
def host(key: Path) -> Host:
    return make_host("db-1", ssh_key_file=str(key), ssh_private_key="")


def refusal(host: Host) -> str:
    with pytest.raises(Refused) as caught:
        ssh_address_of(host)
    return caught.value.code


def test_it_is_used_as_it_is_now(host: Host, key: Path) -> None:
    assert (ssh_address_of(host).certificate, certificate_of(host)) == ("", None)
    sign(key, "+1h")
    first = ssh_address_of(host).certificate
    second = sign(key, "+2h")
    assert first != second == ssh_address_of(host).certificate
    behind = make_host("db-2", jump_host=host)
    jump = jump_of(behind)
    assert jump is not None
    assert jump.certificate == second


def test_it_is_refused_outside_of_its_time(host: Host, key: Path) -> None:
    for validity in ("-2h:-1h", "+1h:+2h"):
        sign(key, validity)
        assert refusal(host) == "ssh.certificate_expired"


def test_it_is_refused_for_another_key_and_as_nonsense(host: Host, key: Path) -> None:
    sign(key, "+1h", of="stranger")
    assert refusal(host) == "ssh.bad_certificate"
    key.with_name("key-cert.pub").write_bytes(b"\xff\x00")
    assert refusal(host) == "ssh.bad_certificate"


def test_metric_has_its_end(host: Host, key: Path) -> None:
    make_host("db-2", ssh_key_file=str(key), ssh_private_key="")

    def ends() -> dict[str, float]:
        [found] = [one for one in metrics(NOW) if one.name == "dbops_ssh_certificate_end_timestamp_seconds"]
        return {labels["host"]: value for labels, value in found.samples}

    assert ends() == {}
    sign(key, "+1h")
    certificate = certificate_of(host)
    assert certificate is not None
    assert certificate.until is not None
    assert ends() == dict.fromkeys(("db-1", "db-2"), certificate.until.timestamp())
    key.with_name("key-cert.pub").write_text("nonsense")
    assert ends() == {"db-1": 0, "db-2": 0}


def test_page_of_credentials_shows_its_end(host: Host, key: Path, operator: Client) -> None:
    def states() -> Counter[str]:
        page = operator.get("/admin/credentials/").context["page"]
        return Counter(secret.state for owner in page for secret in owner.secrets)

    assert states() == {"file": 1}
    sign(key, "+1h")
    assert states() == {"file": 1}
    sign(key, "-2h:-1h")
    assert states() == {"expired": 1}
    answer = operator.get("/admin/credentials/?show=problems").content.decode()
    assert 'data-problems="1"' in answer
    assert 'data-secret="expired"' in answer
