"""Can it be rebuilt now? One answer, computed here and shown everywhere the same. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.blockers import Blocker, look
from dbops.engine.occupation import Stay, stays
from dbops.engine.picture import Machine, Picture
from dbops.engine.states import Role
from dbops.engine.windows import End

#: More than this many things one after the other are not followed: then nothing is said.
FOLLOWED = 50


class Answer(StrEnum):
    """Can it be rebuilt: now, at a time that can be said, at one that cannot, or not for want of a source?"""

    NOW = "now"
    UNTIL = "until"
    UNKNOWN = "unknown"
    NO_SOURCE = "no source"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer for a cluster, or for one target of it.

    Args:
        source: the instance that is free the earliest.
        free: when a rebuild could start; unknown where any of its blockers has no known end.
        blockers: what is in the way now, the worst first.
        warnings: what it may run beside.
    """

    answer: Answer
    cluster: str
    target: str | None
    source: str | None
    method: str
    free: End
    blockers: tuple[Blocker, ...]
    warnings: tuple[Blocker, ...]

    @property
    def by(self) -> Blocker | None:
        """The blocker that the answer names: the one that ends last, an unknown end being the last of all."""
        unknown = [blocker for blocker in self.blockers if blocker.until.p50 is None]
        known = sorted(self.blockers, key=lambda blocker: blocker.until.p50.timestamp() if blocker.until.p50 else 0.0)
        return unknown[0] if unknown else known[-1] if known else None


def sources_of(picture: Picture, target: str | None = None) -> tuple[str, ...]:
    """Return the instances that the answer is about: the cluster's backup instances, and its replicas where it has none.

    Where no target is named there must be another instance to be one.
    """
    others = [machine for machine in picture.machines if machine.role != Role.PRIMARY and machine.name != target]
    if target is None and len(others) < 2:
        return ()
    backups = [machine for machine in others if machine.role == Role.BACKUP]
    return tuple(machine.name for machine in sorted(backups or others, key=_by_name))


def all_sources_of(picture: Picture, target: str) -> tuple[str, ...]:
    """Return every instance that a rebuild of ``target`` may read, backup instances first."""
    others = [machine for machine in picture.machines if machine.role != Role.PRIMARY and machine.name != target]
    return tuple(machine.name for machine in sorted(others, key=lambda item: (item.role != Role.BACKUP, item.name)))


def _by_name(machine: Machine) -> str:
    return machine.name


def verdict(
    picture: Picture, *, target: str | None = None, source: str | None = None, method: str = "xbstream"
) -> Verdict:
    """Answer whether a rebuild could start now, and else when.

    Args:
        target: the instance to rebuild; ``None`` asks for the cluster as a whole.
        source: ask for this source alone; ``None`` takes the one that is free the earliest.
    """
    used = stays(picture)
    names = (source,) if source else sources_of(picture, target)
    answers = [_of_source(picture, used, target, name, method) for name in names]
    if not answers:
        return _of_source(picture, used, target, None, method)
    return min(answers, key=lambda item: item.free.p50.timestamp() if item.free.p50 else float("inf"))


def _of_source(
    picture: Picture, used: tuple[Stay, ...], target: str | None, source: str | None, method: str
) -> Verdict:
    found = look(picture, used, target=target, source=source, method=method)
    stopping = tuple(blocker for blocker in found if blocker.stops)
    free = free_from(picture, used, target=target, source=source, method=method)
    if source is None:
        answer = Answer.NO_SOURCE
    elif not stopping:
        answer = Answer.NOW
    else:
        answer = Answer.UNTIL if free.is_known else Answer.UNKNOWN
    return Verdict(
        answer=answer,
        cluster=picture.cluster,
        target=target,
        source=source,
        method=method,
        free=free,
        blockers=stopping,
        warnings=tuple(blocker for blocker in found if not blocker.stops),
    )


def free_from(
    picture: Picture,
    used: tuple[Stay, ...],
    *,
    target: str | None,
    source: str | None,
    method: str,
    moment: datetime | None = None,
) -> End:
    """Return the first time from ``moment`` on at which nothing stops the rebuild from starting: likely, and late."""
    known: list[datetime] = []
    for late in (False, True):
        found = _first_free(picture, used, target, source, method, moment or picture.now, late=late)
        if isinstance(found, Blocker):
            return End(None, None, found.until.words)
        known.append(found)
    return End(known[0], max(known), "when nothing of what is known stands in the way any more")


def _first_free(
    picture: Picture,
    used: tuple[Stay, ...],
    target: str | None,
    source: str | None,
    method: str,
    moment: datetime,
    *,
    late: bool,
) -> datetime | Blocker:
    """Return the first free time, or the blocker whose end is not known."""
    at, last = max(moment, picture.now), None
    for _ in range(FOLLOWED):
        found = look(picture, used, target=target, source=source, method=method, moment=at, late=late)
        stopping = [blocker for blocker in found if blocker.stops]
        if not stopping:
            return at
        for blocker in stopping:
            ends = blocker.until.p90 if late else blocker.until.p50
            if ends is None:
                return blocker
            at, last = max(at, ends), blocker
    assert last is not None  # noqa: S101 - the loop went round
    return last
