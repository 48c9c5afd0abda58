"""An impostor on a server's port asks the dashboard for its password."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.mysql_login import ServerProof
from dbops.engine.errors import RemoteFailure
from tests.drivers.conftest import certificate
from tests.hostile.fake_server import CACHING_SHA2, CLEAR, DIALOG, ED25519, NATIVE, OLD, SHA256, Demand, FakeServer

ADDRESS, PASSWORD = "127.0.0.1", "correct horse battery"
METHODS = (CLEAR, DIALOG, OLD, SHA256, CACHING_SHA2, "authentication_kerberos_client", "parsec")
DEMANDS = (
    *(Demand(switches_to=method) for method in METHODS),
    Demand(greets_with=SHA256),
    Demand(greets_with=CACHING_SHA2),
    Demand(greets_with=CACHING_SHA2, switches_to=CLEAR),
    Demand(greets_with=CACHING_SHA2, switches_to=SHA256),
    Demand(legacy=True),
)
REFUSALS = {"mysql.login_method", "mysql.unproven"}
Prove = Callable[[], ServerProof]


def log_in(server: FakeServer, prove: Prove | None = None, authority: str = "") -> str:
    """Log in as the dashboard does; return the code of the refusal, empty if the server was believed."""
    with server.listening((ADDRESS, 0)) as listener:
        address = MysqlAddress(ADDRESS, listener.getsockname()[1], "dbops", PASSWORD, tls_ca=authority)
        database = MysqlDatabase(address, connect_timeout_seconds=5, prove=prove)
        error = _failure(database)
        database.close()
    assert PASSWORD not in str(error)
    return error.code if error else ""


def _failure(database: MysqlDatabase) -> RemoteFailure | None:
    try:
        database.query("SELECT 1")
    except RemoteFailure as error:
        return error
    return None


def proof_of(path: Path) -> ServerProof:
    text = path.read_text()
    return ServerProof(certificate=ssl.PEM_cert_to_DER_cert(text[: text.index("-----END CERTIFICATE") + 26]))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_impostor_without_a_certificate_of_the_authority_gets_no_login(
    demand: Demand, tls: bool, stolen_certificate: Path, tmp_path: Path
) -> None:
    server = FakeServer(demand, stolen_certificate if tls else None)
    authority = certificate(tmp_path)["cert"].read_text()
    assert log_in(server, authority=authority) == "mysql.certificate"
    assert not any(b"dbops" in packet for packet in (*server.received, *server.answers))


@pytest.mark.parametrize("demand", DEMANDS[:1], ids=str)
def test_certificate_of_the_authority_for_another_address_is_refused(demand: Demand, tmp_path: Path) -> None:
    paths, both = certificate(tmp_path), tmp_path / "both.pem"
    both.write_bytes(paths["cert"].read_bytes() + paths["key"].read_bytes())
    server = FakeServer(demand, both)
    assert log_in(server, authority=paths["cert"].read_text()) == "mysql.certificate"
    assert log_in(server) in REFUSALS, "the control: it is reached"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_password_stays_here_whatever_is_asked(demand: Demand, tls: bool, stolen_certificate: Path) -> None:
    server = FakeServer(demand, stolen_certificate if tls else None)
    assert log_in(server) in REFUSALS
    assert server.logins == 1
    assert not server.got(PASSWORD)


@pytest.mark.parametrize("method", [NATIVE, ED25519])
def test_challenges_are_answered_without_the_password(method: str) -> None:
    server = FakeServer(Demand(switches_to=method))
    assert log_in(server) == ""
    assert len(server.answers[-1]) == {NATIVE: 20, ED25519: 64}[method]
    assert not server.got(PASSWORD)


@pytest.mark.parametrize("method", [SHA256, CACHING_SHA2])
def test_whole_password_goes_only_to_a_proven_certificate(
    method: str, stolen_certificate: Path, tmp_path: Path
) -> None:
    other = FakeServer(Demand(switches_to=method), stolen_certificate)
    expected = proof_of(certificate(tmp_path)["cert"])
    assert log_in(other, lambda: expected) == "mysql.unproven"
    assert log_in(other, lambda: ServerProof(public_key=b"-")) == "mysql.unproven"
    assert not other.got(PASSWORD)
    proven = FakeServer(Demand(switches_to=method), stolen_certificate)
    assert log_in(proven, lambda: proof_of(stolen_certificate)) == ""
    assert proven.got(PASSWORD)


@pytest.mark.parametrize("method", [SHA256, CACHING_SHA2])
def test_without_tls_the_password_is_for_the_key_of_the_host_alone(method: str) -> None:
    """The attacker offers an own key, between the dashboard and the server."""
    attacker, host = FakeServer(Demand(switches_to=method)), FakeServer(Demand())
    assert log_in(attacker, lambda: ServerProof(public_key=host.public_key)) == ""
    assert not attacker.got(PASSWORD)
    assert log_in(attacker, lambda: ServerProof(certificate=b"-")) == "mysql.unproven"
    assert log_in(attacker, lambda: ServerProof(public_key=attacker.public_key)) == ""
    assert attacker.got(PASSWORD)


@pytest.mark.parametrize(
    "demand",
    [Demand(switches_to=CLEAR), Demand(greets_with=SHA256), Demand(switches_to=CACHING_SHA2)],
    ids=str,
)
def test_fake_server_takes_the_password_of_a_trusting_client(demand: Demand, stolen_certificate: Path) -> None:
    """What the tests above show is not that the fake server is deaf."""
    server = FakeServer(demand, stolen_certificate)
    with server.listening((ADDRESS, 0)) as listener:
        port = listener.getsockname()[1]
        with suppress(pymysql.MySQLError):
            pymysql.connect(host=ADDRESS, port=port, user="dbops", password=PASSWORD, read_timeout=5)
    assert server.got(PASSWORD)
