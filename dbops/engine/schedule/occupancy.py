"""Compute which job uses each instance and when: running jobs, then the queue."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dbops.engine.phrases import phrase
from dbops.engine.schedule.backup_windows import NONE_HAS_ENDED, Basis, TimeEstimate, expected_end
from dbops.engine.schedule.scheduler import line_order
from dbops.engine.schedule.snapshot import ActiveJob, ClusterSnapshot, InstanceUse

#: The end of a job that waits for approval is unknown.
NOT_APPROVED = TimeEstimate(None, None, phrase("needs approval"), Basis.APPROVAL)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One job's use of one instance, from its earliest possible begin. Its end is likely or late, or unknown."""

    job: ActiveJob
    instance: str
    use: InstanceUse
    begins: datetime
    end: TimeEstimate

    def covers(self, moment: datetime, *, late: bool = False) -> bool:
        """Return whether it lasts at ``moment``; with ``late``, whether it lasts by its p90."""
        ends = self.end.p90 if late else self.end.p50
        return self.begins <= moment and (ends is None or moment < ends)


def reservations_of(snapshot: ClusterSnapshot) -> tuple[Reservation, ...]:
    """Return every use of every instance. Queued jobs follow in the order of the scheduler: by priority, then by age.

    Jobs that wait for approval are included, but do not delay those behind them.
    """
    running = [stay for job in snapshot.jobs if job.started_at for stay in _running(job, snapshot.now)]
    free: dict[str, TimeEstimate] = {}
    for stay in running:
        free[stay.instance] = _later(free.get(stay.instance), stay.end)
    waiting = []
    for job in sorted((job for job in snapshot.jobs if not job.started_at), key=order_of):
        for stay in _queued(job, snapshot.now, free):
            waiting.append(stay)
            if job.needs_approval:
                continue
            free[stay.instance] = _later(free.get(stay.instance), stay.end)
    return (*running, *waiting)


def _running(job: ActiveJob, now: datetime) -> Iterator[Reservation]:
    assert job.started_at is not None  # noqa: S101 - the caller passes jobs that have started
    end = expected_end(job.started_at, job.duration, now)
    if job.is_lost:
        end = TimeEstimate(None, None, phrase("its host is unreachable"), Basis.SILENT_HOST)
    for instance, use in job.claims:
        yield Reservation(job, instance, use, min(job.started_at, now), end)


def order_of(job: ActiveJob) -> tuple[Any, ...]:
    """Return the sort key of the jobs of a snapshot, as the scheduler sorts its own (``scheduling.line_order``)."""
    since = job.not_before or job.queued_at
    return line_order(job.priority, since.timestamp() if since else 0.0, job.rebuild or job.run or 0)


def _queued(job: ActiveJob, now: datetime, free: dict[str, TimeEstimate]) -> Iterator[Reservation]:
    """Return the reservation of a queued job: it starts when all jobs ahead have ended."""
    begins = max(now, job.not_before) if job.not_before else now
    before = TimeEstimate(begins, begins, "")
    for instance, _ in job.claims:
        before = _later(before, free.get(instance))
    ends = NOT_APPROVED if job.needs_approval else _after(before, job)
    for instance, use in job.claims:
        yield Reservation(job, instance, use, begins, ends)


def _after(before: TimeEstimate, job: ActiveJob) -> TimeEstimate:
    if before.p50 is None or before.p90 is None:
        return TimeEstimate(None, None, phrase("waits for a job without an estimated end"), Basis.QUEUE)
    if job.duration is None:
        return TimeEstimate(None, None, NONE_HAS_ENDED, Basis.NO_RUN)
    likely, late = job.duration.p50_seconds, job.duration.p90_seconds
    return TimeEstimate(
        before.p50 + timedelta(seconds=likely),
        before.p90 + timedelta(seconds=late),
        job.duration.reason,
        job.duration.basis,
    )


def _later(one: TimeEstimate | None, other: TimeEstimate | None) -> TimeEstimate:
    """Return the later of two ends; an unknown end is later than any other."""
    known = [end for end in (one, other) if end is not None]
    for end in known:
        if end.p50 is None or end.p90 is None:
            return end
    return TimeEstimate(
        max(end.p50 for end in known if end.p50),
        max(end.p90 for end in known if end.p90),
        known[-1].reason,
        known[-1].basis,
    )
