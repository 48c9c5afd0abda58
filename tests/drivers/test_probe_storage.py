"""What the probe reads of the storage: recorded answers, trees as the kernel shows them, and values of hostile devices."""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from dbops.drivers.probe_host import parse_records
from dbops.drivers.probe_storage import MAXIMUM_LAYERS, TEXT_CHARACTERS, parse_storage
from dbops.engine.facts.storage import StorageAnswers, StorageFacts, StorageLayer
from dbops.engine.hosts.scripts import load
from tests.drivers.test_probe import ask
from tests.fakes import FakeShell

#: Recorded: a virtual machine with Linux 6.18 and ext4 on virtio; and ext4 with bigalloc on a loop device of it.
VIRTIO = {
    "datadir.storage": "ext4 4096 vda 0 -",
    "datadir.layers": "machine virtual\nmachine container\nlayer disk vda\natomic 0\nlogical 512\nmodel 0x1af4\nid overlayblk\nwhole",
    "datadir.answers": "",
}
BIGALLOC = {
    "datadir.storage": "ext4 1024 loop0 0 -",
    "datadir.layers": "machine virtual\nlayer loop loop0\natomic 0\nlogical 512\nwhole",
    "datadir.answers": "block 1024\ncluster 16384",
}


def test_recorded_answers_are_parsed() -> None:
    assert parse_storage(VIRTIO) == StorageFacts(
        *("ext4", 4096, "vda", 0),
        layers=(StorageLayer("vda", "disk", 0, 512, model="0x1af4", identity="overlayblk"),),
        is_virtual=True,
        is_container=True,
        answers=StorageAnswers(),
    )
    found = parse_storage(BIGALLOC)
    assert found is not None
    assert (found.answers, found.unit_bytes) == (StorageAnswers(cluster_bytes=16384), 16384)


def test_nvme_counts_blocks_from_zero_and_the_weakest_device_counts() -> None:
    layers = "layer md md0\nlayer disk nvme0n1\nlogical 512\nlayer disk nvme1n1\nlogical 4096\nwhole"
    found = parse_storage(
        {**VIRTIO, "datadir.layers": layers, "datadir.answers": "awupf 63 nvme0n1\nawupf 3 nvme1n1\nawupf 9 nvme9n1"}
    )
    assert found is not None
    assert found.answers == StorageAnswers(nvme_atomic_bytes=16384)
    silent = parse_storage({**VIRTIO, "datadir.layers": layers, "datadir.answers": "awupf 63 nvme0n1"})
    assert silent is not None
    assert silent.answers == StorageAnswers(), "the other device can be the weakest"


@pytest.mark.parametrize(
    "layers",
    [
        "atomic 16384",
        "layer $(id) x\natomic 16384",
        "layer disk x\natomic -1\nlogical 1e9\nmodel \x1b[31m" + "x" * 1000,
        "layer disk x\natomic ١٦٣٨٤\nlogical 99999999999999999999",
        "layer disk x\natomic 0\nlayer disk x\natomic 16384",
        "\n\n \nlayer\nlayer disk\natomic",
        "layer disk a\n" * 10_000,
    ],
)
def test_hostile_values_promise_nothing_and_are_bounded(layers: str) -> None:
    found = parse_storage(
        {**VIRTIO, "datadir.layers": f"{layers}\nwhole", "datadir.answers": "cluster x\nrecord \nawupf 1"}
    )
    assert found is not None
    assert found.layers is not None
    assert [layer for layer in found.layers if layer.atomic_bytes or layer.logical_bytes] == []
    assert len(found.layers) <= MAXIMUM_LAYERS
    assert all(len(layer.model) <= TEXT_CHARACTERS and layer.model.isprintable() for layer in found.layers)
    assert found.answers == StorageAnswers()


@pytest.mark.parametrize(
    ("layers", "count"),
    [
        ("layer disk a\nwhole", 1),
        ("whole", 0),
        ("\n".join(f"layer disk d{number}" for number in range(MAXIMUM_LAYERS)) + "\nwhole", MAXIMUM_LAYERS),
        ("\n".join(f"layer disk d{number}" for number in range(MAXIMUM_LAYERS + 1)) + "\nwhole", None),
        ("layer disk a", None),
        ("layer disk a\nwho", None),
        ("whole\nlayer disk a", None),
        ("layer dm a\nmodel x\u2028whole", None),
        ("layer dm a\nmodel whole", None),
        ("layer disk a\ncut\nwhole", None),
        ("", None),
    ],
)
def test_layers_that_were_cut_are_unknown(layers: str, count: int | None) -> None:
    found = parse_storage({**VIRTIO, "datadir.layers": layers})
    assert found is not None
    assert (None if found.layers is None else len(found.layers)) == count


def test_storage_is_unknown_in_half_a_record() -> None:
    assert parse_storage({}) is None
    assert parse_storage({"datadir.storage": "ext4 4096"}) is None
    found = parse_storage({"datadir.storage": "ext4 x - - -"})
    assert (found.block_bytes, found.layers, found.answers) == (0, None, None)  # type: ignore[union-attr]


