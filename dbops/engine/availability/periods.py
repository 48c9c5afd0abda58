"""Build periods of one instance in one state from probes.

A period continues while probes follow each other and see the same state. Time without probes belongs to no period and
never counts as good.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dbops.engine.states import Role

#: Number of missed probes after which the time between two probes counts as not observed.
MISSED_PROBES = 3
LEAST_GAP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProbedState:
    """The result of one probe: the state from ``engine.facts.summary.judge``, and the instance's role and cluster."""

    state: str
    role: Role
    cluster: str


def longest_gap(interval_seconds: float) -> timedelta:
    """Return the longest distance of two probes without unobserved time between them.

    Args:
        interval_seconds: the configured interval of probes.
    """
    return timedelta(seconds=max(LEAST_GAP_SECONDS, MISSED_PROBES * interval_seconds))


def end_of_period(
    before: ProbedState, now: ProbedState, *, last_seen_at: datetime | None, at: datetime, gap: timedelta
) -> datetime | None:
    """Return the end of the open period, ``None`` if it continues.

    A change counts from the probe that saw it. After a gap the old period ends with its last probe, even if the next
    probe sees the same state.

    Args:
        last_seen_at: of the last probe before this one.
        at: of this one.
    """
    if last_seen_at is None or at - last_seen_at > gap:
        return last_seen_at or at
    return at if before != now else None
