"""CAs of host certificates, and the proof that a host must give where its certificate is trusted."""

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import HostAuthorities
from dbops.engine.phrases import phrase
from dbops.models import Host
from dbops.security.ssh_certificates import check_host_certificate, read_authorities


@dataclass(frozen=True, slots=True)
class CertificateProof:
    """What proves a host at each connection: a certificate of one of these CAs for its name, valid at that time.

    ``host`` gets the validity of what proved it.
    """

    host: Host
    authorities: HostAuthorities

    def check(self, certificate: str) -> None:
        """Raise ``Refused`` (``ssh.host_certificate``) if a certificate, ``""`` for none, does not prove the host."""
        names = {self.host.certificate_name}
        found = check_host_certificate(certificate, authorities=self.authorities, names=names, now=clock.now())
        self.host.seen_certificate = found.validity


def host_authorities() -> HostAuthorities:
    """Return the CAs of the settings. The file is read each time. Raises ``Refused`` (``ssh.host_ca_file``)."""
    operation = phrase("Reading the CAs of host certificates")
    if not settings.SSH_HOST_CA_FILE:
        raise Refused("ssh.host_ca_file", operation, cause=phrase("DBOPS_SSH_HOST_CA_FILE is not set"))
    try:
        return read_authorities(Path(settings.SSH_HOST_CA_FILE))
    except (OSError, UnicodeDecodeError, Refused) as error:
        found = getattr(error, "strerror", None) or getattr(error, "cause", "") or phrase("it is not text")
        raise Refused("ssh.host_ca_file", operation, cause=found) from None


def authorities_of(host: Host) -> HostAuthorities:
    """Return the CAs that prove a host; none if its pinned key does. Raises as ``host_authorities``."""
    return host_authorities() if host.certificate_name else HostAuthorities()


def proof_of(host: Host) -> CertificateProof | None:
    """Return what must prove a host; ``None``: its pinned key. Raises as ``host_authorities``."""
    return CertificateProof(host, host_authorities()) if host.certificate_name else None
