"""Decide from facts whether an instance can permanently run without InnoDB's doublewrite.

Only a server that leaves it out itself is evidence. Everything else is a promise of somebody: a person attests it, for the storage
that was read then. See ``docs/explanation/doublewrite.md``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.relaxed_durability import doublewrite_changes_at_run_time, same_value
from dbops.engine.phrases import phrase
from dbops.engine.tuning.storage_layers import LayerRow, Ruling, leaves_out_itself, rate_layers

#: What a person can attest, by kind.
KINDS = {
    "cloud": phrase("Cloud provider’s documented 16 KiB promise"),
    "zfs": phrase("ZFS with a record size of at least a page"),
    "raid": phrase("RAID controller or array with a protected cache"),
    "vendor": phrase("Vendor’s statement about this device"),
}


class DoublewriteVerdict(StrEnum):
    """Whether doublewrite can be off: shown by evidence, if a person attests the storage, or not."""

    SAFE = "safe"
    ATTEST = "attest"
    KEEP = "keep"


class Standing(StrEnum):
    """Whether an attestation counts now."""

    VALID = "valid"
    EXPIRED = "expired"
    VOID = "void"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True, slots=True)
class Attestation:
    """What a person attested. ``storage`` is ``storage_of`` the facts at that time; ``review_on`` the first day on which it no longer
    counts, ``None`` for no end.
    """

    kind: str
    storage: str
    review_on: date | None = None

    def standing(self, storage: str, today: date) -> Standing:
        """Return whether it counts for the storage that was last read, ``""`` if none was."""
        if storage and storage != self.storage:
            return Standing.VOID
        if self.review_on is not None and self.review_on <= today:
            return Standing.EXPIRED
        return Standing.VALID if storage else Standing.UNCONFIRMED


@dataclass(frozen=True, slots=True)
class DoublewriteAdvice:
    """``flavor`` and ``version`` are of the server. ``setting`` is its own word, ``meaning`` what that does. ``decides`` is the layer that
    decides a ``KEEP``. ``storage`` identifies the storage that was read, ``""`` if none was. ``others`` are the instances of the cluster
    with another setting.
    """

    flavor: str
    version: str
    setting: str
    meaning: str
    repairs: bool
    verdict: DoublewriteVerdict
    layers: tuple[LayerRow, ...]
    decides: LayerRow | None
    storage: str
    standing: Standing | None
    others: tuple[tuple[str, str], ...]

    @property
    def may_be_off(self) -> bool:
        return self.verdict is DoublewriteVerdict.SAFE or (
            self.verdict is DoublewriteVerdict.ATTEST and self.standing is Standing.VALID
        )

    @property
    def must_turn_on(self) -> bool:
        return not self.repairs and not self.may_be_off


@dataclass(frozen=True, slots=True)
class HowTo:
    """How to change the setting: a line of the option file, and a statement for the running server, ``""`` if it needs a restart."""

    line: str
    statement: str

    @property
    def needs_restart(self) -> bool:
        return not self.statement


def judge_doublewrite(
    name: str, cluster: Mapping[str, InstanceFacts], attestation: Attestation | None, today: date
) -> DoublewriteAdvice | None:
    """Return the advice for one instance, ``None`` if its server was not read.

    Args:
        name: of the instance.
        cluster: latest facts of its cluster's instances, by name.
        attestation: of the instance, ``None`` without one.
    """
    facts = cluster.get(name)
    server = facts.server if facts else None
    if facts is None or server is None or not server.doublewrite:
        return None
    storage, files = (facts.datadir.storage, facts.datadir.stored) if facts.datadir else (None, None)
    rows = rate_layers(server, storage, files)
    decides = next((row for row in rows if row.ruling in (Ruling.AGAINST, Ruling.UNKNOWN)), None)
    identity = storage_of(facts)
    safe = leaves_out_itself(server, storage, files)
    return DoublewriteAdvice(
        flavor=server.flavor,
        version=server.version,
        setting=server.doublewrite,
        meaning=meaning_of(server.doublewrite),
        repairs=repairs(server.doublewrite),
        verdict=DoublewriteVerdict.SAFE if safe else DoublewriteVerdict.KEEP if decides else DoublewriteVerdict.ATTEST,
        layers=rows,
        decides=decides,
        storage=identity,
        standing=attestation.standing(identity, today) if attestation else None,
        others=unlike(server, {other: found for other, found in cluster.items() if other != name}),
    )


def storage_of(facts: InstanceFacts | None) -> str:
    """Return what identifies the storage below the data directory, ``""`` if it or the machine id of its host was not read.

    Virtual disks without a serial number look alike on every machine, so the machine counts too.
    """
    directory, host = (facts.datadir, facts.host) if facts else (None, None)
    if (
        directory is None
        or directory.storage is None
        or directory.storage.layers is None
        or not (host and host.machine_id)
    ):
        return ""
    return f"{directory.storage.identity(directory.path)}\nmachine {host.machine_id}"


def repairs(setting: str) -> bool:
    """Whether a server with this setting can repair a torn page. MySQL's ``DETECT_ONLY`` only finds it."""
    return not same_value(setting, "OFF") and setting.upper() not in ("0", "DETECT_ONLY")


def meaning_of(setting: str) -> str:
    """Return what a value of ``innodb_doublewrite`` does.

    Sources: MDEV-33545 (MariaDB 11.0.6 and newer: OFF, ON, fast) and MySQL's manual, 17.6.4 (8.0.30 and newer: DETECT_*).
    """
    if setting.upper() == "DETECT_ONLY":
        return phrase("Torn pages are detected after a crash, not repaired.")
    if not repairs(setting):
        return phrase("Torn pages stay torn after a crash.")
    if setting.lower() == "fast":
        return phrase("Each page is written twice, and data files are synchronized less often.")
    return phrase("Each page is written twice, and torn pages are repaired after a crash.")


def unlike(server: ServerFacts, others: Mapping[str, InstanceFacts]) -> tuple[tuple[str, str], ...]:
    """Return names and settings of instances that protect pages in another way than ``server``. ``fast`` and ``ON`` agree."""
    found = {name: facts.server.doublewrite for name, facts in sorted(others.items()) if facts.server}
    mine = repairs(server.doublewrite)
    return tuple((name, setting) for name, setting in found.items() if setting and repairs(setting) is not mine)


def how_to_set(flavor: Flavor, value: str) -> HowTo:
    """Return how a server sets ``innodb_doublewrite`` to ``ON`` or ``OFF``. MySQL changes between them only at a start."""
    statement = f"SET GLOBAL innodb_doublewrite = {value}"
    at_run_time = flavor.name == "mariadb" and doublewrite_changes_at_run_time(flavor)
    return HowTo(f"innodb_doublewrite = {value}", statement if at_run_time else "")
