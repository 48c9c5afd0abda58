"""Drive one rebuild for one tick: open connections, advance steps, and write their reports to rows.

All lasting state is in the table and on the hosts, so a tick may die at any moment.
"""

import logging
from contextlib import ExitStack

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.phrases import joined, phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.finish.sweep import needs_sweep
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.rebuilds.steps.preflight.live_check import OpenAccess
from dbops.engine.rebuilds.steps.run import StepOutcome
from dbops.engine.rebuilds.steps.source.access import keep_open
from dbops.engine.states import STEP_FINAL, Level, Status, StepState
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.rebuild_driver import RebuildLease
from dbops.loaders.accounts import secrets_of
from dbops.models import Rebuild
from dbops.worker.driver import RETRY_SECONDS, Driver
from dbops.worker.journal import RebuildJournal
from dbops.worker.metrics import Sampler
from dbops.worker.reattach import (
    AHEAD,
    UNREAD,
    learn_before_the_end,
    learn_from_hosts,
    must_not_repeat,
    show_to_target,
    steps_to_end,
)
from dbops.worker.wiring import build_run

log = logging.getLogger(__name__)

#: Seconds in which the clean-up tries to reach a host before the rebuild ends without it: the guard on the source works on its
#: own.
CLEAN_UP_PATIENCE_SECONDS = 60


