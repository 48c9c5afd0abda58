"""The worker's side, and the composition root: rows become drivers, steps are advanced, what they tell becomes rows.

One call of ``tick`` takes the lease of one rebuild, does what is due for a bounded time, and gives it back. Everything that
lasts lives in the table and on the hosts, so a tick may die at any moment.
"""

import logging
import time
from contextlib import ExitStack

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from dbops.database.errors import AWAY
from dbops.engine.errors import Bug, Cancelled, DbopsError, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.finish.sweep import needs_sweep
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.run import StepOutcome
from dbops.engine.rebuilds.steps.source.access import keep_open
from dbops.engine.states import STEP_FINAL, Level, Status, StepState
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.rebuild_driver import RebuildLease
from dbops.worker.driver import LOST_RETRY_SECONDS, RETRY_SECONDS, LeaseRenewal, drive_once
from dbops.worker.journal import RowJournal
from dbops.worker.metrics import Sampler
from dbops.worker.wiring import build_run, secrets_of

__all__ = ["LeaseRenewal", "tick"]

log = logging.getLogger(__name__)

#: How long the clean-up tries to reach a host before it ends without: the guard on the source acts by itself.
CLEAN_UP_PATIENCE_SECONDS = 60


def tick(rebuild_id: int) -> bool:
    """Drive one rebuild for at most ``TICK_SECONDS``. Return whether more is due at once. Never raises for what hosts do."""
    lease = rebuild_driver.take_lease(rebuild_id)

    def drive(until: float) -> float | None:
        assert lease is not None  # noqa: S101 - it is not driven without
        with ExitStack() as stack:
            return Driver(lease, stack).drive(until=until)

    return drive_once(lease, drive)


