"""Decide from facts whether an instance can permanently run without InnoDB's doublewrite.

Three conditions must hold for each instance of a cluster, because any of them may become the primary: the device writes a whole
page or nothing, the file system passes such a write on as one, and the server requests it. A device's guarantee
(``atomic_write_unit_max_bytes``) covers only requested writes (``RWF_ATOMIC``). No server requests them: for MySQL it is an open
request (mysql/mysql-community#57), and MariaDB's ``innodb_use_atomic_writes`` is ON on every device, but works only with the
cards of a few vendors, for which it leaves out doublewrite automatically.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.facts.instance import InstanceFacts, ServerFacts, StorageFacts
from dbops.engine.flavors.relaxed_durability import same_value


class Objection(StrEnum):
    """Reason to keep doublewrite on."""

    STORAGE_UNREAD = "storage-unread"
    KERNEL_SILENT = "kernel-silent"
    DEVICE = "device"
    FILE_SYSTEM = "file-system"
    SERVER = "server"
    CLUSTER = "cluster"


Against = tuple[tuple[Objection, str], ...]


@dataclass(frozen=True, slots=True)
class DoublewriteAdvice:
    """``setting`` is the server's current setting; ``against`` has the reasons to keep it on, empty if it may be off, and
    ``objections`` their kinds, in the same order.
    """

    setting: str
    against: tuple[str, ...]
    objections: tuple[Objection, ...] = ()

    @property
    def is_off(self) -> bool:
        return same_value(self.setting, "OFF") or self.setting == "0"

    @property
    def may_be_off(self) -> bool:
        return not self.against


def judge_doublewrite(name: str, cluster: Mapping[str, InstanceFacts]) -> DoublewriteAdvice | None:
    """Return the advice for one instance, ``None`` if its server was not read.

    Args:
        name: of the instance.
        cluster: latest facts of its cluster's instances, by name.
    """
    facts = cluster.get(name)
    server = facts.server if facts else None
    if facts is None or server is None or not server.doublewrite:
        return None
    storage = facts.datadir.storage if facts.datadir else None
    against = (*_device(storage, server), *_file_system(storage, server), *_server(server), *_others(name, cluster))
    return DoublewriteAdvice(server.doublewrite, tuple(text for _, text in against), tuple(kind for kind, _ in against))


def _device(storage: StorageFacts | None, server: ServerFacts) -> Against:
    if storage is None:
        return ((Objection.STORAGE_UNREAD, "The storage of the data directory was not read."),)
    if storage.atomic_bytes is None:
        return (
            (
                Objection.KERNEL_SILENT,
                f"The kernel does not say how much {storage.device} writes wholly or not at all (6.11 and newer do).",
            ),
        )
    if storage.atomic_bytes < server.page_size:
        said = f"{storage.atomic_bytes} bytes" if storage.atomic_bytes else "nothing"
        return (
            (
                Objection.DEVICE,
                f"{storage.device} promises {said} to be written wholly or not at all; a page has {server.page_size}.",
            ),
        )
    return ()


def _file_system(storage: StorageFacts | None, server: ServerFacts) -> Against:
    if storage is None or storage.block_bytes >= server.page_size:
        return ()
    return (
        (
            Objection.FILE_SYSTEM,
            f"{storage.filesystem} has blocks of {storage.block_bytes} bytes and passes no larger write on as one.",
        ),
    )


def _server(server: ServerFacts) -> Against:
    kind = "MariaDB" if server.flavor == "mariadb" else "MySQL"
    return (
        (
            Objection.SERVER,
            f"{kind} {server.version} does not ask for such writes, and the promise holds for those alone.",
        ),
    )


def _others(name: str, cluster: Mapping[str, InstanceFacts]) -> Against:
    own = cluster[name].server
    others = {
        other: facts.server.doublewrite
        for other, facts in sorted(cluster.items())
        if other != name and facts.server and facts.server.doublewrite and own
        if not same_value(facts.server.doublewrite, own.doublewrite)
    }
    if not others:
        return ()
    values = ", ".join(f"{other} has {value}" for other, value in others.items())
    return ((Objection.CLUSTER, f"Its cluster does not agree: {values}."),)
