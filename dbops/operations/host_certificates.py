"""Prove the key of a host by its certificate."""

from pathlib import Path

from django.conf import settings

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.fleetfile import sshkeys
from dbops.loaders.ssh_addresses import jump_of
from dbops.models import Host
from dbops.security.ssh_certificates import HostCertificate, check_host_certificate, read_authorities


def read_host_certificate(host: Host) -> HostCertificate | None:
    """Return the certificate that proves a host's key; ``None`` if the host has none, or no CA is set. Connects to the host.

    Raises:
        Refused: it proves nothing (``ssh.host_certificate``), or the CAs cannot be read (``ssh.host_ca_file``).
        Unreachable, NoAccess: as ``fleet.read_host_key``.
    """
    if not settings.SSH_HOST_CA_FILE:
        return None
    try:
        authorities = read_authorities(Path(settings.SSH_HOST_CA_FILE))
    except (OSError, UnicodeDecodeError, Refused) as error:
        found = getattr(error, "strerror", None) or getattr(error, "cause", "") or "it is not text"
        raise Refused("ssh.host_ca_file", phrase("Reading the CAs of host certificates"), cause=found) from None
    text = sshkeys.presented_host_certificate(host.ssh_address, host.ssh_port, jump_of(host))
    if not text:
        return None
    names = {host.name, host.ssh_address}
    return check_host_certificate(text, authorities=authorities, names=names, now=clock.now())
