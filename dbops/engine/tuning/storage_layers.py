"""Rate each layer between InnoDB and the disk: does it write a page completely or not at all?

A kernel's ``atomic_write_unit_max_bytes`` holds for writes that are requested so (``RWF_ATOMIC``). No MySQL or MariaDB server
requests them: such a value is no evidence, only a promise for which a person can vouch.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from dbops.engine.facts.instance import PageWrites, ServerFacts
from dbops.engine.facts.storage import StorageFacts, StorageLayer
from dbops.engine.facts.stored_data import StoredFiles
from dbops.engine.phrases import joined, phrase

KERNEL = "https://docs.kernel.org/filesystems/ext4/atomic_writes.html"
OF_MYSQL = "https://github.com/mysql/mysql-community/issues/57"
OF_MARIADB = "https://github.com/MariaDB/server/blob/10.11/mysys/my_atomic_writes.c"
DOUBLEWRITE = "https://dev.mysql.com/doc/refman/8.4/en/innodb-doublewrite-buffer.html"
AWS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/storage-twp.html"
AWS_STEPS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configure-twp.html"
AZURE = "https://learn.microsoft.com/azure/virtual-machines/disks-torn-write-prevention"
GOOGLE = "https://docs.cloud.google.com/compute/docs/disks/optimize-hyperdisk"
ZFS = "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Workload%20Tuning.html#innodb-mysql"

NETWORK = re.compile(r"nfs\d?|cifs|smb\d?|ceph|glusterfs|lustre|9p|fuse(\..+)?|virtiofs|afs|ocfs2|gfs2")
#: Local file systems that are rated by their unit of allocation. ZFS and overlay have rules of their own; others are unknown.
LOCAL = ("ext4", "xfs", "btrfs")
#: The cards on which MariaDB leaves doublewrite out itself, by the name of the device: Fusion-io, Shannon, ScaleFlux.
CARDS = re.compile(r"fct[a-z]\d*|sct[a-z]\d*|sfdv\d+n\d+(p\d+)?")
#: Pages that a server must have written before a count of 0 doublewritten ones says anything. Temporary pages and freshly initialized
#: ones are never doublewritten, and a server that has just started may have written no others.
ENOUGH_PAGES = 10_000
#: Names of files that a row shows.
MAX_SHOWN = 5
#: RAID controllers with a cache and storage arrays, by model. Whether a battery protects the cache, no file says.
ARRAYS = re.compile(
    r"perc\b|megaraid|\bmr9\d|avago|lsi\b|smart ?array|logical volume|serveraid|netapp|pure\b|flasharray|3pardata|\bdgc\b|symmetrix"
    r"|compelnt|nimble|eqlogic|hitachi open|\b2145\b|\b2107",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cloud:
    """A volume with a documented promise of 16 KiB, recognized by its model."""

    model: re.Pattern[str]
    name: str
    condition: str
    source: str


KINDS = {"disk": phrase("Disk"), "partition": phrase("Partition")}
CLOUDS = (
    Cloud(
        re.compile(r"Amazon (Elastic Block Store|EC2 NVMe Instance Storage)"),
        "AWS",
        phrase(
            "on supported instance types, with O_DIRECT, ext4 clusters of 16 KiB, and partitions and volumes at multiples "
            "of 16 KiB"
        ),
        AWS,
    ),
    Cloud(
        re.compile(r"nvme_card-pd|Google PersistentDisk"),
        "Google Cloud",
        phrase("of Hyperdisk volumes only; the model does not tell them from Persistent Disk"),
        GOOGLE,
    ),
    Cloud(
        re.compile(r"MSFT NVMe Accelerator"),
        "Azure",
        phrase("of managed disks, with Linux 6.13 or newer and a file system with atomic writes"),
        AZURE,
    ),
)


class Ruling(StrEnum):
    """What a layer says: it tears no page, it only may promise that, it rules it out, it is unknown, or it decides nothing."""

    FITS = "fits"
    PROMISE = "promise"
    AGAINST = "against"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer: what was read, what that means, and the source of the rule (an address, ``""`` without one)."""

    code: str
    name: str
    seen: str
    meaning: str
    ruling: Ruling
    source: str = ""

    @property
    def site(self) -> str:
        """Return the host name of the source."""
        return self.source.split("/")[2] if self.source else ""


