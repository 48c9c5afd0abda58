"""The only writer of a rebuild's status, holds, run token, lease, steps and events.

Every move is a conditional update, and the caller obeys the row count: whoever comes second changes nothing.
"""

from dbops.lifecycle.database import AWAY, lost_a_race, mend_connection
from dbops.lifecycle.flagging import flag, flag_running
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
from dbops.lifecycle.reports import Told, end_silent_reports, report_run
from dbops.lifecycle.requests import claims_of, end_queued, held, queue, request_cancel, start, wait
from dbops.lifecycle.schedules_of_runs import watch_schedules
from dbops.lifecycle.seen_runs import observe
from dbops.lifecycle.sweeps import claim_sweep, end_sweep, give_up, sweeps_due, write_sweep

__all__ = [
    "AWAY",
    "Lease",
    "LeaseLost",
    "News",
    "Told",
    "beat",
    "begin_step",
    "claim_sweep",
    "claims_of",
    "due",
    "end_badly",
    "end_queued",
    "end_silent_reports",
    "end_sweep",
    "end_step",
    "finish",
    "flag",
    "flag_running",
    "give_up",
    "held",
    "lost_a_race",
    "mark_reachable",
    "mark_unreachable",
    "mend_connection",
    "observe",
    "queue",
    "release_lease",
    "renew",
    "report_run",
    "request_cancel",
    "start",
    "sweeps_due",
    "take_lease",
    "tell_trouble",
    "wait",
    "watch_schedules",
    "write_sweep",
]
