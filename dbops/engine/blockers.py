"""What keeps a rebuild from starting: which kind, since when, until when, and who can clear it. Pure.

What each thing means is read from ``effects.TABLE``; when it ends, from ``windows``. ``verdicts.verdict`` makes one answer of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from dbops.engine.backups import BackupMethod
from dbops.engine.effects import Effect, Work, cell, of_backup
from dbops.engine.occupation import Stay, stays
from dbops.engine.picture import Machine, Picture, Use
from dbops.engine.windows import NONE_HAS_ENDED, End, Window, spell

#: How far ahead a window is looked at where it is not known how long the rebuild takes.
BLIND_HOURS = 24


class Kind(StrEnum):
    """Which kind of thing stands in the way."""

    BACKUP_RUNNING = "backup running"
    WINDOW_AHEAD = "backup window"
    HELD = "held by a rebuild"
    TARGET_BUSY = "target busy"
    SOURCE_DOWN = "source down"
    SOURCE_LAGGING = "source lagging"
    NO_COPY = "no complete backup"
    NO_SOURCE = "no source"
    MAINTENANCE = "maintenance"
    TOPOLOGY = "topology differs"


class Certainty(StrEnum):
    """How sure the end is: a person set it, earlier runs say so, or nobody knows."""

    KNOWN = "known"
    PREDICTED = "predicted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing in the way of a rebuild. Text holds no clock times: pages show them in their own time zone.

    Args:
        work: the row of ``effects.TABLE`` that it was judged by; ``reason`` is that cell's.
        text: what it is, one sentence.
        since: when it began (or begins, where it lies ahead); ``None`` where nobody noted it.
        until: when it is expected to end. Never in the past of the moment that was asked for.
        clears: who can end it.
        run: the backup run, ``rebuild`` the rebuild that it is, where it is one.
    """

    kind: Kind
    work: Work
    instance: str
    text: str
    since: datetime | None
    until: End
    certainty: Certainty
    effect: Effect
    reason: str
    clears: str
    run: int | None = None
    rebuild: int | None = None

    @property
    def stops(self) -> bool:
        """Tell whether a rebuild cannot start beside it."""
        return self.effect is not Effect.BESIDE


_ORDER = {Effect.BLOCKS: 0, Effect.WAITS: 1, Effect.BESIDE: 2}
_NOBODY_KNOWS = End(None, None, "nobody can say when")


def blockers(
    picture: Picture,
    *,
    target: str | None = None,
    source: str | None,
    method: str = "xbstream",
    moment: datetime | None = None,
    late: bool = False,
) -> tuple[Blocker, ...]:
    """Return what stands in the way of a rebuild that starts at ``moment``, the worst first.

    Args:
        target: ``None`` asks for any target: nothing is said of it.
        source: the instance that is read; ``None`` where there is none.
        method: how it is rebuilt.
        moment: now where it is not given; never earlier than now.
        late: ask as it is in 1 of 10 cases, when everything that runs takes its p90.
    """
    return look(picture, stays(picture), target=target, source=source, method=method, moment=moment, late=late)


def look(
    picture: Picture,
    used: tuple[Stay, ...],
    *,
    target: str | None,
    source: str | None,
    method: str,
    moment: datetime | None = None,
    late: bool = False,
) -> tuple[Blocker, ...]:
    """As ``blockers``, with the stays of the picture already at hand."""
    at = max(moment or picture.now, picture.now)
    found = [
        *_of_cluster(picture, source, method, at),
        *_of_source(picture, source, method),
        *_of_stays(used, target, source, method, at, late=late),
        *_of_unseen(picture, target, source, method, at, late=late),
        *_of_windows(picture, target, source, method, at, late=late),
    ]
    return tuple(sorted(found, key=lambda blocker: _ORDER[blocker.effect]))


def _make(
    kind: Kind,
    work: Work,
    method: str,
    *,
    text: str,
    clears: str,
    instance: str = "",
    since: datetime | None = None,
    until: End = _NOBODY_KNOWS,
    certainty: Certainty | None = None,
    run: int | None = None,
    rebuild: int | None = None,
) -> Iterator[Blocker]:
    """Yield the blocker, or nothing where it means nothing for the method."""
    judged = cell(method, work)
    if judged is None:
        return
    guess = Certainty.PREDICTED if until.is_known else Certainty.UNKNOWN
    yield Blocker(
        kind=kind,
        work=work,
        instance=instance,
        text=text,
        since=since,
        until=until,
        certainty=certainty or guess,
        effect=judged.effect,
        reason=judged.reason,
        clears=clears,
        run=run,
        rebuild=rebuild,
    )