def rate_layers(server: ServerFacts, storage: StorageFacts | None, files: StoredFiles | None) -> tuple[LayerRow, ...]:
    """Return the rows from InnoDB down to the disk. Where the server itself leaves out doublewrite, only its own row decides.

    Args:
        storage: below the data directory, ``None`` if it was not read.
        files: of the data directory, ``None`` if they were not read.
    """
    is_safe = leaves_out_itself(server, storage, files)
    rows = [_server(server, is_safe=is_safe), _page(server), _files(server, files), _flush(server, storage)]
    if storage is None or storage.layers is None:
        meaning = phrase("What is below the server was not read, or has more layers than dbops reads.")
        return (*rows, LayerRow("storage", phrase("Storage"), phrase("Unknown"), meaning, Ruling.UNKNOWN))
    rows += [_file_system(server, storage), *_devices(server, storage)]
    if storage.machine:
        seen = ", ".join(storage.machine)
        rows.append(
            LayerRow("machine", phrase("Machine"), seen, phrase("A hint only: firmware can say anything."), Ruling.NOTE)
        )
    if is_safe:
        rows[1:] = [row if row.ruling is Ruling.FITS else replace(row, ruling=Ruling.NOTE) for row in rows[1:]]
    return tuple(rows)


def leaves_out_itself(server: ServerFacts, storage: StorageFacts | None, files: StoredFiles | None) -> bool:
    """Whether MariaDB leaves out doublewrite on a card that it knows: its settings, the device and its own count agree.

    The count is evidence only if doublewrite has been on since the start of the server: without it, the count is always 0.
    """
    writes, changed = server.page_writes, server.set_at_run_time
    return bool(
        server.flavor == "mariadb"
        and server.doublewrite.upper() in ("ON", "1", "FAST")
        and changed is not None
        and all(setting.name != "innodb_doublewrite" for setting in changed)
        and writes
        and writes.use_atomic.upper() in ("ON", "1")
        and (writes.pages or 0) >= ENOUGH_PAGES
        and writes.doublewritten == 0
        and storage
        and CARDS.fullmatch(storage.device)
        and any(layer.name == storage.device for layer in storage.layers or ())
        and _outside(server, files) == []
    )


def _server(server: ServerFacts, *, is_safe: bool) -> LayerRow:
    mariadb = server.flavor == "mariadb"
    seen = f"{'MariaDB' if mariadb else 'MySQL'} {server.version}"
    if mariadb and server.page_writes and server.page_writes.use_atomic:
        seen += f", innodb_use_atomic_writes = {server.page_writes.use_atomic}"
    source = OF_MARIADB if mariadb else OF_MYSQL
    if is_safe:
        meaning = phrase("It recognizes this card and writes no page twice: its own count of doublewritten pages is 0.")
        return LayerRow("server", phrase("Server"), seen, meaning, Ruling.FITS, source)
    meaning = phrase(
        "It does not request atomic writes (RWF_ATOMIC). Promises of kernel and device hold for requested ones only."
    )
    return LayerRow("server", phrase("Server"), seen, meaning, Ruling.PROMISE, source)


def _outside(server: ServerFacts, files: StoredFiles | None) -> list[str] | None:
    """Return files and directories of the server outside its data directory, ``None`` if not all of it was read."""
    if server.stored is None or files is None or files.links is None:
        return None
    links = [link.target or link.path for link in files.links if link.is_data or link.is_schema]
    return list(dict.fromkeys([*server.external_paths, *server.stored.outside_files, *links]))


def _files(server: ServerFacts, files: StoredFiles | None) -> LayerRow:
    outside, row = _outside(server, files), ("files", phrase("Files"))
    if outside is None:
        meaning = phrase("Where the files are is unknown. The next probe of server and host reads it.")
        return LayerRow(*row, phrase("Unknown"), meaning, Ruling.UNKNOWN)
    if outside:
        shown, rest = ", ".join(outside[:MAX_SHOWN]), len(outside) - MAX_SHOWN
        seen = phrase("{shown} and {rest} more", shown=shown, rest=rest) if rest > 0 else shown
        meaning = phrase("Files outside the data directory can be on another storage, which is not read.")
        return LayerRow(*row, seen, meaning, Ruling.UNKNOWN)
    return LayerRow(
        *row, phrase("All in the data directory"), phrase("The layers below hold for each of them."), Ruling.FITS
    )


