"""How long an instance was seen in one state: a period goes on while probes follow each other and see the same. Pure.

What is kept is intervals and not samples: a probe that sees what the last one saw adds nothing. Time in which nobody looked
belongs to no period, so that it can never be counted as good.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dbops.engine.states import Role

#: Probes that may be missed before the time between two of them counts as not observed.
MISSED_PROBES = 3
LEAST_GAP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProbedState:
    """What one probe saw: the word of ``engine.facts.summary.judge``, and the role and cluster that the instance had then."""

    state: str
    role: Role
    cluster: str


def longest_gap(interval_seconds: float) -> timedelta:
    """Return how far apart two probes may be without leaving unobserved time between them.

    Args:
        interval_seconds: what is set between two probes of an instance.
    """
    return timedelta(seconds=max(LEAST_GAP_SECONDS, MISSED_PROBES * interval_seconds))


def end_of_period(
    before: ProbedState, now: ProbedState, *, last_seen_at: datetime | None, at: datetime, gap: timedelta
) -> datetime | None:
    """Return when the open period ended, ``None`` where it goes on.

    A change lies somewhere between two probes; it counts from the one that saw it. After a gap the old period ends with the last
    probe that saw it, even where the first one after the gap sees the same.

    Args:
        last_seen_at: of the last probe before this one.
        at: of this one.
    """
    if last_seen_at is None or at - last_seen_at > gap:
        return last_seen_at or at
    return at if before != now else None
