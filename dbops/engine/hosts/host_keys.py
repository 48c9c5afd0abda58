"""Host keys and private keys as text, and SSH host key fingerprints."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase, said

#: host key types that are negotiated, best first, with the signature algorithms that each may use
HOST_KEY_ALGORITHMS: dict[str, tuple[str, ...]] = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
#: The same with a certificate of the key.
HOST_CERTIFICATE_ALGORITHMS = tuple(
    f"{name}-cert-v01@openssh.com" for names in HOST_KEY_ALGORITHMS.values() for name in names
)


@dataclass(frozen=True, slots=True)
class HostKey:
    """A host's public key. ``base64`` is the part after the type in ``known_hosts``."""

    type: str
    base64: str
    fingerprint: str

    @property
    def line(self) -> str:
        """Return the pinned form of the key: ``ssh-ed25519 AAAA...``."""
        return f"{self.type} {self.base64}"


@dataclass(frozen=True, slots=True)
class HostAuthorities:
    """Public keys of the CAs that sign certificates of hosts, and keys of hosts and CAs that are revoked, each ``type base64``."""

    keys: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()

    def known_hosts(self, name: str) -> str:
        """Return the lines of known_hosts for a host that OpenSSH knows by this name, and by a certificate alone."""
        revoked = [f"@revoked * {key}" for key in self.revoked]
        return "\n".join([*revoked, *(f"@cert-authority {name} {key}" for key in self.keys)])


def fingerprint_of_blob(blob: bytes) -> str:
    """Return the fingerprint as ``ssh-keygen -l`` prints it: ``SHA256:`` and unpadded base64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def parse_host_key(line: str) -> HostKey:
    """Parse ``type base64 [comment]``.

    Raises:
        Refused: it is not a public key of a type that is supported (``ssh.bad_host_key``).
    """
    words = line.split()
    try:
        if len(words) < 2 or words[0] not in HOST_KEY_ALGORITHMS:
            raise ValueError(phrase("expected one of: {algorithms}", algorithms=", ".join(HOST_KEY_ALGORITHMS)))
        blob = base64.b64decode(words[1], validate=True)
        length = int.from_bytes(blob[:4], "big")
        if blob[4 : 4 + length].decode("ascii") != words[0]:
            raise ValueError(phrase("the key is of another type than its line says"))
    except (ValueError, binascii.Error) as error:
        raise Refused(
            "ssh.bad_host_key",
            phrase("Reading a pinned host key"),
            cause=said(error),
        ) from None
    return HostKey(words[0], words[1], fingerprint_of_blob(blob))


def fingerprint_of(host_key_line: str) -> str:
    """Return the fingerprint of ``type base64``. Raises ``Refused`` (``ssh.bad_host_key``)."""
    return parse_host_key(host_key_line).fingerprint
