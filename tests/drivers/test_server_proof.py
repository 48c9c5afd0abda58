"""What a host says of the server there: its certificate and public key, and nothing else of any file."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from dbops.drivers.server_proof import read_proof
from dbops.engine.errors import RemoteFailure
from dbops.engine.ports import Shell
from tests.drivers.conftest import certificate
from tests.fakes import FakeShell


@pytest.fixture
def datadir(tmp_path: Path) -> Path:
    """A data directory with the files that MySQL makes at its first start."""
    paths = certificate(tmp_path)
    key = load_pem_private_key(paths["key"].read_bytes(), None).public_key()
    (tmp_path / "public_key.pem").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    paths["cert"].rename(tmp_path / "server-cert.pem")
    (tmp_path / "my.cnf").write_text("[mysqld]\nport = 3306\n")
    return tmp_path


def test_files_of_the_data_directory_are_the_default(shell_of_host: Shell, datadir: Path) -> None:
    proof = read_proof(shell_of_host, datadir=str(datadir), defaults_file=str(datadir / "my.cnf"))
    assert proof.certificate == ssl.PEM_cert_to_DER_cert((datadir / "server-cert.pem").read_text())
    assert proof.public_key == (datadir / "public_key.pem").read_bytes()


@pytest.mark.parametrize("line", ["ssl-cert = {}/own/c.pem", "loose_ssl_cert=own/c.pem"])
def test_certificate_of_the_option_file_wins(
    datadir: Path, tmp_path_factory: pytest.TempPathFactory, line: str
) -> None:
    (datadir / "own").mkdir()
    own = certificate(tmp_path_factory.mktemp("own"))["cert"].rename(datadir / "own" / "c.pem")
    (datadir / "my.cnf").write_text("[mysqld]\nssl-cert=/first.pem\n[mysqld.two]\n" + line.format(datadir) + "\n")
    proof = read_proof(
        FakeShell(runs_here=True), datadir=str(datadir), defaults_file=str(datadir / "my.cnf"), group_suffix=".two"
    )
    assert proof.certificate == ssl.PEM_cert_to_DER_cert(own.read_text())


def test_other_files_and_broken_ones_are_never_shown(datadir: Path) -> None:
    shell = FakeShell(runs_here=True)
    secret = datadir / "shadow"
    secret.write_text("root:secret\n")
    for name in ("server-cert.pem", "public_key.pem"):
        (datadir / name).unlink()
        (datadir / name).symlink_to(secret)
    proof = read_proof(shell, datadir=str(datadir), defaults_file=str(datadir / "none.cnf"))
    assert (proof.certificate, proof.public_key) == (None, None)
    secret.write_text("-----BEGIN CERTIFICATE-----\nroot:secret\n-----END CERTIFICATE-----\n")
    with pytest.raises(RemoteFailure) as caught:
        read_proof(shell, datadir=str(datadir), defaults_file=str(datadir / "none.cnf"))
    assert caught.value.code == "mysql.unproven"
    assert "secret" not in str(caught.value)