class RebuildDriver(Driver[Rebuild, StepOutcome]):
    """Advance the steps of a rebuild. The last step is the clean-up."""

    journal: RebuildJournal
    current: Step
    take_lease = staticmethod(rebuild_driver.take_lease)

    def __init__(self, lease: RebuildLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.plan = from_record(Plan, self.row.plan)
        self.method = method_named(self.row.method)
        self.journal = RebuildJournal(lease, secrets_of(self.row.target.cluster))
        self.run = build_run(self.row, self.plan, self.journal, stack)
        self.sampler = Sampler(self.row)
        self.checkpoint = self.journal.checkpoint = self.run.checkpoint
        self.begun = ""
        self.journal.cancellable = not self.row.pending_status

    def fence_last_driver(self) -> None:
        """Make both hosts refuse the previous driver's fence, even if this driver only reads at first."""
        self.checkpoint[UNREAD] = True
        if not (self.checkpoint.get("source_opened") or self.checkpoint.get("donor_opened")):
            return
        for side in (self.run.target, self.run.source):
            try:
                side.jobs.act("true")
            except DbopsError as error:  # the step handles the silent host
                log.warning("%s: raising the fence on %s: %s", self.row, side.party.host, error)

    def is_ending(self) -> bool:
        """Return whether every step has ended. Otherwise ``current`` is the next one."""
        states = dict(self.row.steps.values_list("name", "state"))
        step = next((step for step in self.method.steps if states[step.name] not in STEP_FINAL), None)
        if step is not None:
            self.current = step
        return step is None

    def is_cleaning_up(self) -> bool:
        return bool(self.row.pending_status) or self.current is self.method.steps[-1]

    def prepare(self) -> None:
        if self.checkpoint.get(UNREAD):
            learn_from_hosts(self.run, opens_source=any(isinstance(step, OpenAccess) for step in self.method.steps))
        self.journal.begin(self.current.name)
        self.journal.cancellable = self.current.is_cancellable and not self.is_cleaning_up()
        self._begin(self.current)

    def step(self) -> StepOutcome:
        if not self.row.pending_status:
            must_not_repeat(self.run, self.current)
            keep_open(self.run)
        show_to_target(self.run)
        outcome = self.current.advance(self.run)
        self.sampler.take(self.current.name, self.journal.figures)
        return outcome

    def record(self, result: StepOutcome) -> None:
        if result.done:
            self.journal.end_step(StepState.DONE, result.result)
        elif result.wait_seconds:
            self.run.clock.sleep(result.wait_seconds)

    def _begin(self, step: Step) -> None:
        """Write and announce the begin of a step once: a step is advanced some ten thousand times."""
        if step.name != self.begun:
            rebuild_driver.begin_step(self.lease, step.name)
            self.begun = step.name
        elif not self.journal.is_due:  # otherwise the next write checks the lease
            rebuild_driver.check_lease(self.lease)

    def begin_ending(self, error: DbopsError | None) -> float | None:
        """End the step's processes on the hosts, and only then begin the ending: holds must not be released earlier.

        A driver that outlived its lease sees errors caused by its successor, and must end nothing because of them.
        """
        step, steps = self.current, self.method.steps
        if error is not None and self.is_cleaning_up():
            return self._clean_up_failed(error)
        self.journal.cancellable = False
        if not leases.renew(self.lease):
            raise LeaseLost
        try:
            if not isinstance(error, Unreachable):
                learn_before_the_end(self.run, steps)
            for one in steps_to_end(self.run, steps, step):
                self._cancel(one)
        except Unreachable as silence:
            if self.checkpoint.get("touched"):
                return self.ask_again(
                    phrase("The rebuild ends when its jobs on the host are known to have ended: {error}", error=silence)
                )
        self.mark_reachable()
        if error is not None and self.checkpoint.get(AHEAD):
            error.state = CATALOGUE["host.journal_ahead"].state
        status, result = Status.FAILED if error else Status.CANCELLED, self.checkpoint.get(f"{step.name}.result", {})
        self.journal.end_badly(status, result, last_step=self.method.steps[-1].name, error=error)
        return None

    def _cancel(self, step: Step) -> None:
        try:
            step.cancel(self.run)
        except Unreachable:
            raise
        except DbopsError as trouble:
            self.journal.say(phrase("Ending step {step}: {error}", step=step.name, error=trouble), level=Level.WARNING)

    def _clean_up_failed(self, error: DbopsError) -> float | None:
        """Retry for a while, then end: the guard releases the source without dbops."""
        checkpoint = self.checkpoint
        since = checkpoint.setdefault("clean-up.since", self.run.clock.now())
        if self.run.clock.now() - since < CLEAN_UP_PATIENCE_SECONDS:
            if checkpoint.get("clean-up.said") != str(error):
                self.journal.say(phrase("Clean-up will be retried: {error}", error=error), level=Level.WARNING)
            checkpoint["clean-up.said"] = str(error)
            self.journal.flush()
            return RETRY_SECONDS
        guard = (
            phrase("the guard on the source continues")
            if checkpoint.get("guard_started")
            else phrase("the source has no guard")
        )
        if checkpoint.get("donor_opened") and not checkpoint.get("donor_closed"):
            guard = phrase("the source is cleaned up when it responds")
        self.journal.say(phrase("Clean-up failed; {guard}: {error}", guard=guard, error=error), level=Level.ERROR)
        self.journal.end_step(StepState.FAILED, {"error": error.as_record()})
        return None

    def meet_silence(self, error: Unreachable) -> float | None:
        return self._clean_up_failed(error) if self.row.pending_status else super().meet_silence(error)

    def may_give_up(self, error: Unreachable) -> bool:
        if self.checkpoint.get("touched") or self.checkpoint.get(UNREAD):
            return False
        error.state = phrase("Nothing on {target} was changed.", target=self.plan.target.name)
        if not isinstance(error, NoAccess):  # it names its own
            error.next_step = phrase("Check the host, then rebuild again.")
        return True

    def finish(self) -> None:
        self.journal.cancellable = False
        self.journal.flush()
        pending_status = Status(self.row.pending_status) if self.row.pending_status else Status.SUCCEEDED
        if self.row.status == Status.LOST and pending_status is Status.CANCELLED:
            pending_status = Status.FAILED  # the state of the hosts is unknown, so this is no orderly end
        rebuild_driver.finish(
            self.lease, pending_status, self._outcome(pending_status), needs_sweep=needs_sweep(self.run)
        )
        self.has_ended = True

    def _outcome(self, pending_status: Status) -> str:
        differs = self.checkpoint.get("source_differs", "")
        how = self.method.outcome(self.run) if pending_status is Status.SUCCEEDED else describe_data_location(self.run)
        return joined(part for part in (how, differs) if part)
