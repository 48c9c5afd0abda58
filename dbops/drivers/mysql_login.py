"""Log in to a server without giving the password to an impostor.

The server chooses the method, and any program can be the server. Allowed are methods that answer a challenge
(``mysql_native_password``, ``client_ed25519``, the fast path of ``caching_sha2_password``). MySQL's servers want the whole password
where they do not remember the account: dbops sends it only to a server that has proven itself. Everything else is refused
before anything of the password is sent.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import pymysql
from pymysql import _auth
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

if TYPE_CHECKING:  # generic only in its stubs
    _Base = Connection[DictCursor]
else:
    _Base = Connection

#: The connection ended; if only the greeting or an answer is missing, the error code is another one.
LOST_CONNECTION = 2013
NATIVE, ED25519 = "mysql_native_password", "client_ed25519"
SHA256, CACHING_SHA2 = "sha256_password", "caching_sha2_password"
#: Answers to a challenge: the password itself is never in them.
CHALLENGES = (NATIVE, ED25519)
FAST_PATH_DONE, WHOLE_PASSWORD = 3, 4
SCRAMBLE_BYTES = 20


@dataclass(frozen=True, slots=True)
class ServerProof:
    """What the server on a host must show.

    Args:
        certificate: of its TLS connections, in DER; ``None`` if the host has none.
        public_key: for passwords on connections without TLS, in PEM; ``None`` if the host has none.
    """

    certificate: bytes | None = None
    public_key: bytes | None = None


class MethodRefused(pymysql.OperationalError):
    """The server asks for a method that is not allowed."""


class Unproven(pymysql.OperationalError):
    """The server asks for the whole password and has not proven itself."""


class BadCertificate(pymysql.OperationalError):
    """The server's certificate is not of the authority, or not for this address."""


class Login(_Base):
    """A connection that logs in by allowed methods alone, and skips TLS that was not requested.

    PyMySQL would use TLS if the server offers it, and load all certificate authorities of the machine for each connection
    (measured: about 30 ms) without verifying anything.

    Args:
        prove: returns what this server must show before it gets the whole password; ``None``: nothing can prove it.
        others: arguments of PyMySQL.
    """

    def __init__(self, *, prove: Callable[[], ServerProof] | None, **others: Any) -> None:
        self._prove = prove
        super().__init__(auth_plugin_map={CACHING_SHA2: _CachingSha2, SHA256: _Sha256}, **others)

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        context: ssl.SSLContext = super()._create_ssl_ctx(sslp) if sslp else unverified()  # type: ignore[misc]
        return context

    def _get_server_information(self) -> None:
        """Answer a greeting that names another method with ``mysql_native_password``, as the servers' own clients do.

        PyMySQL sends the password in clear to a greeting with ``sha256_password``. The server then asks by name.
        """
        super()._get_server_information()  # type: ignore[misc]
        if self._auth_plugin_name not in (NATIVE, CACHING_SHA2):  # type: ignore[has-type]
            self._auth_plugin_name = NATIVE

    def _request_authentication(self) -> None:
        """Name what went wrong: PyMySQL reports every socket error as "can't connect", even in the TLS handshake."""
        try:
            super()._request_authentication()  # type: ignore[misc]
        except ssl.SSLCertVerificationError as error:
            raise BadCertificate(error.verify_message) from None
        except OSError as error:
            raise pymysql.OperationalError(LOST_CONNECTION, f"after the server's greeting: {error}") from None
        except pymysql.OperationalError as error:
            if isinstance(error, MethodRefused | Unproven) or isinstance(error.args[0], int):
                raise
            # a request to switch without a name (servers before 4.1), a second one, or no packet of a login
            raise MethodRefused(str(error.args[0])) from None

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        name = plugin_name.decode("ascii", "replace")
        if handler is None and name not in CHALLENGES:
            refuse_method(name)
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def send_whole_password(self, salt: bytes) -> Any:
        """Send the password to a server that has proven itself, and return its answer.

        Raises:
            Unproven: it has not.
            DbopsError: of ``prove``.
        """
        password: bytes = self.password
        channel = self._sock  # type: ignore[attr-defined]
        if isinstance(channel, ssl.SSLSocket):
            if channel.context.verify_mode != ssl.CERT_REQUIRED:
                shown = channel.getpeercert(binary_form=True)
                must_equal(shown, self._proof().certificate, "certificate")
            return self.exchange(password + b"\0")
        key = self._proof().public_key
        if key is None:
            raise Unproven("it offers no TLS, and the host has no public key of it")
        return self.exchange(_auth.sha2_rsa_encrypt(password, salt, key))

    def _proof(self) -> ServerProof:
        if self._prove is None:
            raise Unproven("it is not in the inventory, so no host can vouch for it")
        return self._prove()

    def exchange(self, payload: bytes) -> Any:
        """Send a packet and return the next one."""
        self.write_packet(payload)
        return self._read_packet()  # type: ignore[no-untyped-call]


class _CachingSha2:
    """``caching_sha2_password``: a challenge first, then the whole password if the server does not remember the account."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        connection = self._connection
        if packet.is_auth_switch_request():
            connection.salt = _salt(packet)
            packet = connection.exchange(_auth.scramble_caching_sha2(connection.password, connection.salt))
        if not packet.is_extra_auth_data():
            return packet
        packet.advance(1)
        answer = packet.read_uint8()
        if answer == FAST_PATH_DONE:
            return connection._read_packet()
        if answer != WHOLE_PASSWORD:
            raise MethodRefused(f"its answer {answer} is not of {CACHING_SHA2}")
        return connection.send_whole_password(connection.salt)


class _Sha256:
    """``sha256_password``: always the whole password."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        if not packet.is_auth_switch_request():
            raise MethodRefused(f"it sent a packet that is not of {SHA256}")
        salt = _salt(packet)
        if not self._connection.password:
            return self._connection.exchange(b"\0")
        return self._connection.send_whole_password(salt)


def refuse_method(name: str) -> NoReturn:
    raise MethodRefused(f"it asks for {name[:40]!r}")


def must_equal(shown: bytes | None, expected: bytes | None, what: str) -> None:
    if expected is None:
        raise Unproven(f"the host has no {what} of it")
    if shown != expected:
        raise Unproven(f"its {what} is not the one on the host")


def _salt(packet: Any) -> bytes:
    salt: bytes = packet.read_all()
    return salt[:SCRAMBLE_BYTES]


@cache
def verified(authority: str) -> ssl.SSLContext:
    """Return a TLS context that accepts certificates of an authority (PEM) for the address that was connected to."""
    context = ssl.create_default_context(cadata=authority)
    # certificates of older private authorities lack extensions that this wants
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@cache
def unverified() -> ssl.SSLContext:
    """Return a TLS context that encrypts and accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
