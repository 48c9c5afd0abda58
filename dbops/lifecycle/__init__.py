"""The only writer of a rebuild's status, holds, run token, lease, steps and events.

Every move is a conditional update, and the caller obeys the row count: whoever comes second changes nothing.
"""

from dbops.lifecycle.database import AWAY, lost_a_race, mend_connection
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
from dbops.lifecycle.requests import (
    Start,
    claims_of,
    end_queued,
    held,
    queue,
    reprioritize,
    request_cancel,
    start,
    wait,
)
from dbops.lifecycle.sweeps import claim_sweep, end_sweep, give_up, sweeps_due, write_sweep

__all__ = [
    "AWAY",
    "Lease",
    "LeaseLost",
    "News",
    "Start",
    "beat",
    "begin_step",
    "claim_sweep",
    "claims_of",
    "due",
    "end_badly",
    "end_queued",
    "end_sweep",
    "end_step",
    "finish",
    "give_up",
    "held",
    "lost_a_race",
    "mark_reachable",
    "mark_unreachable",
    "mend_connection",
    "queue",
    "release_lease",
    "renew",
    "reprioritize",
    "request_cancel",
    "start",
    "sweeps_due",
    "take_lease",
    "tell_trouble",
    "write_sweep",
    "wait",
]
