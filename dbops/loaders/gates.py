"""The gate of a host in ``sudo`` mode."""

from functools import cache

from django.conf import settings

from dbops.drivers.gate import Gate
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.models import Host
from dbops.security.gate_key import GateKey, gate_key


def gate_of(host: Host) -> Gate:
    """Return the gate of a host."""
    return Gate(host.host_key, _key(settings.SECRET_KEY))


def installable_gate_of(host: Host) -> Gate:
    """Return the gate of a host, to install it there.

    Raises:
        Refused: the host has no accepted host key (``ssh.host_key_unknown``), or its SSH user is root (``ssh.gate_needless``).
    """
    operation = phrase("Making the gate of {host}", host=host.name)
    if host.ssh_user == "root":
        raise Refused("ssh.gate_needless", operation, cause=phrase("the SSH user is root"))
    if not host.host_key:
        raise Refused("ssh.host_key_unknown", operation, cause=phrase("no host key was accepted"))
    return gate_of(host)


@cache
def _key(secret_key: str) -> GateKey:
    return gate_key(secret_key)
