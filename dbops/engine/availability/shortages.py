"""Judge what a cluster lacked at one moment, and why."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias

from dbops.engine.availability.record import (
    HEALTHY,
    Cause,
    ClusterRecord,
    OccupiedPeriod,
    PlannedMaintenance,
    RebuildPhase,
    StatePeriod,
    UsableBackup,
)
from dbops.engine.phrases import phrase
from dbops.engine.schedule.calendar import Interval
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.states import REPLICAS, BackupMethod, Role

_CAUSES = list(Cause)
#: Placeholder for an interval that is still unknown.
NO_TIME = Interval(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


class Gap(StrEnum):
    """What a cluster lacked."""

    NOT_REBUILDABLE = phrase("rebuild blocked")
    SHORT = phrase("too few healthy replicas")
    NO_SOURCE = phrase("no healthy source")
    PAUSED = phrase("source replication paused")
    NO_CANDIDATE = phrase("no replica to fail over to")
    NOT_OBSERVED = phrase("not observed")


@dataclass(frozen=True, slots=True)
class Shortage:
    """An interval of one gap with one cause.

    ``reference`` is the rebuild, run or instance behind it; ``missing`` is the number of missing replicas.
    ``planned`` is the maintenance around it; planned gaps still count.
    """

    gap: Gap
    interval: Interval
    cause: Cause
    reference: str = ""
    missing: int = 0
    planned: str = ""


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """The state at one moment. A list that is the same object as before has not changed."""

    seen: list[StatePeriod]
    expected: list[tuple[str, Role]]
    occupied: list[OccupiedPeriod]
    phases: list[RebuildPhase]
    planned: list[PlannedMaintenance]
    backups: list[UsableBackup]


States: TypeAlias = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class _OpenShortage:
    """One gap at a moment, without its interval."""

    gap: Gap
    cause: Cause
    reference: str = ""
    missing: int = 0


@dataclass(slots=True)
class _BaseShortages:
    """Results that depend only on states and rebuilds, which change seldom."""

    of: tuple[list[StatePeriod], list[tuple[str, Role]], list[RebuildPhase]]
    sources: States
    unseen: str
    found: list[_OpenShortage | None]

    def holds(self, now: ClusterMoment) -> bool:
        seen, expected, phases = self.of
        return now.seen is seen and now.expected is expected and now.phases is phases


class Judge:
    """Judge one cluster at moments asked in order."""

    def __init__(self, record: ClusterRecord, method: MethodTraits) -> None:
        self._wanted, self._method = record.wanted, method
        self._base_shortages: _BaseShortages | None = None

    def of(self, now: ClusterMoment) -> list[Shortage]:
        """Return the gaps of a moment; the caller adds the interval."""
        if now.expected and all(role is Role.TIDB for _, role in now.expected):
            return []  # it has no replicas: the redundancy goal does not apply
        if self._base_shortages is None or not self._base_shortages.holds(now):
            self._base_shortages = _base_shortages(now, self._wanted)
        base = self._base_shortages
        findings = [*base.found, _paused(now), _not_rebuildable(now, base.sources, self._method)]
        gaps = [found for found in findings if found and found.gap is not Gap.NOT_OBSERVED]
        if _UNKNOWN in findings or not now.expected:
            gaps.append(_OpenShortage(Gap.NOT_OBSERVED, Cause.NOT_PROBED, base.unseen))
        planned = now.planned[0].reference if gaps and now.planned else ""
        return [Shortage(one.gap, NO_TIME, one.cause, one.reference, one.missing, planned) for one in gaps]


def _base_shortages(now: ClusterMoment, wanted: int | None) -> _BaseShortages:
    seen = {item.instance: item.state for item in now.seen}
    replicas: States = {name: seen.get(name) for name, role in now.expected if role in REPLICAS}
    backups: States = {name: seen.get(name) for name, role in now.expected if role is Role.BACKUP}
    sources = backups or replicas
    return _BaseShortages(
        of=(now.seen, now.expected, now.phases),
        sources=sources,
        unseen=", ".join(sorted(name for name, _ in now.expected if name not in seen)),
        found=[_short(now, replicas, wanted), _no_candidate(now, replicas), _no_source(now, sources)],
    )


#: Whether there was a gap depends on an instance without a probe.
_UNKNOWN = _OpenShortage(Gap.NOT_OBSERVED, Cause.NOT_PROBED)


def _short(now: ClusterMoment, replicas: States, wanted: int | None) -> _OpenShortage | None:
    wanted = len(replicas) if wanted is None else wanted
    healthy, unseen = _count(replicas, HEALTHY), _count(replicas, None)
    if not now.expected or healthy >= wanted:
        return None
    if healthy + unseen >= wanted:
        return _UNKNOWN
    cause, reference = _why_missing(now, replicas)
    return _OpenShortage(Gap.SHORT, cause, reference, wanted - healthy - unseen)


def _no_candidate(now: ClusterMoment, replicas: States) -> _OpenShortage | None:
    if not now.expected or _count(replicas, HEALTHY):
        return None
    if _count(replicas, None):
        return _UNKNOWN
    if not replicas:
        return _OpenShortage(Gap.NO_CANDIDATE, Cause.PRIMARY_ALONE)
    return _OpenShortage(Gap.NO_CANDIDATE, *_why_missing(now, replicas))


def _no_source(now: ClusterMoment, sources: States) -> _OpenShortage | None:
    if not now.expected or _count(sources, HEALTHY):
        return None
    if _count(sources, None):
        return _UNKNOWN
    return _OpenShortage(Gap.NO_SOURCE, *_why_source(now, sources))


def _paused(now: ClusterMoment) -> _OpenShortage | None:
    for item in now.occupied:
        if item.pauses:
            return _OpenShortage(Gap.PAUSED, item.cause, item.reference)
    return None


def _not_rebuildable(now: ClusterMoment, sources: States, method: MethodTraits) -> _OpenShortage | None:
    """Return whether no rebuild could start: no free healthy source, no readable backup, or maintenance."""
    if not now.expected:
        return None
    for stop in now.planned:
        if not stop.was_marked:
            return _OpenShortage(Gap.NOT_REBUILDABLE, Cause.MAINTENANCE, stop.reference)
    blocking = {item.instance: item for item in now.occupied if method.name in item.blocks}
    if kind := method.reads.backup:
        return _no_backup(now, blocking, kind)
    free = {name: state for name, state in sources.items() if name not in blocking}
    if _count(free, HEALTHY):
        return None
    if _count(free, None):
        return _UNKNOWN
    for name, state in sources.items():
        if state in (HEALTHY, None) and name in blocking:
            return _OpenShortage(Gap.NOT_REBUILDABLE, blocking[name].cause, blocking[name].reference)
    return _OpenShortage(Gap.NOT_REBUILDABLE, *_why_source(now, sources))


def _no_backup(now: ClusterMoment, blocking: dict[str, OccupiedPeriod], kind: BackupMethod) -> _OpenShortage | None:
    if all(item.kind is not kind for item in now.backups):
        return _OpenShortage(Gap.NOT_REBUILDABLE, Cause.NO_BACKUP)
    for item in blocking.values():
        return _OpenShortage(Gap.NOT_REBUILDABLE, item.cause, item.reference)
    return None


def _why_missing(now: ClusterMoment, replicas: States) -> tuple[Cause, str]:
    """Return what the replica closest to healthy waits for; without a requested rebuild, detection."""
    missing = {name for name, state in replicas.items() if state not in (HEALTHY, None)}
    phases = [phase for phase in now.phases if phase.target in missing]
    if phases:
        nearest = max(phases, key=lambda phase: (_nearness(phase.cause), -phase.rebuild))
        return nearest.cause, phrase("rebuild {number}", number=nearest.rebuild)
    return Cause.DETECTION, min(missing, default="")


def _nearness(cause: Cause) -> int:
    return -1 if cause is Cause.RETRY else _CAUSES.index(cause)


def _why_source(now: ClusterMoment, sources: States) -> tuple[Cause, str]:
    for phase in now.phases:
        if phase.target in sources:
            return phase.cause, phrase("rebuild {number}", number=phase.rebuild)
    return Cause.SOURCE_DOWN, min(sources, default="")


def _count(states: States, wanted: str | None) -> int:
    return sum(state == wanted for state in states.values())
