"""Whether doublewrite can be off: every layer is rated, and only the server's own doing is evidence."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from dbops.engine.facts.instance import InstanceFacts, PageWrites, RunTimeSetting, from_record, to_record
from dbops.engine.facts.storage import StorageAnswers, StorageFacts, StorageLayer
from dbops.engine.facts.stored_data import FileLink, StoredData, StoredFiles
from dbops.engine.flavors import flavor_for
from dbops.engine.tuning.doublewrite import (
    Attestation,
    DoublewriteAdvice,
    DoublewriteVerdict,
    Standing,
    how_to_set,
    judge_doublewrite,
    repairs,
    storage_of,
)
from dbops.engine.tuning.storage_layers import ENOUGH_PAGES, Ruling
from tests.engine import builders

TODAY = date(2026, 1, 2)
DIRECT = PageWrites("O_DIRECT", use_atomic="ON", pages=900_000, doublewritten=880_000)
EBS, PERC, PLAIN = "Amazon Elastic Block Store", "DELL PERC H755", "SAMSUNG MZQL23T8HCLS"
MISSING = StorageAnswers(4096)


def disk(name: str = "nvme0n1", atomic: int | None = 0, model: str = PLAIN, logical: int = 512) -> StorageLayer:
    return StorageLayer(name, "disk", atomic, logical, model=model, identity="S1")


def below(*layers: StorageLayer, kind: str = "ext4", block: int = 4096, **changes: Any) -> StorageFacts:
    device = layers[0].name if layers else "-"
    values: dict[str, Any] = {"atomic_bytes": None, "layers": layers, "answers": MISSING, **changes}
    return StorageFacts(kind, block, device, **values)


def facts_on(storage: StorageFacts | None, setting: str = "ON", number: int = 13, **server: Any) -> InstanceFacts:
    values = {"doublewrite": setting, "page_writes": DIRECT, **server}
    found = replace(builders.server(number), **values)
    return builders.facts(number, server=found, datadir=builders.datadir(number, storage=storage))


def judged(storage: StorageFacts | None, attestation: Attestation | None = None, **server: Any) -> DoublewriteAdvice:
    advice = judge_doublewrite("replica-1", {"replica-1": facts_on(storage, **server)}, attestation, TODAY)
    assert advice is not None
    return advice


CLUSTERS = StorageAnswers(cluster_bytes=16384)
KEPT = [
    # this machine: ext4 on a virtio disk whose kernel promises nothing
    (below(disk("vda", 0, "0x1af4"), is_virtual=True), {}, "device"),
    (below(disk(atomic=4096)), {}, "device"),
    (below(disk(atomic=None)), {}, "device"),
    # what the NVMe devices say holds for no other disk
    (below(disk("sda", None), answers=StorageAnswers(nvme_atomic_bytes=16384)), {}, "device"),
    (below(kind="nfs4"), {}, "file-system"),
    (below(kind="fuse.sshfs"), {}, "file-system"),
    (below(kind="zfs", answers=StorageAnswers(record_bytes=8192)), {}, "file-system"),
    (below(disk(model=EBS), answers=CLUSTERS), {"page_writes": replace(DIRECT, flush_method="fsync")}, "flush"),
    (below(disk(model=EBS), answers=CLUSTERS), {"page_writes": replace(DIRECT, buffering="ON")}, "flush"),
    (below(disk(model=EBS), answers=CLUSTERS), {"page_writes": None}, "flush"),
    (below(disk(model=EBS), answers=CLUSTERS), {"page_size": 65536}, "device"),
    (below(StorageLayer("p1", "partition", start_bytes=31744), disk(model=EBS)), {}, "device"),
    (below(StorageLayer("dm-0", "dm", 0), disk(atomic=16384)), {}, "device"),
    (below(StorageLayer("md0", "md", 0), disk(model=EBS)), {}, "device"),
    (below(StorageLayer("loop0", "loop", 0), answers=CLUSTERS), {}, "device"),
    (below(kind="tmpfs"), {}, "file-system"),
    (replace(below(), layers=None), {}, "storage"),
    (None, {}, "storage"),
]


@pytest.mark.parametrize(("storage", "server", "layer"), KEPT)
def test_doublewrite_is_kept_with_the_layer_that_decides(
    storage: StorageFacts | None, server: dict[str, Any], layer: str
) -> None:
    advice = judged(storage, **server)
    assert advice.verdict is DoublewriteVerdict.KEEP
    assert advice.decides is not None
    assert advice.decides.code == layer
    assert not advice.may_be_off


TO_ATTEST = [
    below(disk(model=EBS), answers=CLUSTERS),
    below(disk(model=EBS)),  # a small block alone does not rule it out
    below(disk(model="nvme_card-pd"), kind="xfs"),
    below(disk(model="MSFT NVMe Accelerator v1.0")),
    below(StorageLayer("dm-0", "dm", 0), disk(model=EBS), answers=CLUSTERS),
    below(StorageLayer("nvme0n1p1", "partition", start_bytes=1048576), disk(model=EBS)),
    below(disk("sda", 0, PERC), kind="xfs"),
    # the kernel's promise is for RWF_ATOMIC alone: with blocks of a page, too
    below(disk(atomic=16384), block=16384),
    below(disk(atomic=None), answers=StorageAnswers(nvme_atomic_bytes=16384)),
    below(kind="zfs", answers=StorageAnswers(record_bytes=16384)),
    below(kind="zfs", answers=None),
    below(disk("vda", None, "0x1af4"), is_virtual=True),
    below(kind="overlay", is_container=True),
]


@pytest.mark.parametrize("storage", TO_ATTEST)
def test_promise_has_to_be_attested(storage: StorageFacts) -> None:
    advice = judged(storage)
    assert (advice.verdict, advice.decides, advice.may_be_off) == (DoublewriteVerdict.ATTEST, None, False)
    attested = judged(storage, Attestation("cloud", advice.storage))
    assert (attested.standing, attested.may_be_off) == (Standing.VALID, True)


def test_only_a_server_that_leaves_it_out_is_evidence() -> None:
    card, none = below(disk("sfdv0n1", 0, "CSD-3310")), replace(DIRECT, doublewritten=0)
    for setting in ("ON", "fast"):
        assert judged(card, page_writes=none, setting=setting).verdict is DoublewriteVerdict.SAFE
    assert judged(card, page_writes=replace(none, pages=ENOUGH_PAGES)).verdict is DoublewriteVerdict.SAFE
    rulings = {row.code: row.ruling for row in judged(card, page_writes=none).layers}
    assert rulings == {
        "server": Ruling.FITS,
        "page": Ruling.NOTE,
        "files": Ruling.FITS,
        "flush": Ruling.FITS,
    } | dict.fromkeys(("file-system", "device"), Ruling.NOTE)
    for storage, server in (
        (card, {}),  # it wrote pages twice
        (card, {"page_writes": replace(none, use_atomic="OFF")}),
        (card, {"page_writes": replace(none, pages=0)}),
        (card, {"page_writes": replace(none, pages=ENOUGH_PAGES - 1)}),
        (card, {"page_writes": none, "setting": "OFF"}),  # then the count is always 0
        (card, {"page_writes": none, "setting": "0"}),
        (card, {"page_writes": none, "setting": "DETECT_ONLY"}),
        # it was off before, so the count says nothing of the time since
        (card, {"page_writes": none, "set_at_run_time": (RunTimeSetting("innodb_doublewrite", "ON", "ON"),)}),
        (card, {"page_writes": none, "set_at_run_time": None}),
        (card, {"page_writes": none, "flavor": "mysql", "version": "8.0.46"}),
        (below(disk()), {"page_writes": none}),
        (replace(below(kind="zfs"), device="sfdv0n1"), {"page_writes": none}),  # a pool with that name
    ):
        assert judged(storage, **server).verdict is not DoublewriteVerdict.SAFE


@pytest.mark.parametrize(
    ("kind", "ruling"),
    [(kind, Ruling.PROMISE) for kind in ("ext4", "xfs", "btrfs", "zfs", "overlay")]
    + [(kind, Ruling.AGAINST) for kind in ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "fuse.sshfs")]
    # types without a rule, and what may be in the place of one
    + [(kind, Ruling.UNKNOWN) for kind in ("ext2", "ext3", "f2fs", "bcachefs", "ecryptfs", "aufs", "fuseblk", "beegfs")]
    + [(kind, Ruling.UNKNOWN) for kind in ("data", "-", "", "EXT4", "ext4x", "newfs")],
)
def test_only_file_systems_with_a_rule_count_as_local(kind: str, ruling: Ruling) -> None:
    rows = judged(below(disk(model=EBS), kind=kind)).layers
    assert next(row.ruling for row in rows if row.code == "file-system") is ruling


@pytest.mark.parametrize(
    ("said", "ruling"),
    [(StorageAnswers(16384), Ruling.FITS), (StorageAnswers(4096), Ruling.PROMISE), (None, Ruling.PROMISE)],
)
def test_clusters_of_ext4_count_as_its_unit(said: StorageAnswers | None, ruling: Ruling) -> None:
    rows = judged(below(disk(model=EBS), answers=said)).layers
    assert next(row.ruling for row in rows if row.code == "file-system") is ruling


@pytest.mark.parametrize(
    ("server", "files"),
    [
        ({"external_paths": ("/fast/undo",)}, StoredFiles(links=())),
        ({"stored": StoredData(outside_files=("/fast/shop/a.ibd",))}, StoredFiles(links=())),
        ({"stored": None}, StoredFiles(links=())),
        ({}, StoredFiles(links=(FileLink("d", "shop", "/fast/shop"),))),
        ({}, StoredFiles(links=(FileLink("i", "shop/a.isl"),))),
        ({}, StoredFiles(links=(FileLink("f", "ibdata1", "/fast/ibdata1"),))),
        ({}, StoredFiles(links=None)),
        ({}, None),
    ],
)
def test_files_outside_the_data_directory_are_unknown(server: dict[str, Any], files: StoredFiles | None) -> None:
    card = {"page_writes": replace(DIRECT, doublewritten=0)}
    for storage, more in ((below(disk(model=EBS), answers=CLUSTERS), {}), (below(disk("sfdv0n1")), card)):
        found = facts_on(storage, **server, **more)
        found = replace(found, datadir=replace(found.datadir, stored=files))  # type: ignore[type-var]
        attested = Attestation("cloud", storage_of(found))
        advice = judge_doublewrite("replica-1", {"replica-1": found}, attested, TODAY)
        assert advice is not None
        assert (advice.verdict, advice.decides.code, advice.may_be_off) == (DoublewriteVerdict.KEEP, "files", False)  # type: ignore[union-attr]


def test_links_that_are_no_data_do_not_matter() -> None:
    found = facts_on(below(disk(model=EBS)))
    links = (FileLink("f", "server-cert.pem", "/etc/ssl/db.pem"),)
    found = replace(found, datadir=replace(found.datadir, stored=StoredFiles(links=links)))  # type: ignore[type-var]
    advice = judge_doublewrite("replica-1", {"replica-1": found}, None, TODAY)
    assert advice is not None
    assert advice.verdict is DoublewriteVerdict.ATTEST


def test_attestation_is_void_for_another_storage_and_ends_at_its_review() -> None:
    storage = below(disk(model=EBS))
    known = storage_of(facts_on(storage))
    assert judged(storage, Attestation("cloud", known, date(2026, 1, 3))).standing is Standing.VALID
    assert judged(storage, Attestation("cloud", known, TODAY)).standing is Standing.EXPIRED
    assert judged(replace(storage, layers=None), Attestation("cloud", known)).standing is Standing.UNCONFIRMED
    for other in (
        replace(storage, filesystem="xfs"),
        below(replace(disk(model=EBS), identity="S2")),
        below(replace(disk(model=EBS), model="other")),
    ):
        advice = judged(other, Attestation("cloud", known))
        assert (advice.standing, advice.may_be_off) == (Standing.VOID, False)
    # names of devices change at a start of the host
    assert judged(below(disk("nvme7n1", model=EBS)), Attestation("cloud", known)).standing is Standing.VALID


def test_attestation_is_void_on_another_machine() -> None:
    storage = below(StorageLayer("vda", "disk", None, 512, model="0x1af4"), is_virtual=True)
    here = facts_on(storage)
    attested = Attestation("vendor", storage_of(here))
    for host, standing in (
        (here.host, Standing.VALID),
        (replace(builders.host(13), hostname="renamed"), Standing.VALID),
        (builders.host(14), Standing.VOID),
        (replace(builders.host(13), machine_id=""), Standing.UNCONFIRMED),
        (None, Standing.UNCONFIRMED),
    ):
        advice = judge_doublewrite("replica-1", {"replica-1": replace(here, host=host)}, attested, TODAY)
        assert advice is not None
        assert (advice.verdict, advice.standing) == (DoublewriteVerdict.ATTEST, standing)
        assert advice.may_be_off is (standing is Standing.VALID)


def test_attestation_does_not_outweigh_what_rules_it_out() -> None:
    storage = below(disk(model=EBS))
    attested = Attestation("cloud", storage_of(facts_on(storage)))
    assert not judged(storage, attested, page_writes=replace(DIRECT, flush_method="fsync")).may_be_off


@pytest.mark.parametrize(
    ("setting", "does"),
    [("ON", True), ("fast", True), ("DETECT_AND_RECOVER", True), ("1", True), ("OFF", False), ("0", False)]
    + [("DETECT_ONLY", False)],
)
def test_setting_is_read_as_its_version_means_it(setting: str, *, does: bool) -> None:
    assert repairs(setting) is does
    assert judged(below(disk()), setting=setting).must_turn_on is not does


def test_cluster_that_disagrees_is_named() -> None:
    storage = below(disk())
    cluster = {"a": facts_on(storage), "b": facts_on(storage, "OFF"), "c": facts_on(storage, "fast")}
    for name, others in (("a", [("b", "OFF")]), ("b", [("a", "ON"), ("c", "fast")])):
        advice = judge_doublewrite(name, cluster, None, TODAY)
        assert advice is not None
        assert list(advice.others) == others


def test_doublewrite_is_not_judged_without_facts() -> None:
    assert judge_doublewrite("replica-1", {}, None, TODAY) is None
    assert judge_doublewrite("replica-1", {"replica-1": builders.facts(13)}, None, TODAY) is None


@pytest.mark.parametrize(
    ("flavor", "version", "statement"),
    [
        ("mariadb", "10.11.19", ""),
        ("mariadb", "11.8.9", "SET GLOBAL innodb_doublewrite = OFF"),
        ("mysql", "5.7.44", ""),
        ("mysql", "8.4.5", ""),
    ],
)
def test_change_needs_a_restart_where_the_server_says_so(flavor: str, version: str, statement: str) -> None:
    found = how_to_set(flavor_for(version, flavor), "OFF")
    assert (found.line, found.statement, found.needs_restart) == (
        "innodb_doublewrite = OFF",
        statement,
        not statement,
    )


@pytest.mark.parametrize(
    ("writes", "direct"),
    [
        (PageWrites("O_DIRECT_NO_FSYNC"), True),
        (PageWrites("fsync"), False),
        (PageWrites("O_DIRECT", buffering="ON"), False),
        (PageWrites("fsync", buffering="OFF"), True),
        (PageWrites(), None),
    ],
)
def test_buffering_of_newer_mariadb_decides_over_the_flush_method(writes: PageWrites, *, direct: bool | None) -> None:
    assert writes.is_direct is direct


def test_stored_facts_of_older_records_load() -> None:
    record = to_record(facts_on(below(disk())))
    assert from_record(InstanceFacts, record).datadir.storage.layers == (disk(),)  # type: ignore[union-attr]
    del record["datadir"]["storage"]["layers"], record["server"]["page_writes"]
    found = from_record(InstanceFacts, record)
    assert found.datadir.storage.layers is None  # type: ignore[union-attr]
    assert storage_of(found) == ""
