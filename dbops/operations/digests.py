"""Request a reading of an instance's top statements. A worker takes it; no page opens a connection."""

from django.contrib.auth.models import User

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import Role
from dbops.lifecycle.readings import queue_reading
from dbops.messaging.wakeups import publish_digest_reading
from dbops.models import DigestReading, Instance
from dbops.security.permissions import require_operator


def request_digest_reading(*, actor: User, instance: Instance, schema: str) -> DigestReading:
    """Request a reading. Return the row, or that of the reading that already runs.

    Raises:
        Refused: ``access.denied``; the instance is a TiDB node (``flavor.tidb``); no name of a schema (``digests.schema``).
    """
    operation = phrase("Reading top statements of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if instance.role == Role.TIDB:
        cause = phrase("a TiDB node does not keep statements as MySQL and MariaDB do")
        raise Refused.unchanged(
            "flavor.tidb", operation, cause, next_step=phrase("See its statements in the TiDB Dashboard.")
        )
    if not schema or len(schema) > 64 or not schema.isprintable():
        raise Refused("digests.schema", operation, cause=phrase("the name of the schema is missing or not usable"))
    row = DigestReading(instance=instance, schema=schema, requested_by=actor.get_username())
    return queue_reading(row, action="digests.requested", detail={"schema": schema}, wake=publish_digest_reading)
