"""Generate the storage of the sample's instances: local disks, cloud volumes, and cards that write whole pages."""

from datetime import date, datetime, timedelta

from dbops.engine.facts.storage import StorageAnswers, StorageFacts, StorageLayer
from dbops.engine.tuning.doublewrite import storage_of as identity_of
from dbops.models import Instance, InstanceState, StorageAttestation
from dbops.sample.generate.clusters import SampleCluster

#: Clusters on cards that MariaDB knows, and on volumes of a cloud.
ON_CARDS, IN_CLOUD = ("sessions",), ("billing",)
ATTESTED = ("billing-p1", "billing-b1", "billing-r1")
WITHOUT_DOUBLEWRITE = "search-r2"


def storage_of(cluster: SampleCluster, instance: Instance) -> StorageFacts:
    if cluster.name in ON_CARDS:
        card = StorageLayer("sfdv0n1", "disk", 0, 4096, model="CSD-3310", identity=f"UE2237{instance.name}")
        return StorageFacts("ext4", 4096, card.name, 0, turns=False, layers=(card,), answers=StorageAnswers(4096))
    if cluster.name in IN_CLOUD:
        model = "Amazon Elastic Block Store"
        disk = StorageLayer("nvme1n1", "disk", 0, 512, model=model, identity=f"nvme.1d0f-vol0{instance.name}")
        return StorageFacts(
            *("ext4", 4096, disk.name, 0),
            turns=False,
            layers=(disk,),
            machine=("Amazon EC2", "r6in.8xlarge"),
            is_virtual=True,
            answers=StorageAnswers(16384),
        )
    disk = StorageLayer("nvme0n1", "disk", 4096, 4096, model="SAMSUNG MZQL23T8HCLS", identity=f"eui.{instance.name}")
    part = StorageLayer("nvme0n1p3", "partition", start_bytes=538968064, identity="3")
    return StorageFacts(
        "xfs", 4096, part.name, 4096, turns=False, layers=(part, disk), machine=("Dell Inc.", "PowerEdge R650")
    )


def make_attestations(instances: dict[str, Instance], now: datetime) -> None:
    """Attest the volumes of one cluster, all but one."""
    states = InstanceState.objects.in_bulk([instances[name].pk for name in ATTESTED])
    at, review = now - timedelta(days=24), date(now.year + 1, 1, 1)
    StorageAttestation.objects.bulk_create(
        StorageAttestation(
            instance=instances[name],
            kind="cloud",
            reference="AWS torn write prevention, r6in with io2 volumes; ticket OPS-2214",
            storage=identity_of(states[instances[name].pk].facts()),
            review_on=review,
            attested_by="anna.keller",
            attested_at=at,
        )
        for name in ATTESTED
    )
