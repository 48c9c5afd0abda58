"""Drive one restore test for one tick.

However it ends, a removal job first removes everything that it made. An unreachable host keeps it open until the host
answers or a person ends it; the next restore test on that host then removes the leftovers.
"""

from contextlib import ExitStack
from typing import Any

from django.conf import settings

from dbops.engine.facts.instance import from_record
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.job import RestoreTestContext, advance, clean_up
from dbops.engine.restore_tests.plan import RestoreTestPlan
from dbops.engine.restore_tests.result import RestoreTestResult
from dbops.engine.states import RunStatus
from dbops.lifecycle import restore_tests
from dbops.lifecycle.restore_tests import RestoreTestLease
from dbops.loaders.accounts import secrets_of
from dbops.models import RestoreTest
from dbops.worker.expected_contents import expected_contents
from dbops.worker.journal import RestoreTestJournal
from dbops.worker.restore_test_hosts import Hosts
from dbops.worker.run_clock import RunClock
from dbops.worker.run_driver import RunDriver


class RestoreTestDriver(RunDriver[RestoreTest, RestoreTestResult | None, RestoreTestContext]):
    """Restore one backup on a scratch server, check it, and remove everything."""

    journal: RestoreTestJournal
    take_lease = staticmethod(restore_tests.take_lease)

    def __init__(self, lease: RestoreTestLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.journal = RestoreTestJournal(lease, secrets_of(self.row.source.cluster), self.checkpoint)
        self.hosts = Hosts(self.row, stack)

    def step(self) -> RestoreTestResult | None:
        return advance(self.context)

    def record(self, result: RestoreTestResult | None) -> None:
        if result is not None:
            kept = {"tables": result.largest(), "warnings": list(result.warnings)}
            self.journal.note(tables_checked=result.checked, rows_counted=result.rows, result=kept)
            self.set_pending_status(RunStatus.SUCCEEDED)

    # --- the plan -------------------------------------------------------------------------------------------------
    def make_plan(self) -> RestoreTestPlan:
        self.hosts.remove_leftovers(self.journal)
        plan = self.hosts.plan()
        for name, command in plan.commands:
            self.journal.say(f"{name}: {command}")
        for reason in plan.reasons:
            self.journal.say(reason)
        return plan

    def connect(self) -> RestoreTestContext:
        plan = from_record(RestoreTestPlan, self.checkpoint["plan"])
        context = RestoreTestContext(
            plan,
            self.hosts.jobs(self.row.uid),
            RunClock(self.checkpoint),
            self.checkpoint,
            self.journal,
            lambda: expected_contents(self.row, self.journal),
            StallLimits(settings.STALL_NOTICE_SECONDS, settings.STALL_PREPARE_SECONDS),
            self.hosts.way_to_file(self.row, plan),
            settings.UNREACHABLE_TIMEOUT_SECONDS,
        )
        others = context.way.others if context.way and not self.is_ending() else ()
        self.raise_fence(context.jobs, *others)
        return context

    # --- the end --------------------------------------------------------------------------------------------------
    def ask_again(self, text: str, *, is_refusal: bool = False) -> float:
        return super().ask_again(
            phrase("Restore test {test}: {text}", test=self.row.pk, text=text), is_refusal=is_refusal
        )

    def clean_up(self) -> bool:
        return clean_up(self.context)

    def end(self, status: RunStatus, error: dict[str, Any], *, is_clean: bool) -> None:
        self.journal.note(error=error, has_leftovers=not is_clean)
        gone = phrase("Its files were removed.") if is_clean else phrase("Some of its files could not be removed.")
        restore_tests.finish(self.lease, status, gone, self.journal.take())
