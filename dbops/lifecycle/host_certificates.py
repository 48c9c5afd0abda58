"""Note when the certificates that prove hosts end."""

from collections.abc import Iterable

from dbops.models import Host


def note_certificates(hosts: Iterable[Host]) -> None:
    """Write the certificates that connections saw, those of jump hosts among them. A host that none proved keeps its last one.

    A certificate that is known is not written again: a thousand probes can go through one jump host.
    """
    for host in hosts:
        seen = host.seen_certificate
        if seen and (seen.since, seen.until) != (host.certificate_since, host.certificate_until):
            Host.objects.filter(pk=host.pk).update(certificate_since=seen.since, certificate_until=seen.until)
