"""A small fleet file, and keys made for one test run."""

import functools
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dbops.operations.fleet import import_fleet

FILE = """\
version: 1
hosts:
  - name: db-1
    ssh:
      address: 192.0.2.1
      key_file: KEYFILE
      host_key: "HOSTKEY"
  - name: db-2
    ssh: {address: 192.0.2.2, key_file: KEYFILE}
clusters:
  - name: shop
    write_addresses: ["db.shop.example:3306"]
    accounts:
      admin: {user: dbops, password: "admin-s3cret"}
      replication: {user: repl, password: "repl-s3cret"}
    instances:
      - name: shop-1
        role: primary
        host: db-1
        datadir: /var/lib/mysql
        service: {systemd_unit: mariadb}
      - name: shop-2
        role: replica
        host: db-2
        datadir: /var/lib/mysql
        service:
          start: /srv/shop/start --now
          stop: /srv/shop/stop
"""
SECRETS = ("admin-s3cret", "repl-s3cret", "PRIVATE KEY")


@functools.cache
def private_key(number: int = 0) -> str:
    """Return an OpenSSH private key; the same number gives the same key within one run."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    return Ed25519PrivateKey.generate().private_bytes(*form).decode()


@functools.cache
def host_key(number: int = 0) -> str:
    """Return a host's public key as it is pinned."""
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Ed25519PrivateKey.generate().public_key().public_bytes(*form).decode()


class FleetFolder:
    """A directory with a private key in it, and the text of a fleet file that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_file = path / "id_ed25519"
        self.key_file.write_text(private_key())
        self.text = FILE.replace("KEYFILE", str(self.key_file)).replace("HOSTKEY", host_key())

    def with_change(self, old: str, new: str) -> str:
        """Return the text with one thing changed; it must be in there."""
        assert old in self.text
        return self.text.replace(old, new, 1)

    def load(self, text: str | None = None, **options):
        """Import the text, or the folder's own."""
        text = self.text if text is None else text
        return import_fleet(**{"actor": "tester", "text": text, "base_dir": self.path, **options})
