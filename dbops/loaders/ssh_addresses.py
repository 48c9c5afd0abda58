"""Where and how dbops logs in to a host, from its row and those of its jump hosts."""

from pathlib import Path

from dbops.database import clock
from dbops.drivers.ssh_transport import SshAddress, check_private_key
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.loaders.gates import gate_of
from dbops.loaders.host_authorities import proof_of
from dbops.models import Host
from dbops.models.fleet import MOST_JUMPS
from dbops.models.secret import vault_path
from dbops.security.ssh_certificates import UserCertificate, read_certificate
from dbops.security.vault import vault

#: For ``select_related`` of a host: threads without a connection to dbops's own database need all jump hosts.
JUMPS = "__".join(["jump_host"] * MOST_JUMPS)


def ssh_address_of(host: Host) -> SshAddress:
    """Return address and credentials of a host, and of every jump host on the way.

    Raises:
        Refused: a key file of the inventory cannot be read (``ssh.key_file``), or a stored key (``secret.lost``); a certificate is not
            valid (``ssh.bad_certificate``) or not valid now (``ssh.certificate_expired``); the CAs of a host's certificate cannot be read
            (``ssh.host_ca_file``).
        Unreachable, NoAccess: as ``security.vault.Vault.read``.
    """
    return SshAddress(
        address=host.ssh_address,
        port=host.ssh_port,
        user=host.ssh_user,
        private_key=private_key_of(host),
        host_key=host.host_key,
        proof=proof_of(host),
        certificate=_certificate_text(host),
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
            proof=proof_of(jump),
            certificate=_certificate_text(jump),
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
            phrase("Reading the SSH key for {host}", host=host.name),
            cause=phrase(
                "{file}: {problem}", file=host.ssh_key_file or phrase("(no file given)"), problem=error.strerror
            ),
        ) from error


def certificate_of(host: Host) -> UserCertificate | None:
    """Return the certificate beside the host's key file, as OpenSSH finds it: ``FILE-cert.pub``; ``None`` without one.

    It is read for each connection: what issues certificates for hours replaces the file. Beside a key in Vault it is the field
    ``FIELD-cert.pub`` of the same secret.

    Raises:
        Refused: it cannot be read, or is not one (``ssh.bad_certificate``).
        Unreachable, NoAccess: as ``security.vault.Vault.read``.
    """
    if kept := vault_path(host, "ssh_private_key"):
        beside = kept.beside("-cert.pub")
        return read_certificate(vault().read(beside)) if vault().has(beside) else None
    if host.ssh_private_key or not host.ssh_key_file:
        return None
    file = Path(f"{host.ssh_key_file}-cert.pub")
    try:
        return read_certificate(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or phrase("it is not text")
        raise Refused(
            "ssh.bad_certificate",
            phrase("Reading the SSH certificate for {host}", host=host.name),
            cause=phrase("{file}: {problem}", file=file, problem=found),
        ) from None


def _certificate_text(host: Host) -> str:
    """Return the line of the certificate, if it is valid now and for the host's key; ``""`` without one."""
    found = certificate_of(host)
    if found is None:
        return ""
    operation = phrase("Logging in to {host} with an SSH certificate", host=host.name)
    if not found.is_valid_at(clock.now()):
        until = f"{found.until:%Y-%m-%d %H:%M} UTC" if found.until else phrase("its end")
        cause = phrase(
            "{name} is valid from {since} UTC until {until}",
            name=f"{found.name!r}",
            since=f"{found.since:%Y-%m-%d %H:%M}",
            until=until,
        )
        raise Refused("ssh.certificate_expired", operation, cause=cause)
    if found.fingerprint != check_private_key(private_key_of(host)):
        raise Refused(
            "ssh.bad_certificate",
            operation,
            cause=phrase("{name} is of the key {fingerprint}", name=f"{found.name!r}", fingerprint=found.fingerprint),
        )
    return found.text
