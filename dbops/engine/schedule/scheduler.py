"""Decide which queued jobs start next and what the others wait for.

Each instance has a queue. A job starts when it is first in the queues of all instances that it claims. So jobs start in queue order, no job
waits forever for two instances that are free by turns, and a job that waits for a busy source does not delay jobs on a free one.
A queue is ordered by priority, then by the moment since which a job is ready to start. Backup runs have priority 0: a rebuild of
higher priority overtakes a waiting backup; no running job is ended for it. A job with an unmet condition (a chosen start time or end
of a backup run, or a start condition) is in no queue until then, so that tonight's rebuild delays no job of today.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from dbops.engine.phrases import phrase


class JobKind(StrEnum):
    REBUILD = "rebuild"
    BACKUP = "backup run"


#: The identity of a job: its kind and its primary key.
Key = tuple[JobKind, int]


class QueuedJob(NamedTuple):
    """A queued job. It is small because each decision creates up to ten thousand of them.

    ``order`` is the result of ``line_order``. ``claims`` are the instances that it holds while it runs: a rebuild's source, if
    it reads one, and last its target. ``unmet_conditions`` names what it waits for besides holds; empty: the job may start at its turn.
    ``logged`` is the reason for waiting that its history already contains.
    """

    kind: JobKind
    pk: int
    order: tuple[Any, ...]
    claims: tuple[int, ...]
    unmet_conditions: str = ""
    logged: str = ""

    @property
    def key(self) -> Key:
        return (self.kind, self.pk)

    def purpose(self, instance: int) -> str:
        """Return the job as the holder of one of its instances."""
        if self.kind is JobKind.BACKUP:
            return "backup"
        return "target" if instance == self.claims[-1] else "source"


def line_order(priority: int, since: Any, number: int) -> tuple[Any, ...]:
    """Return the sort key of a queue: higher priority first, then the longer wait, then the lower primary key.

    Args:
        since: when the job is ready to start: at the chosen moment, else since it was queued. Any value that sorts.
    """
    return (-priority, since, number)


@dataclass(frozen=True, slots=True)
class StartDecision:
    """The decision: ``starts`` in order, and ``reasons`` of waiting jobs whose history does not contain them yet."""

    starts: tuple[QueuedJob, ...]
    reasons: Mapping[Key, str]


def decide(
    jobs: Iterable[QueuedJob],
    held: Mapping[int, str],
    name_of: Callable[[int], str],
    *,
    failed: Collection[Key] = (),
    limit: int = 500,
) -> StartDecision:
    """Return which jobs start now, and what every other job waits for.

    Args:
        jobs: everything queued, in any order.
        held: instance to the text of its holder.
        name_of: returns the name of an instance; called only if a reason needs it.
        failed: jobs whose turn it was but that just failed to start: jobs behind them wait for them.
        limit: characters of a reason.
    """
    taken: dict[int, str | QueuedJob] = dict(held)
    starts: list[QueuedJob] = []
    reasons: dict[Key, str] = {}
    begun: set[Key] = set()

    def reason_of(instance: int) -> str:
        """Return the job ahead of all others on an instance, as text; computed once for each instance."""
        item = taken[instance]
        if not isinstance(item, str):
            describe = hold_reason if item.key in begun else reservation_reason
            taken[instance] = item = describe(name_of(instance), item.kind, item.pk, item.purpose(instance))
        return item

    for job in sorted(jobs, key=attrgetter("order")):
        _, _, _, claims, reason, logged = job
        if not reason:
            blocking = [instance for instance in claims if instance in taken]
            for instance in claims:
                if instance not in taken:
                    taken[instance] = job
            if not blocking:
                if not failed or job.key not in failed:
                    starts.append(job)
                    begun.add(job.key)
                continue  # the attempt to start it has already recorded why not
            reason = reason_of(blocking[0]) if len(blocking) == 1 else "; ".join(map(reason_of, blocking))
            if len(reason) > limit:
                reason = reason[:limit]
        if reason != logged:
            reasons[job.key] = reason
    return StartDecision(tuple(starts), reasons)


def hold_reason(name: str, kind: JobKind, pk: int, purpose: str) -> str:
    """Return the holder of an instance as text."""
    if kind is JobKind.BACKUP:
        return phrase("{name} is held by backup run {pk}", name=name, pk=pk)
    return phrase("{name} is held by rebuild {pk} ({purpose})", name=name, pk=pk, purpose=purpose)


def reservation_reason(name: str, kind: JobKind, pk: int, purpose: str) -> str:
    """Return the job for which an instance without a holder is reserved, as text."""
    who = (
        phrase("backup run {pk}", pk=pk)
        if kind is JobKind.BACKUP
        else phrase("rebuild {pk} ({purpose})", pk=pk, purpose=purpose)
    )
    return phrase("{name} is reserved for {who}", name=name, who=who)
