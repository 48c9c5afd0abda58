"""Queue automatic stream measurements from each backup instance's host to each replica's host, one at a time."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from dbops.audit.log import SYSTEM, append
from dbops.engine.facts.instance import HostFacts
from dbops.engine.states import Role
from dbops.engine.tuning.transport import choose_ciphers
from dbops.loaders.host_usage import why_in_use
from dbops.loaders.members import member_of
from dbops.models import ConnectionTest, Host, Instance

Kinds, Statuses = ConnectionTest.Kinds, ConnectionTest.Statuses
#: Seconds before a failed measurement is retried.
AGAIN_AFTER_FAILURE = timedelta(days=1)


def queue_due(now: datetime) -> int | None:
    """Queue one due measurement between two unused hosts. Return its id, or ``None``.

    A pair is due if it was never measured, if its measurement is older than the setting, or if the common ciphers changed.
    """
    if settings.LINK_TEST_INTERVAL_SECONDS <= 0:
        return None
    tests = ConnectionTest.objects.filter(kind=Kinds.STREAM)
    if tests.filter(status__in=(Statuses.QUEUED, Statuses.RUNNING)).exists():
        return None
    for source, target, ciphers in _pairs():
        if _is_due(source, target, ciphers, now) and not why_in_use((source, target)):
            return _queue(source, target, now)
    return None


def _pairs() -> Iterator[tuple[Host, Host, str]]:
    """Yield each pair of hosts that a rebuild would stream between, with their common ciphers. Two queries."""
    members = list(Instance.objects.select_related("host", "cluster", "state").order_by("name"))
    facts = {item.pk: _host_facts(item) for item in members}
    seen: set[tuple[int, int]] = set()
    for source in (item for item in members if item.role == Role.BACKUP):
        for target in (item for item in members if item.role == Role.REPLICA and item.cluster_id == source.cluster_id):
            key, known = (source.host_id, target.host_id), (facts[source.pk], facts[target.pk])
            if key[0] == key[1] or key in seen or known[0] is None or known[1] is None:
                continue
            seen.add(key)
            yield source.host, target.host, choose_ciphers(known[0], known[1])


def _host_facts(instance: Instance) -> HostFacts | None:
    facts = member_of(instance).facts
    return facts.host if facts else None


def _is_due(source: Host, target: Host, ciphers: str, now: datetime) -> bool:
    """Return whether a pair is due. One query."""
    newest = ConnectionTest.objects.filter(kind=Kinds.STREAM, source_host=source, host=target).first()
    if newest is None or newest.finished_at is None:
        return newest is None
    if newest.status != Statuses.PASSED:
        return newest.finished_at < now - AGAIN_AFTER_FAILURE
    is_old = newest.finished_at < now - timedelta(seconds=settings.LINK_TEST_INTERVAL_SECONDS)
    return is_old or not newest.result.get("rates") or newest.result.get("ciphers_offered") != ciphers


def _queue(source: Host, target: Host, now: datetime) -> int | None:
    """Write the row; of two simultaneous calls the second finds the slot taken, which is no failure."""
    try:
        with transaction.atomic():
            row = ConnectionTest.objects.create(
                kind=Kinds.STREAM,
                uid=uuid.uuid4().hex,
                slot=f"stream:{source.pk}:{target.pk}",
                requested_by=SYSTEM,
                requested_at=now,
                status=Statuses.QUEUED,
                host=target,
                source_host=source,
            )
            append(
                actor=SYSTEM, action="test.requested", subject=row.subject, detail={"test": row.pk, "kind": row.kind}
            )
    except IntegrityError:
        return None
    return row.pk
