"""Request connection tests. A worker runs them; no page opens a connection."""

import uuid

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.loaders.host_usage import refuse_in_use, why_in_use
from dbops.messaging.wakeups import publish_test
from dbops.models import ConnectionTest, Host, Instance
from dbops.operations.host_access import require_on_hosts
from dbops.security.permissions import require_operator

Kinds, Statuses = ConnectionTest.Kinds, ConnectionTest.Statuses


def request_ssh(*, actor: User, host: Host) -> ConnectionTest:
    """Request an SSH test of a host. Return it, or the test that is already active.

    Raises:
        Refused: ``access.denied``.
    """
    require_on_hosts(actor, phrase("Testing SSH to {host}", host=host.name), [host])
    return _ask(actor, Kinds.SSH, f"ssh:{host.pk}", host=host)


def request_mysql(*, actor: User, instance: Instance) -> ConnectionTest:
    """Request a test of an instance's accounts: login and privileges. Returns and raises as ``request_ssh``."""
    require_operator(actor, phrase("Testing MySQL of {instance}", instance=instance.name), instance.cluster_id)
    return _ask(actor, Kinds.MYSQL, f"mysql:{instance.pk}", instance=instance)


def request_stream(*, actor: User, source: Host, target: Host) -> ConnectionTest:
    """Request a stream test: the rate of zeros between two hosts, over a rebuild's connection. Returns as ``request_ssh``.

    Raises:
        Refused: ``access.denied``; one host twice (``test.same_host``); a rebuild, a backup or another test of the stream uses
            one of them (``test.busy``).
    """
    operation = phrase("Testing the stream from {source} to {target}", source=source.name, target=target.name)
    require_on_hosts(actor, operation, [source, target])
    if source.pk == target.pk:
        raise Refused(
            "test.same_host",
            operation,
            cause=phrase("source and target are one host"),
        )
    slot = f"stream:{source.pk}:{target.pk}"
    if running := ConnectionTest.objects.filter(slot=slot).first():
        return running
    if why := why_in_use((source, target)):
        refuse_in_use(operation, why)
    return _ask(actor, Kinds.STREAM, slot, host=target, source_host=source)


def _ask(actor: User, kind: str, slot: str, **about: Host | Instance) -> ConnectionTest:
    """Write the row and wake a worker. ``slot`` is unique: of two simultaneous clicks the second gets the first one's row."""
    by = actor.get_username()
    try:
        with transaction.atomic():
            row = ConnectionTest.objects.create(
                kind=kind,
                uid=uuid.uuid4().hex,
                slot=slot,
                requested_by=by,
                requested_at=clock.now(),
                status=Statuses.QUEUED,
                **about,
            )
            append(actor=by, action="test.requested", subject=row.subject, detail={"test": row.pk, "kind": kind})
            publish_test(row.pk)
    except IntegrityError:
        running = ConnectionTest.objects.filter(slot=slot).first()
        # None: it has just ended, so its slot is free again
        return running or _ask(actor, kind, slot, **about)
    return row
