"""Where and how dbops logs in to a host, from its row and those of its jump hosts."""

from pathlib import Path

from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.errors import Refused
from dbops.loaders.gates import gate_of
from dbops.models import Host
from dbops.models.fleet import MOST_JUMPS

#: For ``select_related`` of a host: threads without a connection to dbops's own database need all jump hosts.
JUMPS = "__".join(["jump_host"] * MOST_JUMPS)


def ssh_address_of(host: Host) -> SshAddress:
    """Return address and credentials of a host, and of every jump host on the way.

    Raises:
        Refused: a key file of the inventory cannot be read (``ssh.key_file``), or a stored key (``secret.lost``).
    """
    return SshAddress(
        address=host.ssh_address,
        port=host.ssh_port,
        user=host.ssh_user,
        private_key=private_key_of(host),
        host_key=host.host_key,
        gate=gate_of(host) if host.sudo else None,
        jump=jump_of(host),
    )


def jump_of(host: Host) -> SshAddress | None:
    """Return the jump host that opens the connections to a host and to the servers on it; ``None``: the dashboard does.

    Raises as ``ssh_address_of``.
    """
    way: SshAddress | None = None
    for jump in jump_hosts_of(host):
        way = SshAddress(
            address=jump.ssh_address,
            port=jump.ssh_port,
            user=jump.ssh_user,
            private_key=private_key_of(jump),
            host_key=jump.host_key,
            jump=way,
            name=jump.name,
        )
    return way


def jump_hosts_of(host: Host) -> list[Host]:
    """Return the jump hosts of a host, in the order of the connections: the dashboard reaches the first one itself."""
    found: list[Host] = []
    jump = host.jump_host
    while jump is not None and len(found) < MOST_JUMPS:
        found.insert(0, jump)
        jump = jump.jump_host
    return found


def private_key_of(host: Host) -> str:
    """Return the text of the host's private key, from the row or from its file."""
    if host.ssh_private_key:
        return host.ssh_private_key
    try:
        return Path(host.ssh_key_file).read_text()
    except OSError as error:
        raise Refused(
            "ssh.key_file",
            f"Reading the SSH key for {host.name}",
            cause=f"{host.ssh_key_file or '(no file given)'}: {error.strerror}",
        ) from error
