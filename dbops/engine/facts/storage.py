"""Facts of the storage below a data directory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StorageLayer:
    """A block device below the file system, as the kernel describes it. Numbers are bytes, ``None`` if the kernel does not say them.

    ``kind`` is ``disk``, ``partition``, ``dm``, ``md`` or ``loop``. ``atomic_bytes`` is ``atomic_write_unit_max_bytes``: the largest
    write that the layer performs completely or not at all if it is requested so. ``start_bytes`` is a partition's offset. ``model`` and
    ``identity`` (serial number, WWID, uuid) are texts of the device.
    """

    name: str
    kind: str
    atomic_bytes: int | None = None
    logical_bytes: int | None = None
    start_bytes: int | None = None
    model: str = ""
    identity: str = ""


@dataclass(frozen=True, slots=True)
class StorageAnswers:
    """What programs of the host said about the storage, in bytes; ``None`` if there is no program or no answer.

    ``cluster_bytes`` is the allocation unit of ext4 (``dumpe2fs``), ``record_bytes`` the record size of ZFS, ``nvme_atomic_bytes`` the
    smallest atomic write without power of the NVMe devices below (AWUPF of ``nvme id-ctrl``), if all of them answered.
    """

    cluster_bytes: int | None = None
    record_bytes: int | None = None
    nvme_atomic_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """Storage of the data directory: type and block size of the file system, and its block device.

    ``atomic_bytes`` is the largest write that the device performs completely or not at all (``atomic_write_unit_max_bytes``,
    kernels from 6.11 on); 0 none, ``None`` if the kernel does not report it. ``turns``: a rotating disk; ``None`` if unknown: for
    a virtual disk the kernel repeats the hypervisor's answer, and virtio reports flash as rotating too. ``layers`` are the block
    devices below, the highest first; empty if none is visible, ``None`` if not all were read, or in an older record. ``machine`` are
    the names of its maker (DMI), a hint only. ``answers`` is ``None`` if no program was asked yet.
    """

    filesystem: str
    block_bytes: int
    device: str
    atomic_bytes: int | None
    turns: bool | None = None
    layers: tuple[StorageLayer, ...] | None = None
    machine: tuple[str, ...] = ()
    is_virtual: bool = False
    is_container: bool = False
    answers: StorageAnswers | None = None

    @property
    def unit_bytes(self) -> int:
        """Return the unit in which the file system allocates: its block, or its cluster or record if that is known."""
        said = self.answers or StorageAnswers()
        return max(self.block_bytes, said.cluster_bytes or 0) if said.record_bytes is None else said.record_bytes

    def identity(self, path: str) -> str:
        """Return what tells the storage of data directory ``path`` from others of the same machine.

        Devices count by serial number or uuid, because their names can change at a start of the host.
        """
        layers = [f"{item.kind} {item.identity or item.name} {item.model}".strip() for item in self.layers or ()]
        return "\n".join([f"{path} on {self.filesystem}, {self.block_bytes} bytes", *(layers or [self.device])])
