"""Prove the key of a host by its certificate."""

from django.conf import settings

from dbops.database import clock
from dbops.fleetfile import sshkeys
from dbops.lifecycle.host_certificates import note_certificates
from dbops.loaders.host_authorities import host_authorities
from dbops.loaders.ssh_addresses import jump_of
from dbops.models import Host
from dbops.security.ssh_certificates import HostCertificate, check_host_certificate


def read_host_certificate(host: Host) -> HostCertificate | None:
    """Return the certificate that proves a host's key; ``None`` if the host has none, or no CA is set. Connects to the host.

    A host whose certificate is trusted must have one, and its end is noted.

    Raises:
        Refused: it proves nothing (``ssh.host_certificate``), or the CAs cannot be read (``ssh.host_ca_file``).
        Unreachable, NoAccess: as ``fleet.read_host_key``.
    """
    if not settings.SSH_HOST_CA_FILE and not host.certificate_name:
        return None
    authorities = host_authorities()
    text = sshkeys.presented_host_certificate(host.ssh_address, host.ssh_port, jump_of(host))
    if not text and not host.certificate_name:
        return None
    names = {host.certificate_name} if host.certificate_name else {host.name, host.ssh_address}
    found = check_host_certificate(text, authorities=authorities, names=names, now=clock.now())
    if host.certificate_name:
        host.seen_certificate = found.validity
        note_certificates([host])
    return found
