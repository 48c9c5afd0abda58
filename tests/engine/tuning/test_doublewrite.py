"""Whether doublewrite could be off for good: every reason against it is named, and the device's word alone is never enough."""

from dataclasses import replace

from dbops.engine.facts.instance import InstanceFacts, StorageFacts, from_record, to_record
from dbops.engine.tuning.doublewrite import Objection, judge_doublewrite
from tests.engine import builders


def facts_on(storage: StorageFacts | None, setting: str = "ON", number: int = 13) -> InstanceFacts:
    server = replace(builders.server(number), doublewrite=setting)
    return builders.facts(number, server=server, datadir=builders.datadir(number, storage=storage))


def reasons(storage: StorageFacts | None) -> dict[Objection, str]:
    advice = judge_doublewrite("replica-1", {"replica-1": facts_on(storage)})
    assert advice is not None
    assert not advice.may_be_off
    return dict(zip(advice.objections, advice.against, strict=True))


def test_doublewrite_is_needed_on_an_ordinary_disk() -> None:
    found = reasons(StorageFacts("ext4", 4096, "vda", 0))
    assert list(found) == [Objection.DEVICE, Objection.FILE_SYSTEM, Objection.SERVER]
    assert "vda" in found[Objection.DEVICE]
    assert "ext4" in found[Objection.FILE_SYSTEM]
    assert "4096" in found[Objection.FILE_SYSTEM]


def test_doublewrite_is_needed_when_the_kernel_is_silent() -> None:
    assert Objection.KERNEL_SILENT in reasons(StorageFacts("xfs", 4096, "nvme0n1", None))


def test_doublewrite_needs_more_than_an_atomic_device() -> None:
    found = reasons(StorageFacts("ext4", 16384, "nvme0n1", 16384))
    assert list(found) == [Objection.SERVER]
    assert "MariaDB 10.11.19" in found[Objection.SERVER]


def test_doublewrite_names_a_cluster_that_disagrees() -> None:
    storage = StorageFacts("ext4", 4096, "vda", 0)
    advice = judge_doublewrite("b", {"a": facts_on(storage, "ON"), "b": facts_on(storage, "OFF")})
    assert advice is not None
    assert advice.is_off
    assert advice.objections[-1] is Objection.CLUSTER
    assert "a has ON" in advice.against[-1]


def test_doublewrite_is_not_judged_without_facts() -> None:
    assert judge_doublewrite("replica-1", {}) is None
    assert judge_doublewrite("replica-1", {"replica-1": builders.facts(13)}) is None


def test_stored_facts_without_storage_load() -> None:
    record = to_record(facts_on(StorageFacts("ext4", 4096, "vda", 0)))
    assert from_record(InstanceFacts, record).datadir.storage.device == "vda"  # type: ignore[union-attr]
    del record["datadir"]["storage"], record["server"]["doublewrite"]
    assert from_record(InstanceFacts, record).datadir.storage is None  # type: ignore[union-attr]
