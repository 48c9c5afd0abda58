"""Whether doublewrite could be off for good: every reason against it is named, and the device's word alone is never enough."""

from dataclasses import replace

from dbops.engine.facts.instance import InstanceFacts, StorageFacts, from_record, to_record
from dbops.engine.tuning.doublewrite import judge_doublewrite
from tests.engine import builders


def facts_on(storage: StorageFacts | None, setting: str = "ON", number: int = 13) -> InstanceFacts:
    server = replace(builders.server(number), doublewrite=setting)
    return builders.facts(number, server=server, datadir=builders.datadir(number, storage=storage))


def reasons(storage: StorageFacts | None) -> str:
    verdict = judge_doublewrite("replica-1", {"replica-1": facts_on(storage)})
    assert verdict is not None
    assert not verdict.may_be_off
    return " ".join(verdict.against)


def test_an_ordinary_disk_promises_nothing() -> None:
    found = reasons(StorageFacts("ext4", 4096, "vda", 0))
    assert "vda promises nothing" in found
    assert "ext4 has blocks of 4096 bytes" in found


def test_a_kernel_that_does_not_say_is_no_promise() -> None:
    assert "The kernel does not say" in reasons(StorageFacts("xfs", 4096, "nvme0n1", None))


def test_a_device_that_writes_whole_pages_is_not_enough() -> None:
    assert reasons(StorageFacts("ext4", 16384, "nvme0n1", 16384)) == (
        "MariaDB 10.11.19 does not ask for such writes, and the promise holds for those alone."
    )


def test_a_cluster_that_does_not_agree_is_named() -> None:
    storage = StorageFacts("ext4", 4096, "vda", 0)
    verdict = judge_doublewrite("b", {"a": facts_on(storage, "ON"), "b": facts_on(storage, "OFF")})
    assert verdict is not None
    assert verdict.is_off
    assert "Its cluster does not agree: a has ON." in verdict.against


def test_what_was_not_read_is_not_judged() -> None:
    assert judge_doublewrite("replica-1", {}) is None
    assert judge_doublewrite("replica-1", {"replica-1": builders.facts(13)}) is None


def test_an_older_record_still_reads() -> None:
    record = to_record(facts_on(StorageFacts("ext4", 4096, "vda", 0)))
    assert from_record(InstanceFacts, record).datadir.storage.device == "vda"  # type: ignore[union-attr]
    del record["datadir"]["storage"], record["server"]["doublewrite"]
    assert from_record(InstanceFacts, record).datadir.storage is None  # type: ignore[union-attr]
