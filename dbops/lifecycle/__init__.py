"""The only writer of a rebuild's status, holds, run token, lease, steps and events.

Every move is a conditional update, and the caller obeys the row count: whoever comes second changes nothing.
"""

from dbops.lifecycle.leases import (
    Lease,
    LeaseLost,
    News,
    beat,
    begin_step,
    due,
    end_badly,
    end_step,
    finish,
    mark_reachable,
    mark_unreachable,
    release_lease,
    renew,
    take_lease,
    tell_trouble,
)
from dbops.lifecycle.requests import end_queued, queue, request_cancel, start

__all__ = [
    "Lease",
    "LeaseLost",
    "News",
    "beat",
    "begin_step",
    "due",
    "end_badly",
    "end_queued",
    "end_step",
    "finish",
    "mark_reachable",
    "mark_unreachable",
    "queue",
    "release_lease",
    "renew",
    "request_cancel",
    "start",
    "take_lease",
    "tell_trouble",
]