def _page(server: ServerFacts) -> LayerRow:
    seen = phrase("innodb_page_size = {page_size}", page_size=server.page_size)
    return LayerRow(
        "page", phrase("Page"), seen, phrase("Each layer below must write as much in one piece."), Ruling.NOTE
    )


def _flush(server: ServerFacts, storage: StorageFacts | None) -> LayerRow:
    writes = server.page_writes or PageWrites()
    name = "innodb_data_file_buffering" if writes.buffering else "innodb_flush_method"
    row = ("flush", phrase("Write path"), f"{name} = {writes.buffering or writes.flush_method or 'unknown'}")
    if writes.is_direct is None:
        return LayerRow(*row, phrase("The server did not report it."), Ruling.UNKNOWN)
    if storage and storage.filesystem == "zfs":
        meaning = phrase("Before OpenZFS 2.3 each write is buffered: a server that is killed can leave half of a page.")
        return LayerRow(*row, meaning, Ruling.PROMISE, ZFS)
    if writes.is_direct:
        return LayerRow(
            *row, phrase("Pages reach the file system in one call, without the page cache."), Ruling.FITS, DOUBLEWRITE
        )
    meaning = phrase(
        "The page cache writes a page back in pieces, and a killed server can leave half of one. Use O_DIRECT."
    )
    return LayerRow(*row, meaning, Ruling.AGAINST, DOUBLEWRITE)


def _file_system(server: ServerFacts, storage: StorageFacts) -> LayerRow:
    kind, page, said = storage.filesystem, server.page_size, storage.answers
    row = (
        "file-system",
        phrase("File system"),
        phrase("{kind}, blocks of {size} bytes", kind=kind, size=storage.block_bytes),
    )
    if NETWORK.fullmatch(kind):
        return LayerRow(*row, phrase("A network or FUSE file system sends a page in pieces."), Ruling.AGAINST)
    if kind == "overlay":
        return LayerRow(*row, phrase("A container's layer: what is below is not visible."), Ruling.PROMISE)
    if kind == "zfs":
        record = said.record_bytes if said else None
        row = (
            row[0],
            row[1],
            phrase("zfs, recordsize {record}", record=phrase("unknown") if record is None else record),
        )
        if record is not None and record < page:
            return LayerRow(
                *row, phrase("A page has several records, which ZFS can commit apart."), Ruling.AGAINST, ZFS
            )
        meaning = phrase("Copy on write: a record is replaced completely or not at all, if it has at least a page.")
        return LayerRow(*row, meaning, Ruling.PROMISE, ZFS)
    if kind not in LOCAL:
        return LayerRow(*row, phrase("dbops knows nothing about how this type writes a page."), Ruling.UNKNOWN)
    if said and said.cluster_bytes and said.cluster_bytes > storage.block_bytes:
        row = (
            row[0],
            row[1],
            phrase("{blocks}, clusters of {size} (bigalloc)", blocks=row[2], size=said.cluster_bytes),
        )
    if storage.unit_bytes >= page:
        return LayerRow(*row, phrase("A page is in one unit of allocation."), Ruling.FITS, KERNEL)
    meaning = phrase(
        "A page can have several extents, and its write can be split. Clusters of {page} bytes prevent that.", page=page
    )
    return LayerRow(*row, meaning, Ruling.PROMISE, AWS_STEPS)


def _devices(server: ServerFacts, storage: StorageFacts) -> Iterator[LayerRow]:
    if storage.filesystem == "zfs" or NETWORK.fullmatch(storage.filesystem):
        return
    if not storage.layers:
        hidden = storage.is_virtual or storage.is_container
        meaning = phrase("No block device is visible below the file system.")
        if hidden:
            meaning = joined((meaning, phrase("Only who runs the machine below can say what it promises.")))
        yield LayerRow(
            "device", phrase("Device"), storage.device, meaning, Ruling.PROMISE if hidden else Ruling.AGAINST
        )
    promised = any(_promise_of(layer) for layer in storage.layers or ())
    for layer in storage.layers or ():
        yield _device(layer, server.page_size, storage, promised=promised)