def _of_cluster(picture: Picture, source: str | None, method: str, at: datetime) -> Iterator[Blocker]:
    if source is None:
        text = f"{picture.cluster} has no other instance to read than its primary."
        yield from _make(
            Kind.NO_SOURCE,
            Work.NO_SOURCE,
            method,
            text=text,
            clears="whoever adds a backup instance or another replica",
        )
    if picture.difference:
        yield from _make(
            Kind.TOPOLOGY,
            Work.TOPOLOGY,
            method,
            text=picture.difference.text,
            since=picture.difference.since,
            clears="an operator, by accepting the difference or correcting the inventory",
        )
    duration = picture.predicted(source).duration
    done = at + timedelta(seconds=duration.p90_seconds) if duration else None
    for stop in picture.stops:
        if stop.ends_at is not None and stop.ends_at <= at:
            continue
        is_ahead = stop.starts_at > at
        if is_ahead and not (done and stop.starts_at < done):
            continue
        yield from _make(
            Kind.MAINTENANCE,
            Work.MAINTENANCE_AHEAD if is_ahead else Work.MAINTENANCE,
            method,
            text=f"Maintenance of {picture.cluster}: {stop.reason.rstrip('.')}.",
            since=stop.starts_at,
            until=End(stop.ends_at, stop.ends_at, "as it was announced" if stop.ends_at else "no end was announced"),
            certainty=Certainty.KNOWN if stop.ends_at else Certainty.UNKNOWN,
            clears=f"{stop.by or 'an operator'}, by ending the maintenance",
        )


def _of_source(picture: Picture, source: str | None, method: str) -> Iterator[Blocker]:
    machine = picture.machine(source) if source else None
    if machine is None:
        return
    if machine.problem:
        yield from _make(
            Kind.SOURCE_DOWN,
            Work.SOURCE_DOWN,
            method,
            instance=machine.name,
            text=f"{machine.name} cannot be read: {machine.problem}.",
            clears=f"whoever looks after {machine.name}",
        )
    elif why := _why_lagging(machine, picture.max_lag_seconds):
        yield from _make(
            Kind.SOURCE_LAGGING,
            Work.SOURCE_LAGGING,
            method,
            instance=machine.name,
            text=f"{machine.name} {why}.",
            clears=f"nobody: it ends when {machine.name} has caught up"
            if not machine.stopped
            else f"whoever looks after {machine.name}",
        )
    has_copy = {"dump": machine.has_dump, "archive": machine.has_archive}.get(method, True)
    if not has_copy:
        what = "dump" if method == "dump" else "physical backup"
        yield from _make(
            Kind.NO_COPY,
            Work.NO_COPY,
            method,
            instance=machine.name,
            text=f"There is no complete {what} of {machine.name}.",
            clears=f"a {what} of {machine.name} that succeeds",
        )


def _why_lagging(machine: Machine, limit_seconds: float) -> str:
    if machine.problem:
        return ""
    if machine.stopped:
        return f"does not replicate: {machine.stopped}"
    if machine.lag_seconds is None:
        return "replicates, and its lag is not known"
    if machine.lag_seconds > limit_seconds:
        return f"lags by {spell(machine.lag_seconds)}; at most {spell(limit_seconds)} are allowed"
    return ""


def _of_stays(
    used: tuple[Stay, ...], target: str | None, source: str | None, method: str, at: datetime, *, late: bool
) -> Iterator[Blocker]:
    for stay in used:
        if stay.instance not in (target, source) or not stay.covers(at, late=late):
            continue
        is_target = stay.instance == target
        yield from _make(
            _kind_of(stay, is_target=is_target),
            _work_of(stay, is_target=is_target),
            method,
            instance=stay.instance,
            text=_tell(stay),
            since=stay.job.started_at or stay.job.queued_at,
            until=stay.end,
            clears=_who_clears(stay),
            run=stay.job.run,
            rebuild=stay.job.rebuild,
        )


def _kind_of(stay: Stay, *, is_target: bool) -> Kind:
    if is_target:
        return Kind.TARGET_BUSY
    return Kind.BACKUP_RUNNING if stay.use in (Use.DUMP, Use.PHYSICAL) else Kind.HELD


def _work_of(stay: Stay, *, is_target: bool) -> Work:
    if stay.use is Use.READ:
        return Work.TARGET_READ if is_target else Work.SOURCE_READ
    if stay.use is Use.REPLACE:
        return Work.TARGET_REPLACED if is_target else Work.SOURCE_REPLACED
    return Work.TARGET_BACKUP if is_target else of_backup(is_dump=stay.use is Use.DUMP, is_managed=stay.job.is_managed)


_DEEDS = {
    Use.DUMP: ("dumps", "is to dump"),
    Use.PHYSICAL: ("backs up", "is to back up"),
    Use.READ: ("reads", "is to read"),
    Use.REPLACE: ("replaces", "is to replace"),
}


