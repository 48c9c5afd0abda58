"""Drive one restore test for one tick.

A restore test is one job on its host. However it ends, a removal job first removes everything that it made. An
unreachable host keeps it open until the host answers or a person ends it; the next restore test on that host then
removes the leftovers.
"""

import time
from contextlib import ExitStack

from django.conf import settings

from dbops.engine.errors import DbopsError, Unreachable
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.restore_tests.job import RestoreTestContext, advance, clean_up, remove_leftovers
from dbops.engine.restore_tests.plan import JOB, RestoreTestPlan
from dbops.engine.restore_tests.result import RestoreTestResult
from dbops.engine.states import Level, RunStatus
from dbops.lifecycle import leases, restore_tests
from dbops.lifecycle.restore_tests import RestoreTestLease
from dbops.models import RestoreTest
from dbops.worker.driver import Driver
from dbops.worker.expected_contents import expected_contents
from dbops.worker.journal import RestoreTestJournal
from dbops.worker.restore_test_hosts import Hosts
from dbops.worker.wiring import SystemClock, secrets_of


def tick(restore_test_id: int) -> bool:
    """Drive one restore test for at most ``TICK_SECONDS``.

    Return whether more work is due at once. Never raises for host errors.
    """
    return RestoreTestDriver.tick(restore_tests.take_lease(restore_test_id))


class RestoreTestDriver(Driver[RestoreTest, RestoreTestResult | None]):
    """Restore one backup on a scratch server, check it, and remove everything."""

    journal: RestoreTestJournal

    def __init__(self, lease: RestoreTestLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.checkpoint = dict(self.row.checkpoint)
        self.journal = RestoreTestJournal(lease, secrets_of(self.row.source.cluster), self.checkpoint)
        self.hosts = Hosts(self.row, stack)
        self.context: RestoreTestContext | None = None

    def is_ending(self) -> bool:
        return "pending_status" in self.checkpoint

    def step(self) -> RestoreTestResult | None:
        return advance(self._context())

    def record(self, result: RestoreTestResult | None) -> None:
        if result is not None:
            kept = {"tables": result.largest(), "warnings": list(result.warnings)}
            self.journal.note(tables_checked=result.checked, rows_counted=result.rows, result=kept)
            self._end_as(RunStatus.SUCCEEDED)

    # --- the plan -------------------------------------------------------------------------------------------------
    def _context(self) -> RestoreTestContext:
        """Return the connection to the host and its plan, which is made once from a new probe."""
        if self.context is not None:
            return self.context
        if "plan" not in self.checkpoint:
            self._remove_leftovers()
            plan = self.hosts.plan()
            self.checkpoint["plan"] = to_record(plan)
            for name, command in plan.commands:
                self.journal.say(f"{name}: {command}")
            for reason in plan.reasons:
                self.journal.say(reason)
        plan = from_record(RestoreTestPlan, self.checkpoint["plan"])
        context = RestoreTestContext(
            plan,
            self.hosts.jobs(self.row.uid),
            SystemClock(),
            self.checkpoint,
            self.journal,
            lambda: expected_contents(self.row, self.journal),
            StallLimits(settings.STALL_NOTICE_SECONDS, settings.STALL_PREPARE_SECONDS),
            self.hosts.way_to_file(self.row, plan),
            settings.UNREACHABLE_TIMEOUT_SECONDS,
        )
        reading = [context.way.way.source.jobs] if context.way and not self.is_ending() else []
        self.raise_fence(context.jobs, *reading)
        self.context = context
        return context

    def _remove_leftovers(self) -> None:
        """Remove the leftovers of restore tests on this host. An unreachable host with files is asked once."""
        silent: set[int] = set()
        for dead in restore_tests.leftovers(self.row):
            if dead.source.host_id in silent:
                continue
            if "plan" not in dead.checkpoint:
                restore_tests.mark_removed(dead)
                continue
            plan, jobs = from_record(RestoreTestPlan, dead.checkpoint["plan"]), self.hosts.jobs(dead.uid)
            try:
                jobs.stop(JOB)
                until = time.monotonic() + settings.TICK_SECONDS
                way, name = self.hosts.way_to_file(dead, plan), f"again-{self.row.uid}"
                while not (gone := remove_leftovers(jobs, plan, name, way)) and time.monotonic() < until:
                    pass
            except Unreachable:
                raise
            except DbopsError as error:
                self.journal.say(
                    f"Could not remove the leftovers of restore test {dead.pk}: {error}", level=Level.WARNING
                )
                silent.add(dead.source.host_id)
                continue
            if gone:
                restore_tests.mark_removed(dead)

    # --- ends -----------------------------------------------------------------------------------------------------
    def ask_again(self, text: str) -> float:
        return super().ask_again(f"Restore test {self.row.pk}: {text}")

    def may_give_up(self, error: Unreachable) -> bool:
        if self.checkpoint.get("asked"):
            return False
        error.state, error.next_step = "Nothing was written.", "Check the host, then run the restore test again."
        return True

    def begin_ending(self, error: DbopsError | None) -> None:
        self._end_as(RunStatus.FAILED if error else RunStatus.CANCELLED, error)

    def _end_as(self, status: RunStatus, error: DbopsError | None = None) -> None:
        """Store the coming end: the next driver removes the files without looking at the job."""
        record = self.journal.redact_record(error.as_record()) if error else {}
        self.checkpoint["pending_status"] = {
            "status": status.value,
            "error": record,
            "text": str(error) if error else "",
        }
        self.journal.cancellable = False
        self.journal.flush()

    def finish(self) -> None:
        """Remove everything, a part in each call, then end."""
        self.journal.cancellable = False
        pending_status, is_gone, has_leftovers = self.checkpoint["pending_status"], True, False
        try:
            if "plan" in self.checkpoint:
                is_gone = clean_up(self._context())
        except Unreachable:
            raise
        except DbopsError as error:
            self.journal.say(f"{error}", level=Level.WARNING)
            has_leftovers = True
        if not is_gone:
            self.journal.check()
            return
        if self.row.unreachable_since and self.checkpoint.get("asked"):  # the clean-up reached the host
            leases.mark_reachable(self.lease)
        self.journal.note(error=pending_status["error"], has_leftovers=has_leftovers)
        if pending_status["text"]:
            self.journal.say(pending_status["text"], level=Level.ERROR)
        gone = "Some of its files could not be removed." if has_leftovers else "Its files were removed."
        restore_tests.finish(self.lease, RunStatus(pending_status["status"]), gone, self.journal.take())
        self.has_ended = True
