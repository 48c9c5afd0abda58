"""Match sightings of a backup: probes, reports and stored rows of the same run become one run.

``which_run`` finds the run, ``joined`` merges the information, ``fits`` compares a run with a due time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from dbops.engine.facts.backups import BackupConnection, BackupProcess, Reads
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.states import BackupMethod, RunOrigin, knows_better

#: Tolerance between the reported and the observed start or end of a run.
TOLERANCE = timedelta(seconds=60)
#: A script that dumps several databases starts the next process within this time.
FAMILY_GAP = timedelta(seconds=90)
#: Tools that use several connections at once.
MANY_CONNECTIONS = frozenset({"mydumper", "mysqlsh"})
#: Tolerance for clock differences and cron daemons that start early.
EARLY = timedelta(minutes=5)
#: A run that starts later than this after its due time counts as manual.
REACH = timedelta(hours=6)


class Where(StrEnum):
    """Where the process of a backup runs: on the instance's host, on another machine, or unknown."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The information of one origin about one run.

    ``until`` is the last known moment of the run: its end if ``is_over``. ``process``, ``parents`` and ``family`` are
    keys as in ``BackupProcess``; ``pid`` is the reported process id, valid only if ``where`` is ``HERE``.
    ``start_is_unknown``: only an end was reported, and ``started_at`` is that end. ``may_begin``: reliable enough to
    start a run, not only to continue one.
    """

    origin: RunOrigin
    method: BackupMethod
    started_at: datetime
    until: datetime
    is_over: bool = False
    start_is_unknown: bool = False
    where: Where = Where.UNKNOWN
    process: str = ""
    parents: tuple[str, ...] = ()
    family: str = ""
    connection: str = ""
    pid: int | None = None
    report_key: str = ""
    may_begin: bool = True


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A stored run."""

    pk: int
    said: Sighting


def which_run(new: Sighting, runs: Iterable[KnownRun], alive: Collection[str] = ()) -> KnownRun | None:
    """Return the run that ``new`` belongs to, or ``None``.

    Args:
        runs: running and recently ended runs of the same instance.
        alive: keys of all processes that the same probe saw: a script's next process is no next one while the last still runs.
    """
    known = [run for run in runs if run.said.method == new.method]
    same = next((run for run in known if _is_identical(new, run.said)), None)
    if same:
        return same
    candidates = [run for run in known if not _contradicts(new, run.said) and _may_be_one(new, run.said, alive)]
    return min(candidates, key=lambda run: (abs(run.said.started_at - new.started_at), run.pk), default=None)


def joined(known: Sighting, new: Sighting) -> Sighting:
    """Return the merged information: the better origin wins, and known values are kept."""
    better, other = (new, known) if knows_better(new.origin, known.origin) else (known, new)
    current = new if new.process else known
    return replace(
        better,
        started_at=other.started_at if better.start_is_unknown else better.started_at,
        start_is_unknown=better.start_is_unknown and other.start_is_unknown,
        until=better.until if better.is_over else max(known.until, new.until),
        is_over=_is_over(known, new),
        where=better.where if better.where != Where.UNKNOWN else other.where,
        process=current.process,
        parents=current.parents,
        family=current.family,
        connection=known.connection or new.connection,
        pid=known.pid if known.pid is not None else new.pid,
        report_key=known.report_key or new.report_key,
        may_begin=True,
    )


def _is_over(known: Sighting, new: Sighting) -> bool:
    """Return whether the run has ended: a probe that sees the process wins, and a reported end is final."""
    if knows_better(known.origin, new.origin):
        return known.is_over
    if knows_better(new.origin, known.origin) or new.origin == RunOrigin.OBSERVED:
        return new.is_over
    return known.is_over or new.is_over


def _is_identical(new: Sighting, known: Sighting) -> bool:
    if new.report_key and new.report_key == known.report_key:
        return True
    if new.process and new.process == known.process:
        return True
    # connection ids restart with the server
    return bool(new.connection) and new.connection == known.connection and _overlap(new, known)


def _contradicts(new: Sighting, known: Sighting) -> bool:
    """Return whether the two can't be one run, regardless of their times."""
    if RunOrigin.MANAGED in (new.origin, known.origin):
        return True  # a managed run is identified by its process and has no reports
    if new.report_key and known.report_key:
        return True
    if new.connection and known.connection:
        return True
    return {new.where, known.where} == {Where.HERE, Where.ELSEWHERE}


