"""The only writer of a rebuild's status, holds, run token, lease, steps and events.

Every move is a conditional update, and the caller obeys the row count: whoever comes second changes nothing.
"""

from dbops.lifecycle.database import AWAY, lost_a_race, mend_connection
from dbops.lifecycle.differences import (
    accept_difference,
    blocks_rebuilds,
    note_differences,
    open_differences,
    set_identity,
    stored_of,
    withdraw_acceptance,
)
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
from dbops.lifecycle.requests import claims_of, end_queued, held, queue, request_cancel, start, wait
from dbops.lifecycle.sweeps import claim_sweep, end_sweep, give_up, sweeps_due, write_sweep

__all__ = [
    "AWAY",
    "Lease",
    "LeaseLost",
    "News",
    "accept_difference",
    "beat",
    "begin_step",
    "blocks_rebuilds",
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
    "note_differences",
    "open_differences",
    "queue",
    "release_lease",
    "renew",
    "request_cancel",
    "set_identity",
    "start",
    "stored_of",
    "sweeps_due",
    "take_lease",
    "tell_trouble",
    "write_sweep",
    "wait",
    "withdraw_acceptance",
]
