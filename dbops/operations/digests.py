"""Request a reading of an instance's top statements. A worker takes it; no page opens a connection."""

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.messaging.wakeups import publish_digest_reading
from dbops.models import DigestReading, Instance
from dbops.security.permissions import require_operator


def request_digest_reading(*, actor: User, instance: Instance, schema: str) -> DigestReading:
    """Request a reading. Return the row, or that of the reading that already runs.

    Raises:
        Refused: ``access.denied``; no name of a schema (``digests.schema``).
    """
    operation = phrase("Reading top statements of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if not schema or len(schema) > 64 or not schema.isprintable():
        raise Refused("digests.schema", operation, cause=phrase("the name of the schema is missing or not usable"))
    by = actor.get_username()
    try:
        with transaction.atomic():
            row = DigestReading.objects.create(
                instance=instance,
                schema=schema,
                slot=instance.pk,
                requested_by=by,
                requested_at=clock.now(),
                status=DigestReading.Statuses.QUEUED,
            )
            append(
                actor=by,
                action="digests.requested",
                subject=instance.name,
                detail={"reading": row.pk, "schema": schema},
            )
            publish_digest_reading(row.pk)
    except IntegrityError:
        running = DigestReading.objects.filter(slot=instance.pk).first()
        # None: it has just ended, so its slot is free again
        return running or request_digest_reading(actor=actor, instance=instance, schema=schema)
    return row