def walk(device: Path) -> str:
    """Run the probe's own function on a tree of the kernel's form."""
    script = load("storage") + "\nset -u\nblock=$1\nput_layers\n"
    command = ["/bin/sh", "-c", script, "sh", str(device)]
    return parse_records(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["datadir.layers"]


def files(folder: Path, **values: str) -> Path:
    for name, value in values.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return folder


def test_layers_follow_volumes_and_partitions_to_the_disks(tmp_path: Path) -> None:
    disk = files(
        tmp_path / "nvme1n1",
        **{"queue__atomic_write_unit_max_bytes": "16384", "queue__logical_block_size": "512"},
        **{"device__model": "Amazon Elastic Block Store   ", "wwid": "nvme.1d0f-766f6c"},
    )
    part = files(disk / "nvme1n1p1", partition="1", start="2048")
    volume = files(
        tmp_path / "dm-0", **{"queue__atomic_write_unit_max_bytes": "0", "dm__name": "vg-data", "dm__uuid": "LVM-abc"}
    )
    (volume / "slaves").mkdir()
    (volume / "slaves" / "nvme1n1p1").symlink_to(part)
    found = parse_storage({**VIRTIO, "datadir.layers": walk(volume)})
    assert found is not None
    assert found.layers == (
        StorageLayer("dm-0", "dm", 0, None, model="vg-data", identity="LVM-abc"),
        StorageLayer("nvme1n1p1", "partition", start_bytes=1048576, identity="1"),
        StorageLayer("nvme1n1", "disk", 16384, 512, model="Amazon Elastic Block Store", identity="nvme.1d0f-766f6c"),
    )


def volumes(folder: Path, names: list[str]) -> list[Path]:
    """Make volumes of which each consists of the next."""
    made = [files(folder / name, dm__name=name) for name in names]
    for volume, below in pairwise(made):
        (volume / "slaves").mkdir(exist_ok=True)
        (volume / "slaves" / below.name).symlink_to(below)
    return made


def test_names_of_volumes_are_text(tmp_path: Path) -> None:
    [volume] = volumes(tmp_path, ["dm-0"])
    (volume / "dm" / "name").write_text("$(touch here) `id`\nwhole\n")
    found = parse_storage({**VIRTIO, "datadir.layers": walk(volume)})
    assert found is not None
    assert found.layers == (StorageLayer("dm-0", "dm", model="$(touch here) `id`"),)
    assert not Path("here").exists()


@pytest.mark.parametrize(("depth", "is_known"), [(8, True), (9, False)])
def test_deeper_layers_than_the_walk_goes_are_unknown(tmp_path: Path, depth: int, *, is_known: bool) -> None:
    made = volumes(tmp_path, [f"dm-{number}" for number in range(depth)])
    found = parse_storage({**VIRTIO, "datadir.layers": walk(made[0])})
    assert found is not None
    assert (found.layers is not None) is is_known


def test_walk_ends_in_a_loop_of_devices(tmp_path: Path) -> None:
    volume = volumes(tmp_path, ["dm-0", "dm-0"])[0]
    found = parse_storage({**VIRTIO, "datadir.layers": walk(volume)})
    assert found is not None
    assert found.layers is None


@pytest.mark.parametrize(("disks", "is_known"), [(5, True), (31, False)])
def test_long_readings_are_unknown(tmp_path: Path, disks: int, *, is_known: bool) -> None:
    volume = files(tmp_path / "dm-0", dm__name="data")
    (volume / "slaves").mkdir()
    for number in range(disks):
        disk = files(tmp_path / f"sd{number}", device__model="x" * 150, wwid="y" * 150)
        (volume / "slaves" / disk.name).symlink_to(disk)
    text = walk(volume)
    found = parse_storage({**VIRTIO, "datadir.layers": text})
    assert found is not None
    assert len(text) <= 8192
    assert (found.layers is not None) is is_known


@pytest.mark.parametrize(
    "source", ["nas:/my ext4", "nas:/vda", "vda", "/dev/my ext4", "a\nb ext4", "-t", "$(id) *", "//nas/x"]
)
@pytest.mark.parametrize("name", ["data", "my ext4", "a\nb ext4"])
def test_any_name_leaves_the_type_as_it_is(tmp_path: Path, source: str, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    script = 'mount -t tmpfs -o size=1M -- "$1" "$2" || exit 77; cd /\n' + load("storage")
    script += (
        '\nset -u\nfind_space "$2"\nfind_storage "$(stat -c %d -- "$2")"\ndescribe_storage "$2"\nprintf %s "$storage"'
    )
    command = ["unshare", "--mount", "--map-root-user", "/bin/sh", "-c", script, "sh", source, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    found = parse_storage({"datadir.storage": done.stdout.strip()})
    assert found == StorageFacts("tmpfs", 4096, "-", None)


def test_probe_of_this_machine_finds_its_device(tmp_path: Path) -> None:
    found = ask(FakeShell(runs_here=True), tmp_path).datadir.storage
    assert found is not None
    assert found.layers is not None
    if not Path(f"/sys/class/block/{found.device}").exists():  # an overlay, or a file system in memory
        assert found.layers == ()
        return
    assert found.layers[0].name == found.device
    limit = Path(f"/sys/class/block/{found.device}/queue/atomic_write_unit_max_bytes")
    if limit.exists():
        assert found.layers[0].atomic_bytes == int(limit.read_text())
