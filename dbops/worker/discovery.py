"""Run requested discoveries: one row, one run, and no stored password afterwards."""

import logging
from datetime import timedelta

from django.db.models import Q

from dbops.database import clock
from dbops.drivers.discover import Bounds, discover
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import to_record
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database
from dbops.engine.topology.nodes import Address
from dbops.loaders.ssh_addresses import JUMPS, jump_of
from dbops.models import Discovery, Instance
from dbops.security.redaction import without_nul
from dbops.worker.connections import connect_with, open_database

log = logging.getLogger(__name__)

BOUNDS = Bounds(servers=64, seconds=30.0)
#: Seconds for one address: the connection, and each answer.
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 5.0
#: After these seconds a discovery has no living worker.
RUNS_AT_MOST_SECONDS, WAITS_AT_MOST_SECONDS = 120, 600


def run_discovery(discovery_id: int, bounds: Bounds = BOUNDS) -> bool:
    """Run one queued discovery. Return whether it was queued: a second message does nothing."""
    mine = Discovery.objects.filter(pk=discovery_id)
    if not mine.filter(status=Discovery.Statuses.QUEUED).update(
        status=Discovery.Statuses.RUNNING, started_at=clock.now()
    ):
        return False
    row = mine.select_related("cluster").get()
    try:
        listed = _listed() if row.cluster else None
        found = discover((row.address, row.port), lambda host, port: _open(row, listed, host, port), bounds)
        _end(row.pk, Discovery.Statuses.DONE, result=without_nul(to_record(found)))
    except BaseException as error:
        _end(row.pk, Discovery.Statuses.FAILED, error=_error("a fault in dbops itself", type(error).__name__))
        raise
    return True


def _listed() -> dict[Address, Instance]:
    """Return the instances that people entered in the inventory by each of their addresses. One query."""
    found: dict[Address, Instance] = {}
    for instance in Instance.objects.select_related(f"host__{JUMPS}", "cluster"):
        found[instance.address.casefold(), instance.port] = instance
        for name in (instance.host.ssh_address, instance.host.stream_address):
            if name:
                found.setdefault((name.casefold(), instance.port), instance)
    return found


def _open(row: Discovery, listed: dict[Address, Instance] | None, host: str, port: int) -> Database:
    """Open a connection to a discovered server. It runs in threads, which have no connection to dbops's own database.

    Args:
        listed: addresses where a stored account may log in, because replicas report their own address unverified. ``None`` for an
            account entered for this discovery, which may log in everywhere.

    Raises:
        Refused: the address is not listed (``discovery.not_listed``).
    """
    instance = listed.get((host.casefold(), port)) if listed is not None else None
    if listed is not None and instance is None:
        raise Refused(
            "discovery.not_listed",
            phrase("Reading {host}:{port}", host=host, port=port),
            cause=phrase("the server is not in the inventory, and dbops sends stored accounts only to listed servers"),
        )
    if instance and instance.cluster_id == row.cluster_id and instance.address.casefold() == host.casefold():
        return open_database(instance, connect_timeout_seconds=CONNECT_SECONDS, read_timeout_seconds=ANSWER_SECONDS)
    user, password = (row.cluster.admin_user, row.cluster.admin_password) if row.cluster else (row.user, row.password)
    return connect_with(
        host,
        port,
        user,
        password,
        connect_timeout_seconds=CONNECT_SECONDS,
        read_timeout_seconds=ANSWER_SECONDS,
        jump=jump_of(instance.host) if instance else None,
        tls_ca=row.cluster.tls_ca if row.cluster else "",
    )


def _end(pk: int, status: str, **values: object) -> bool:
    """End the discovery and remove the password from the row, in one write."""
    rows = Discovery.objects.filter(pk=pk, status__in=(Discovery.Statuses.QUEUED, Discovery.Statuses.RUNNING))
    return bool(rows.update(status=status, finished_at=clock.now(), password="", **values))


def _error(found: str, detail: str = "") -> dict[str, str]:
    return {"cause": f"{found} ({detail})" if detail else found}


def discoveries_due() -> list[int]:
    """End discoveries without a living worker, and return those that still wait for one."""
    now = clock.now()
    lost = Q(status=Discovery.Statuses.RUNNING, started_at__lt=now - timedelta(seconds=RUNS_AT_MOST_SECONDS))
    lost |= Q(status=Discovery.Statuses.QUEUED, requested_at__lt=now - timedelta(seconds=WAITS_AT_MOST_SECONDS))
    for pk in Discovery.objects.filter(lost).values_list("pk", flat=True):
        if _end(pk, Discovery.Statuses.FAILED, error=_error("its worker was stopped, or none took it up in time")):
            log.warning("discovery %s was ended: no worker was at it", pk)
    return list(Discovery.objects.filter(status=Discovery.Statuses.QUEUED).values_list("pk", flat=True))