def _tell(stay: Stay) -> str:
    does, will = _DEEDS[stay.use]
    name = stay.job.name[:1].upper() + stay.job.name[1:]
    if stay.job.started_at is None:
        return f"{name} waits in line before this one, and {will} {stay.instance}."
    silent = " Its host is silent." if stay.job.is_lost else ""
    return f"{name} {does} {stay.instance}.{silent}"


def _who_clears(stay: Stay) -> str:
    if stay.job.rebuild is not None:
        return "an operator, by cancelling that rebuild; else it ends by itself"
    if stay.job.can_be_stopped:
        return "an operator, by stopping the run; else it ends by itself"
    return f"whoever started it on {stay.instance}'s host; else it ends by itself"


def _of_unseen(
    picture: Picture, target: str | None, source: str | None, method: str, at: datetime, *, late: bool
) -> Iterator[Blocker]:
    """A cron job of somebody else that is due may begin in any moment, or run already: a run is known from the next probe on."""
    for due in picture.unseen:
        waited = picture.now - due.starts_at
        window = replace(
            due,
            starts_at=picture.now,
            ends_p50=due.ends_p50 and due.ends_p50 + waited,
            ends_p90=due.ends_p90 and due.ends_p90 + waited,
        )
        if window.instance not in (target, source) or not (at == picture.now or _lasts(window, at, late=late)):
            continue
        yield from _make(
            Kind.WINDOW_AHEAD,
            Work.AHEAD_TARGET if window.instance == target else Work.AHEAD_EXTERNAL,
            method,
            instance=window.instance,
            text=f"The backup {window.schedule} of {window.instance} is due now, and was not seen yet.",
            since=due.starts_at,
            until=_until(window),
            clears=f"whoever owns cron on {window.instance}",
        )


def _of_windows(
    picture: Picture, target: str | None, source: str | None, method: str, at: datetime, *, late: bool
) -> Iterator[Blocker]:
    duration = picture.predicted(source).duration
    limit = at + (timedelta(seconds=duration.p90_seconds) if duration else timedelta(hours=BLIND_HOURS))
    ahead: set[str] = set()
    for window in sorted(picture.windows, key=lambda item: item.starts_at):
        if window.instance not in (target, source) or window.starts_at <= picture.now:
            continue  # what is due by now is a run, unseen, or late
        is_target = window.instance == target
        if window.starts_at <= at:
            if _lasts(window, at, late=late):
                yield from _running_then(window, method, is_target=is_target)
        elif window.starts_at < limit and window.schedule not in ahead:
            ahead.add(window.schedule)
            likely = at + timedelta(seconds=duration.p50_seconds) if duration else None
            yield from _ahead(window, method, is_target=is_target, likely=likely)


def _lasts(window: Window, at: datetime, *, late: bool) -> bool:
    ends = window.ends_p90 if late else window.ends_p50
    return ends is None or at < ends


def _until(window: Window) -> End:
    words = "as its earlier runs took" if window.ends_p50 else NONE_HAS_ENDED
    return End(window.ends_p50, window.ends_p90, words)


def _running_then(window: Window, method: str, *, is_target: bool) -> Iterator[Blocker]:
    is_dump = window.method is BackupMethod.DUMP
    yield from _make(
        Kind.TARGET_BUSY if is_target else Kind.BACKUP_RUNNING,
        Work.TARGET_BACKUP if is_target else of_backup(is_dump=is_dump, is_managed=window.is_managed),
        method,
        instance=window.instance,
        text=f"The backup {window.schedule} of {window.instance} is expected to run then.",
        since=window.starts_at,
        until=_until(window),
        clears="an operator, by changing the schedule"
        if window.is_managed
        else f"whoever owns cron on {window.instance}",
    )


def _ahead(window: Window, method: str, *, is_target: bool, likely: datetime | None) -> Iterator[Blocker]:
    work = Work.AHEAD_MANAGED if window.is_managed else Work.AHEAD_EXTERNAL
    if likely is None:
        how = "may become due before the rebuild ends: how long that takes is not known"
    elif window.starts_at < likely:
        how = "is due before the rebuild is expected to end"
    else:
        how = "may become due before the rebuild ends, where that takes longer than usual"
    yield from _make(
        Kind.WINDOW_AHEAD,
        Work.AHEAD_TARGET if is_target else work,
        method,
        instance=window.instance,
        text=f"The backup {window.schedule} of {window.instance} {how}.",
        since=window.starts_at,
        until=_until(window),
        clears="an operator, by changing the schedule"
        if window.is_managed
        else f"whoever owns cron on {window.instance}",
    )