def _may_be_one(new: Sighting, known: Sighting, alive: Collection[str]) -> bool:
    if new.process and known.process:
        return known.process not in alive and (_is_next_of_family(new, known) or _is_of_reported(new, known) is True)
    related = _is_of_reported(new, known) if new.process else _is_of_reported(known, new)
    if related is not None:
        return related and _overlap(new, known)
    if RunOrigin.REPORTED in (new.origin, known.origin) and new.origin != known.origin:
        reported, observed = (new, known) if new.origin == RunOrigin.REPORTED else (known, new)
        return _overlap(new, known) and _lies_within(observed, reported)
    return _overlap(new, known)


def _is_next_of_family(new: Sighting, known: Sighting) -> bool:
    return (
        bool(new.family)
        and new.family == known.family
        and known.started_at <= new.started_at <= known.until + FAMILY_GAP
    )


def _is_of_reported(observed: Sighting, reported: Sighting) -> bool | None:
    """Return whether the observed process is the reported command or its child; ``None`` if unknown."""
    if reported.pid is None or not observed.process or reported.where != Where.HERE:
        return None
    return reported.pid in {int(key.split(":")[1]) for key in (observed.process, *observed.parents)}


def _overlap(one: Sighting, other: Sighting) -> bool:
    return _begins_before(other, one) and _begins_before(one, other)


def _begins_before(one: Sighting, other: Sighting) -> bool:
    """Return whether ``one`` started before ``other`` ended."""
    return (
        not other.is_over
        or one.started_at < other.until
        or (one.start_is_unknown and one.until <= other.until + TOLERANCE)
    )


def _lies_within(observed: Sighting, reported: Sighting) -> bool:
    begins = reported.start_is_unknown or observed.started_at >= reported.started_at - TOLERANCE
    return begins and (not reported.is_over or observed.until <= reported.until + TOLERANCE)


def fits(started_at: datetime, due: datetime, following: datetime | None, late_after_seconds: int) -> bool:
    """Return whether a run that started at ``started_at`` is the one due at ``due``.

    Args:
        following: the next due time: a run belongs to the due time before it for half of the way there, for ``REACH`` at
            most, and as long as it counts as on time in any case.
    """
    reach = min(REACH, (following - due) / 2) if following else REACH
    return due - EARLY <= started_at <= due + max(reach, timedelta(seconds=late_after_seconds))


def sightings_of(facts: InstanceFacts, *, is_held: bool) -> tuple[Sighting, ...]:
    """Return the external backups that a probe saw on its instance, oldest first; those that may start a run come first.

    A local connection shows what it reads. Only a process that certainly reads this instance explains a connection;
    an unclear process may belong to the only connection.

    Args:
        is_held: a job of ours holds the instance: what works on it from its own host, without a process to be seen, is ours.
            Where none does, a process of ours that certainly reads it was given up, and is a backup like those of others.
    """
    processes = facts.backup_processes or ()
    connections = (facts.server.backup_connections if facts.server else None) or ()
    explained = {process.method for process in processes if process.reads == Reads.THIS}
    open_ones = [item for item in connections if not (item.is_local and (is_held or item.method in explained))]
    local = {item.method for item in open_ones if item.is_local}
    unclear = Counter(process.method for process in processes if process.reads == Reads.UNCLEAR)
    left_out = {method for method in local if unclear[method] > 1}
    seen = [
        _of_process(process, facts.observed_at)
        for process in processes
        if not (process.is_ours and (is_held or process.reads != Reads.THIS))
        and not (process.reads == Reads.UNCLEAR and process.method in left_out)
    ]
    seen += _of_connections(open_ones, facts.observed_at)
    return tuple(sorted(seen, key=lambda item: (not item.may_begin, item.started_at, item.process, item.connection)))


def _of_process(process: BackupProcess, now: datetime) -> Sighting:
    return Sighting(
        origin=RunOrigin.OBSERVED,
        method=process.method,
        started_at=process.started_at,
        until=max(now, process.started_at),
        where=Where.HERE,
        process=process.key,
        parents=process.parents,
        family=process.family,
        may_begin=process.reads == Reads.THIS,
    )


def _of_connections(connections: Sequence[BackupConnection], now: datetime) -> list[Sighting]:
    groups: dict[str, list[BackupConnection]] = {}
    for item in connections:
        groups.setdefault(connection_key(item), []).append(item)
    return [
        Sighting(
            origin=RunOrigin.OBSERVED,
            method=items[0].method,
            started_at=min(item.since for item in items),
            until=now,
            where=Where.UNKNOWN if items[0].is_local else Where.ELSEWHERE,
            connection=key,
        )
        for key, items in groups.items()
    ]


def connection_key(item: BackupConnection) -> str:
    """Return the key of a backup seen by its connections: one per connection, or one per client for parallel tools."""
    host = item.client.rpartition(":")[0] or item.client
    if item.tool in MANY_CONNECTIONS:
        return f"{item.tool}:{item.user}@{host}"
    return f"{item.number}:{item.user}@{item.client}"
