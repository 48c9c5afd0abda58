"""Read on a host, over its pinned SSH connection, what the server there presents to its clients."""

import re
import ssl
from pathlib import Path

from dbops.drivers.mysql_login import ServerProof
from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import phrase
from dbops.engine.ports import Shell

SCRIPT = (Path(__file__).parent / "remote" / "server_proof.sh").read_text()
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
PUBLIC_KEY = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----\n?", re.DOTALL)


def read_proof(shell: Shell, *, datadir: str, defaults_file: str, group_suffix: str = "") -> ServerProof:
    """Return the certificate and the public key of the server with this data directory.

    They prove the host, by the SSH host key that a person accepted; not who listens there: the server's own account can read
    the private keys.

    Raises:
        RemoteFailure: a file is no certificate (``mysql.unproven``); as ``Shell.run``.
    """
    said = shell.run(SCRIPT, datadir, defaults_file, group_suffix, timeout_seconds=10).stdout
    certificate, key = CERTIFICATE.search(said), PUBLIC_KEY.search(said)
    try:
        shown = ssl.PEM_cert_to_DER_cert(certificate[0]) if certificate else None
    except ValueError:
        raise RemoteFailure(
            "mysql.unproven",
            phrase("Reading the server's certificate on its host"),
            cause=phrase("the file is no certificate"),
        ) from None
    return ServerProof(certificate=shown, public_key=key[0].encode() if key else None)
