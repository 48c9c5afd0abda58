"""Certificates that end: beside the SSH keys of hosts, of the hosts themselves, and the CAs of clusters' servers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from dbops.engine.errors import Refused, Unreachable
from dbops.loaders.ssh_addresses import certificate_of
from dbops.models import Cluster, Host, Instance
from dbops.models.fleet import MOST_JUMPS
from dbops.models.secret import as_stored
from dbops.security.tls_authorities import first_to_end
from dbops.security.vault_paths import SCHEME, VaultPath

#: Vault answers, and has no certificate there: this does not change by waiting.
WRONG = ("vault.denied", "vault.missing", "vault.bad_value")


@dataclass(frozen=True, slots=True)
class LoginCertificate:
    """The certificate beside one SSH key, and the hosts of that key.

    Args:
        key: fingerprint of the certified key, so the same for a renewed certificate; empty if the certificate cannot be used.
        until: ``None`` without an end, and if it cannot be used.
        clusters: names of those with an instance on one of the hosts.
    """

    key: str
    since: datetime | None
    until: datetime | None
    hosts: list[str] = field(default_factory=list)
    clusters: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class LoginCertificates:
    """All that could be read. ``is_complete``: Vault, if it is needed, answers."""

    found: tuple[LoginCertificate, ...]
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class HostCertificateEnd:
    """The certificate that proves a host.

    Args:
        until: ``None`` without an end.
        clusters: names of those with an instance on the host, or behind it as a jump host.
    """

    pk: int
    host: str
    since: datetime
    until: datetime | None
    clusters: set[str]


@dataclass(frozen=True, slots=True)
class ServerAuthority:
    """The CA of a cluster's servers that ends first."""

    pk: int
    cluster: str
    since: datetime
    until: datetime


def login_certificates() -> LoginCertificates:
    """Read the certificates beside the SSH keys of hosts, each once. Two queries."""
    in_vault = Q(stored_key__startswith=SCHEME)
    hosts = Host.objects.annotate(stored_key=as_stored("ssh_private_key")).prefetch_related("instances__cluster")
    known: dict[str, LoginCertificate | None] = {}
    is_complete = True
    for host in hosts.filter(in_vault | (~Q(ssh_key_file="") & Q(stored_key=""))).order_by("name"):
        place = host.stored_key or host.ssh_key_file
        if place not in known:
            try:
                known[place] = _read(host.ssh_key_file, VaultPath.of_column(host.stored_key))
            except Unreachable as error:
                known[place] = None
                is_complete &= error.code in WRONG
        if found := known[place]:
            found.hosts.append(host.name)
            found.clusters.update(one.cluster.name for one in host.instances.all())
    return LoginCertificates(tuple(one for one in known.values() if one), is_complete)


def host_certificates() -> Iterator[HostCertificateEnd]:
    """Yield the certificate of each host that one proves, jump hosts among them, as connections saw it last. Three queries.

    A host without an instance, on it or behind it, is left out: nothing connects to it, so its certificate may be another by now.
    """
    hosts = list(Host.objects.exclude(certificate_name="").exclude(certificate_since=None).order_by("name"))
    served = _clusters_by_host() if hosts else {}
    for host in hosts:
        if host.certificate_since and (clusters := served.get(host.pk)):
            yield HostCertificateEnd(host.pk, host.name, host.certificate_since, host.certificate_until, clusters)


def _clusters_by_host() -> dict[int, set[str]]:
    """Return the clusters whose connections use each host, as its own or as a jump host."""
    above = dict(Host.objects.values_list("pk", "jump_host"))
    found: dict[int, set[str]] = {}
    for host, cluster in Instance.objects.values_list("host", "cluster__name").distinct():
        at: int | None = host
        for _ in range(MOST_JUMPS + 1):
            if at is not None:
                found.setdefault(at, set()).add(cluster)
                at = above[at]
    return found


def server_authorities() -> Iterator[ServerAuthority]:
    """Yield the CA of each cluster that has one. One query."""
    for pk, name, pem in Cluster.objects.exclude(tls_ca="").order_by("name").values_list("pk", "name", "tls_ca"):
        if found := first_to_end(pem):
            yield ServerAuthority(pk, name, found.since, found.until)


def _read(key_file: str, path: VaultPath | None) -> LoginCertificate | None:
    try:
        found = certificate_of(Host(ssh_key_file=key_file, ssh_private_key=path or ""))
    except Refused:
        return LoginCertificate("", None, None)
    return LoginCertificate(found.fingerprint, found.since, found.until) if found else None