class Driver:
    """One lease at work."""

    def __init__(self, lease: RebuildLease, stack: ExitStack) -> None:
        self.lease, self.rebuild = lease, lease.rebuild
        self.plan = from_record(Plan, self.rebuild.plan)
        self.method = method_named(self.rebuild.method)
        self.journal = RowJournal(lease, secrets_of(self.rebuild.target.cluster))
        self.run = build_run(self.rebuild, self.plan, self.journal, stack)
        self.sampler = Sampler(self.rebuild)
        self.journal.checkpoint = self.run.checkpoint
        self.begun = ""
        self.journal.cancellable = not self.rebuild.pending_status

    def drive(self, *, until: float) -> float | None:
        """Advance steps. Return seconds until the next tick is due, or ``None`` when the rebuild has ended."""
        if self.lease.reattached_after_seconds is not None:
            self.journal.say(f"Re-attached after {self.lease.reattached_after_seconds:.0f} s.")
            self._shut_out_the_last_driver()
        while time.monotonic() < until:
            step = self._next_step()
            if step is None:
                self._finish()
                return None
            wait = self._advance(step)
            if wait is not None:
                return wait
        self.journal.flush()
        return 0.0

    def _shut_out_the_last_driver(self) -> None:
        """It may only have been slow: from now on both hosts refuse its token, also where we would but look at first."""
        if not (self.run.checkpoint.get("source_opened") or self.run.checkpoint.get("donor_opened")):
            return
        for side in (self.run.target, self.run.source):
            try:
                side.jobs.act("true")
            except DbopsError as error:  # a silent host is met again by the step
                log.warning("rebuild %s: raising the fence on %s: %s", self.rebuild.pk, side.party.host, error)

    def _next_step(self) -> Step | None:
        states = dict(self.rebuild.steps.values_list("name", "state"))
        return next((step for step in self.method.steps if states[step.name] not in STEP_FINAL), None)

    def _advance(self, step: Step) -> float | None:
        """Advance one step once. Return seconds to wait before the next tick, ``None`` to go on at once."""
        self.journal.begin(step.name)
        self.journal.cancellable = (
            step.is_cancellable and not self.rebuild.pending_status and step is not self.method.steps[-1]
        )
        self._begin(step)
        try:
            self.journal.check()
            if not self.rebuild.pending_status:
                keep_open(self.run)
            outcome = step.advance(self.run)
            self.sampler.take(step.name, self.journal.figures)
        except Cancelled:
            return self._cancel(step)
        except Unreachable as error:
            return self._unreachable(step, error)
        except DbopsError as error:
            return self._fail(step, error)
        except (LeaseLost, SoftTimeLimitExceeded, *AWAY):
            raise
        except Exception as error:
            log.exception("rebuild %s, step %s", self.rebuild.pk, step.name)
            bug = Bug("bug", f"Step {step.name}", cause=f"{type(error).__name__}: {error}")
            return self._fail(step, bug)
        if self.rebuild.unreachable_since:
            leases.mark_reachable(self.lease)
        self._record(step, outcome)
        return None

    def _begin(self, step: Step) -> None:
        """A step is advanced some ten thousand times: what is begun is not written, and told to every viewer, each time."""
        if step.name != self.begun:
            rebuild_driver.begin_step(self.lease, step.name)
            self.begun = step.name
        elif not self.journal.is_due:  # else what is written next proves it
            rebuild_driver.prove(self.lease)

    def _record(self, step: Step, outcome: StepOutcome) -> None:
        if outcome.done:
            self.journal.end_step(StepState.DONE, outcome.result)
        elif outcome.wait_seconds:
            self.run.clock.sleep(outcome.wait_seconds)

    def _fail(self, step: Step, error: DbopsError) -> float | None:
        if self.rebuild.pending_status or step is self.method.steps[-1]:
            return self._clean_up_failed(step, error)
        log.warning("rebuild %s, step %s: %s", self.rebuild.pk, step.name, error)
        return self._end(step, Status.FAILED, error)

    def _end(self, step: Step, status: Status, error: DbopsError | None) -> float | None:
        """End what the step has running on the hosts, and only then begin the ending: its holds must not go before.

        A driver that was stopped beyond its lease meets errors that come of its successor: it may end nothing for them.
        """
        self.journal.cancellable = False
        if not leases.renew(self.lease):
            raise LeaseLost
        try:
            step.cancel(self.run)
        except Unreachable as silence:
            if self.run.checkpoint.get("touched"):
                return self._ask_again(f"The rebuild ends when its jobs on the host are known to have ended: {silence}")
        except DbopsError as trouble:
            self.journal.say(f"Ending step {step.name}: {trouble}", level=Level.WARNING)
        if self.rebuild.unreachable_since:
            leases.mark_reachable(self.lease)
        self._begin_ending(step, status, error)
        return None

    def _begin_ending(self, step: Step, status: Status, error: DbopsError | None) -> None:
        result = self.run.checkpoint.get(f"{step.name}.result", {})
        self.journal.end_badly(status, result, last_step=self.method.steps[-1].name, error=error)

    def _clean_up_failed(self, step: Step, error: DbopsError) -> float | None:
        """Try again for a while; then end all the same: the guard on the source gives it back without us."""
        since = self.run.checkpoint.setdefault("clean-up.since", time.time())
        if time.time() - since < CLEAN_UP_PATIENCE_SECONDS:
            if self.run.checkpoint.get("clean-up.said") != str(error):
                self.journal.say(f"Clean-up will be retried: {error}", level=Level.WARNING)
            self.run.checkpoint["clean-up.said"] = str(error)
            self.journal.flush()
            return RETRY_SECONDS
        checkpoint = self.run.checkpoint
        guard = "the guard on the source continues" if checkpoint.get("guard_started") else "the source has no guard"
        if checkpoint.get("donor_opened") and not checkpoint.get("donor_closed"):
            guard = "the source is cleaned up when it responds"
        self.journal.say(f"Clean-up failed; {guard}: {error}", level=Level.ERROR)
        self.journal.end_step(StepState.FAILED, {"error": error.as_record()})
        return None

    def _unreachable(self, step: Step, error: Unreachable) -> float | None:
        """Before anything is destroyed a host that stays silent ends the rebuild; afterwards nothing is known, and we ask again."""
        if self.rebuild.pending_status:
            return self._clean_up_failed(step, error)
        if not self.run.checkpoint.get("touched") and self._silent_seconds() > settings.UNREACHABLE_TIMEOUT_SECONDS:
            error.state = f"Nothing on {self.plan.target.name} was changed."
            error.next_step = "Check the host, then rebuild again."
            return self._fail(step, error)
        return self._ask_again(f"{error} The job on the host may still be running; dbops retries the connection.")

    def _silent_seconds(self) -> float:
        since = self.rebuild.unreachable_since
        return (timezone.now() - since).total_seconds() if since else 0.0

    def _ask_again(self, text: str) -> float:
        self.journal.cancellable = False  # this write is no question whether to go on
        self.journal.flush()
        self.rebuild.unreachable_since = leases.mark_unreachable(self.lease, text)
        return LOST_RETRY_SECONDS if self.rebuild.status == Status.LOST else RETRY_SECONDS

    def _cancel(self, step: Step) -> float | None:
        return self._end(step, Status.CANCELLED, None)

    def _finish(self) -> None:
        self.journal.cancellable = False
        self.journal.flush()
        pending_status = Status(self.rebuild.pending_status) if self.rebuild.pending_status else Status.SUCCEEDED
        if self.rebuild.status == Status.LOST and pending_status is Status.CANCELLED:
            pending_status = Status.FAILED  # nothing is known of the hosts: that is no orderly end
        rebuild_driver.finish(
            self.lease, pending_status, self._outcome(pending_status), needs_sweep=needs_sweep(self.run)
        )

    def _outcome(self, pending_status: Status) -> str:
        differs = self.run.checkpoint.get("source_differs", "")
        how = self.method.outcome(self.run) if pending_status is Status.SUCCEEDED else describe_data_location(self.run)
        return f"{how} {differs}".strip()
