"""The dashboard's key for the gates of hosts. It follows from the signing key."""

from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

#: of the curve P-256
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class GateKey:
    """A key pair on the curve P-256, whose signatures every ``openssl`` verifies."""

    private: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> str:
        """Return the public key in PEM."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip()

    def sign(self, text: bytes) -> bytes:
        """Return the signature of the text's SHA-256 in DER."""
        return self.private.sign(text, ec.ECDSA(hashes.SHA256()))


def gate_key(signing_key: str) -> GateKey:
    """Return the key of a dashboard with this signing key."""
    derived = HKDF(hashes.SHA256(), length=48, salt=None, info=b"dbops-gate").derive(signing_key.encode())
    return GateKey(ec.derive_private_key(int.from_bytes(derived) % (ORDER - 1) + 1, ec.SECP256R1()))