def _promise_of(layer: StorageLayer) -> Cloud | bool:
    """Return the cloud that promises for a disk, ``True`` for a RAID controller or array, else ``False``."""
    if layer.kind != "disk":
        return False
    return next((cloud for cloud in CLOUDS if cloud.model.search(layer.model)), bool(ARRAYS.search(layer.model)))


def _device(layer: StorageLayer, page: int, storage: StorageFacts, *, promised: bool) -> LayerRow:
    row = ("device", KINDS.get(layer.kind, layer.kind), _seen(layer))
    if layer.kind == "partition":
        if layer.start_bytes is None:
            return LayerRow(*row, phrase("Its start is unknown."), Ruling.UNKNOWN)
        if layer.start_bytes % page:
            meaning = phrase("It starts within a page, so that each page spans two units of the disk.")
            return LayerRow(*row, meaning, Ruling.AGAINST, AWS_STEPS)
        return LayerRow(*row, phrase("It starts at a multiple of the page size."), Ruling.FITS, AWS_STEPS)
    promise, answers = _promise_of(layer), storage.answers
    if isinstance(promise, Cloud):
        meaning = phrase(
            "{promise} documents that 16 KiB are written completely or not at all {condition}.",
            promise=promise.name,
            condition=promise.condition,
        )
        return LayerRow(*row, meaning, Ruling.PROMISE if page <= 16384 else Ruling.AGAINST, promise.source)
    if promise:
        return LayerRow(
            *row, phrase("An array or RAID controller: its cache needs a battery or flash."), Ruling.PROMISE
        )
    if (layer.atomic_bytes or 0) >= page:
        meaning = phrase(
            "It writes {atomic_bytes} bytes completely or not at all, if they are requested so.",
            atomic_bytes=layer.atomic_bytes,
        )
        return LayerRow(*row, meaning, Ruling.PROMISE, KERNEL)
    if layer.name.startswith("nvme") and answers and (answers.nvme_atomic_bytes or 0) >= page:
        meaning = phrase(
            "It promises {nvme_atomic_bytes} bytes without power (AWUPF), to commands that are not split.",
            nvme_atomic_bytes=answers.nvme_atomic_bytes,
        )
        return LayerRow(*row, meaning, Ruling.PROMISE, KERNEL)
    if layer.kind == "dm" and promised:
        meaning = phrase(
            "The disk below has a promise. It holds if this volume starts at a multiple of the page size and has "
            "no stripes."
        )
        return LayerRow(*row, meaning, Ruling.PROMISE, AWS_STEPS)
    if layer.atomic_bytes is None:
        if layer.kind == "disk" and storage.is_virtual:
            return LayerRow(
                *row, phrase("A virtual disk: only its provider knows the device behind it."), Ruling.PROMISE, KERNEL
            )
        return LayerRow(*row, phrase("The kernel does not report it: Linux 6.11 and newer do."), Ruling.AGAINST, KERNEL)
    meaning = (
        phrase(
            "The kernel promises only {atomic} bytes for it; a page has {page}.", atomic=layer.atomic_bytes, page=page
        )
        if layer.atomic_bytes
        else phrase("The kernel promises nothing for it; a page has {page}.", page=page)
    )
    return LayerRow(*row, meaning, Ruling.AGAINST, KERNEL)


def _seen(layer: StorageLayer) -> str:
    parts = [layer.name, layer.model]
    if layer.kind == "partition":
        parts.append(
            phrase("start unknown") if layer.start_bytes is None else phrase("start {start}", start=layer.start_bytes)
        )
    else:
        limit = "missing" if layer.atomic_bytes is None else str(layer.atomic_bytes)
        parts.append(f"atomic_write_unit_max_bytes {limit}")
    return joined((part for part in parts if part), ", ")
