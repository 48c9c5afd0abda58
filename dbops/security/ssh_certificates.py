"""OpenSSH certificates: read those of users, which the host checks, and check those of hosts."""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from dbops.engine.errors import Refused
from dbops.engine.facts.certificates import CertificateFacts
from dbops.engine.hosts.host_keys import HostAuthorities, HostKey, fingerprint_of, parse_host_key
from dbops.engine.phrases import phrase, said

#: Before a key that proves nothing any more, as in known_hosts.
REVOKED = "@revoked"
FOREVER = 2**64 - 1
LATEST = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class UserCertificate:
    """One certificate. ``until``: when it ends, ``None`` for never. ``fingerprint``: of the key that it certifies."""

    text: str
    name: str
    principals: tuple[str, ...]
    since: datetime
    until: datetime | None
    fingerprint: str

    def is_valid_at(self, now: datetime) -> bool:
        return self.since <= now and (self.until is None or now < self.until)


def read_certificate(text: str) -> UserCertificate:
    """Return what a file ``KEY-cert.pub`` says. Raises ``Refused`` (``ssh.bad_certificate``)."""
    try:
        found = load_ssh_public_identity(text.strip().encode())
        if not isinstance(found, SSHCertificate) or found.type is not SSHCertificateType.USER:
            raise ValueError(phrase("it is not a certificate of a user"))
        found.verify_cert_signature()
        key = found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise Refused(
            "ssh.bad_certificate",
            phrase("Reading an SSH certificate"),
            cause=said(error) or phrase("its signature is wrong"),
        ) from None
    return UserCertificate(
        text=text.strip(),
        name=found.key_id.decode("utf-8", "replace"),
        principals=tuple(name.decode("utf-8", "replace") for name in found.valid_principals),
        since=_begin_of(found),
        until=_end_of(found),
        fingerprint=fingerprint_of(key),
    )


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """A valid certificate of a host. ``authority``: fingerprint of the key that signed it."""

    key: HostKey
    name: str
    principals: tuple[str, ...]
    validity: CertificateFacts
    authority: str


def read_authorities(file: Path) -> HostAuthorities:
    """Return the public keys of a file, one a line, and those after ``@revoked``.

    Raises ``OSError``, ``UnicodeDecodeError``, and ``Refused`` (``ssh.bad_host_key``).
    """
    keys: dict[bool, list[str]] = {True: [], False: []}
    for line in map(str.strip, file.read_text().splitlines()):
        if line and not line.startswith("#"):
            is_revoked = line.split()[0] == REVOKED
            keys[is_revoked].append(parse_host_key(line.removeprefix(REVOKED)).line)
    return HostAuthorities(tuple(keys[False]), tuple(keys[True]))


def check_host_certificate(
    text: str, *, authorities: HostAuthorities, names: Collection[str], now: datetime
) -> HostCertificate:
    """Return a certificate that proves a host's key.

    Args:
        text: of the certificate; empty: the host has none.
        authorities: whose keys may sign.
        names: by which the host is known; the certificate must contain one of them.

    Raises:
        Refused: it proves nothing (``ssh.host_certificate``).
    """
    try:
        if not text:
            raise ValueError(phrase("the host presents no certificate"))
        found = load_ssh_public_identity(text.strip().encode())
        if not isinstance(found, SSHCertificate) or found.type is not SSHCertificateType.HOST:
            raise ValueError(phrase("it is not a certificate of a host"))
        found.verify_cert_signature()
        signer = found.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        key = parse_host_key(found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
        principals = tuple(name.decode("utf-8", "replace") for name in found.valid_principals)
        if revoked := {signer, key.line} & {*authorities.revoked}:
            raise ValueError(phrase("the key {fingerprint} is revoked", fingerprint=fingerprint_of(revoked.pop())))
        if signer not in authorities.keys:
            raise ValueError(phrase("it is signed by another CA, {fingerprint}", fingerprint=fingerprint_of(signer)))
        if _is_signed_with_sha_1(found):
            raise ValueError(phrase("its CA signed it with SHA-1: use ssh-keygen -t rsa-sha2-512"))
        if found.critical_options:
            raise ValueError(phrase("it has critical options, which no host certificate has"))
        if not set(principals) & set(names):
            raise ValueError(
                phrase(
                    "it is for {principals}, not for {names}",
                    principals=", ".join(principals) or phrase("no name"),
                    names=" or ".join(sorted(names)),
                )
            )
        if not found.valid_after <= now.timestamp() < found.valid_before:
            raise ValueError(phrase("it is not valid at this time"))
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise Refused(
            "ssh.host_certificate",
            phrase("Checking the certificate of a host"),
            cause=said(error) or phrase("its signature is wrong"),
        ) from None
    validity = CertificateFacts(_begin_of(found), _end_of(found))
    return HostCertificate(key, found.key_id.decode("utf-8", "replace"), principals, validity, fingerprint_of(signer))


def _begin_of(found: SSHCertificate) -> datetime:
    return datetime.fromtimestamp(min(found.valid_after, LATEST), UTC)


def _end_of(found: SSHCertificate) -> datetime | None:
    return None if found.valid_before == FOREVER else datetime.fromtimestamp(min(found.valid_before, LATEST), UTC)


def _is_signed_with_sha_1(found: SSHCertificate) -> bool:
    """Whether an RSA key signed as "ssh-rsa". OpenSSH refuses this, too: others can make two certificates of one SHA-1."""
    key = found.signature_key()
    if not isinstance(key, RSAPublicKey):
        return False
    blob = base64.b64decode(found.public_bytes().split()[1])
    length = (
        key.key_size + 7
    ) // 8  # of the signature, which is last; before it the name of its algorithm, and this length
    return not blob[: -length - 4].endswith((b"rsa-sha2-256", b"rsa-sha2-512"))
