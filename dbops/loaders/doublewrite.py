"""Load whether an instance could run without doublewrite, with what was attested of its storage."""

from dbops.database import clock
from dbops.engine.facts.instance import InstanceFacts, from_record
from dbops.engine.states import Role
from dbops.engine.tuning.doublewrite import DoublewriteAdvice, judge_doublewrite
from dbops.models import Instance, InstanceState, StorageAttestation


def doublewrite_of(instance: Instance, attestation: StorageAttestation | None) -> DoublewriteAdvice | None:
    """Return the advice, ``None`` if the server was not read, or is a TiDB node: it has no InnoDB. One query."""
    if instance.role == Role.TIDB:
        return None
    rows = InstanceState.objects.filter(instance__cluster=instance.cluster_id).values_list("instance__name", "record")
    cluster = {name: from_record(InstanceFacts, record) for name, record in rows if record}
    known = attestation.attestation() if attestation else None
    return judge_doublewrite(instance.name, cluster, known, clock.now().date())


def attestation_of(instance: Instance) -> StorageAttestation | None:
    """Return the attestation of an instance's storage, ``None`` without one. One query."""
    return StorageAttestation.objects.filter(instance=instance).first()
