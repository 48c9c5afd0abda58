"""What advice is made from, and what it says."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dbops.engine.capacity.contention import Contention
from dbops.engine.capacity.limits import CapacityLimit, LimitKind
from dbops.engine.capacity.waits import WaitClass
from dbops.engine.flavors.base import Version
from dbops.engine.flavors.setting_changes import SettingChange

#: An A/B test that shows no difference and whose whole interval is this near to 1 has shown that a change does nothing.
NOTHING = (0.95, 1.05)
#: An older reading of waits is of another load, and gives no advice.
WAITS_COUNT_FOR = timedelta(days=30)


class AdviceKind(StrEnum):
    """What is advised, the most urgent first."""

    FEWER_SCHEMAS = "fewer-schemas"
    TABLE_CACHES = "table-caches"
    REDO_CAPACITY = "redo-capacity"
    BUFFER_POOL = "buffer-pool"
    SYNC_ARRAY = "sync-array"
    PURGE = "purge"
    DOUBLEWRITE = "doublewrite"


#: Settings that one kind of advice changes. An A/B test of them, and of no others, tests that advice.
SETTINGS: Mapping[AdviceKind, frozenset[str]] = {
    AdviceKind.TABLE_CACHES: frozenset(
        {
            "table_open_cache",
            "table_definition_cache",
            "innodb_open_files",
            "open_files_limit",
            "table_open_cache_instances",
        }
    ),
    AdviceKind.REDO_CAPACITY: frozenset(
        {"innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"}
    ),
    AdviceKind.SYNC_ARRAY: frozenset({"innodb_sync_array_size"}),
    AdviceKind.PURGE: frozenset({"innodb_purge_threads"}),
    AdviceKind.DOUBLEWRITE: frozenset({"innodb_doublewrite"}),
}


class EvidenceSource(StrEnum):
    """Where a figure comes from."""

    READING = "reading"
    WAITS = "waits"
    FORECAST = "forecast"
    LOAD_TEST = "load-test"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class AdviceEvidence:
    """A figure. ``name`` is a column of a reading, a status counter, a setting, or a wait event."""

    source: EvidenceSource
    name: str
    value: float
    at: datetime | None = None
    test: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredChange:
    """The result of an A/B test of a change: the ratio of throughput with and without it, with its interval."""

    kind: AdviceKind
    test: int
    ratio: float
    low: float
    high: float

    @property
    def shows_nothing(self) -> bool:
        return NOTHING[0] <= self.low <= 1 <= self.high <= NOTHING[1]

    @property
    def shows_loss(self) -> bool:
        return self.high < 1


@dataclass(frozen=True, slots=True)
class AdviceInputs:
    """What is known of an instance.

    Args:
        flavor: ``mysql`` or ``mariadb``. version: of the server.
        values: numbers of its latest reading, by column, with ``read_at``. settings: of its latest reading of waits, with ``waits_at``.
        contentions, counters, gauges: what that found.
        limits: of the instance.
        is_doublewrite_safe: the storage needs none, and it is on (``doublewrite``: its setting).
        tested: A/B tests of the cluster. knee: schemas at which a load test found the knee, and its number.
    """

    instance: str
    flavor: str
    version: Version
    values: Mapping[str, float] = field(default_factory=dict)
    read_at: datetime | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    contentions: Sequence[Contention] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, int] = field(default_factory=dict)
    waits_at: datetime | None = None
    limits: Sequence[CapacityLimit] = ()
    is_doublewrite_safe: bool = False
    doublewrite: str = ""
    tested: Sequence[MeasuredChange] = ()
    knee: tuple[int, int] | None = None

    def contention(self, *kinds: WaitClass) -> list[Contention]:
        return [one for one in self.contentions if one.kind in kinds]

    def limit(self, kind: LimitKind) -> CapacityLimit | None:
        return next((one for one in self.limits if one.kind is kind), None)

    def setting(self, name: str) -> int | None:
        """Return a setting as it was last read, with the waits or with the growth."""
        value = self.values.get(name)
        if name in self.settings and (value is None or self._are_waits_newer):
            return self.settings[name]
        return None if value is None else int(value)

    @property
    def _are_waits_newer(self) -> bool:
        return self.read_at is None or (self.waits_at is not None and self.waits_at >= self.read_at)


@dataclass(frozen=True, slots=True)
class Advice:
    """One advice.

    Args:
        changes: settings that are changed together, in order; empty if it is no setting.
        effect: ratio of throughput in an A/B test of this change; ``None`` if it was not measured.
        flavor: of the instance.
        memory_bytes: what it costs, with each table cached once.
        binds_next: the setting of the change that is reached first, and the number of tables with their partitions at which it is;
            ``None`` if none is.
        by: when the limit is reached without it, first and last; ``None`` if there is no date.
        move: number of schemas to move to another cluster.
    """

    kind: AdviceKind
    instance: str
    evidence: tuple[AdviceEvidence, ...]
    changes: tuple[SettingChange, ...] = ()
    effect: MeasuredChange | None = None
    flavor: str = ""
    memory_bytes: int | None = None
    binds_next: tuple[str, int] | None = None
    by: tuple[datetime | None, datetime | None] = (None, None)
    move: int | None = None

    @property
    def needs_restart(self) -> bool:
        return any(change.needs_restart for change in self.changes)


def kind_of(settings: Iterable[str]) -> AdviceKind | None:
    """Return which advice an A/B test of these settings tests, ``None`` if it is none."""
    names = {name.replace("-", "_") for name in settings}
    return next((kind for kind, own in SETTINGS.items() if names and names <= own), None)
