"""OpenSSH certificates of users: read what is in them. Whether a host accepts one, the host decides."""

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import fingerprint_of

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
            raise ValueError("it is not a certificate of a user")
        found.verify_cert_signature()
        key = found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise Refused(
            "ssh.bad_certificate", "Reading an SSH certificate", cause=str(error) or "its signature is wrong"
        ) from None
    ends = None if found.valid_before == FOREVER else datetime.fromtimestamp(min(found.valid_before, LATEST), UTC)
    return UserCertificate(
        text=text.strip(),
        name=found.key_id.decode("utf-8", "replace"),
        principals=tuple(name.decode("utf-8", "replace") for name in found.valid_principals),
        since=datetime.fromtimestamp(min(found.valid_after, LATEST), UTC),
        until=ends,
        fingerprint=fingerprint_of(key),
    )
