"""Drive one load test for one tick.

However it ends, a removal job first removes everything that it made. An unreachable host keeps it open until the host answers or a
person ends it; the next load test on that host, or the reconciler, then removes the leftovers.
"""

from contextlib import ExitStack
from typing import Any

from django.conf import settings

from dbops.engine.errors import Refused, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.ssh import show
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.load_tests.digests import names_of_tables
from dbops.engine.load_tests.generator import LOAD_SCHEMA
from dbops.engine.load_tests.job import OF_LOAD_TEST, LoadTestContext, advance, note_look
from dbops.engine.load_tests.job_files import job_files, tidb_job_files
from dbops.engine.load_tests.measured import is_enough, report_of
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.tidb_plan import plan_load
from dbops.engine.phrases import joined, phrase
from dbops.engine.restore_tests.job import clean_up
from dbops.engine.restore_tests.plan import RestoreTestPlan
from dbops.engine.restore_tests.result import ExpectedContents
from dbops.engine.states import RunStatus
from dbops.lifecycle import load_tests
from dbops.lifecycle.load_tests import LoadTestLease
from dbops.loaders.accounts import secrets_of
from dbops.loaders.load_tests import facts_of, limits, results_of
from dbops.models import LoadTest
from dbops.worker.journal import LoadTestJournal
from dbops.worker.load_test_clusters import TidbCluster
from dbops.worker.load_test_hosts import LoadTestHosts
from dbops.worker.run_clock import RunClock
from dbops.worker.run_driver import RunDriver

#: Findings that can be others at the start than in the plan. The job checks programs, memory and space itself.
CHECKED_AGAIN = frozenset({"load_test.host", "load_test.backup"})
#: What the job wrote at its end.
Facts = dict[str, str]


class LoadTestDriver(RunDriver[LoadTest, Facts | None, LoadTestContext]):
    """Run rounds of load on a scratch server, and remove everything."""

    journal: LoadTestJournal
    take_lease = staticmethod(load_tests.take_lease)

    def __init__(self, lease: LoadTestLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        self.journal = LoadTestJournal(lease, secrets_of(self.row.source.cluster), self.checkpoint)
        self.hosts = LoadTestHosts(self.row, stack)
        self.frozen = from_record(LoadTestPlan, self.row.plan)
        self.request = from_record(LoadTestRequest, self.row.request)
        self.cluster = TidbCluster.of(self.row, self.checkpoint)
        if self.cluster:
            stack.callback(self.cluster.close)

    def step(self) -> Facts | None:
        context = self.context  # with its plan stored, the end cleans up
        if self.cluster:
            is_seen = self.cluster.hold(self.journal)
            if is_seen and self.checkpoint.get("asked"):
                note_look(context)
        result = advance(context)
        if self.cluster and result is not None:
            self.cluster.note_placement()
        return result

    def record(self, result: Facts | None) -> None:
        if result is not None:
            self.journal.note(report=self._report(result))
            self.set_pending_status(RunStatus.SUCCEEDED)

    def may_give_up(self, error: Unreachable) -> bool:
        return not self.checkpoint.get("claim") and super().may_give_up(error)

    def _report(self, facts: Facts) -> dict[str, Any]:
        results = results_of(self.row)
        if not results:
            return {}
        numbers = facts.get("empty_tables", "")
        if empty := names_of_tables(self.request.workload.digests, numbers):
            facts = {**facts, "empty_tables": ", ".join(empty)}
        found = {"Facts": facts, "NotCopied": self.checkpoint.get("not_copied", {})}
        if placement := self.checkpoint.get("placement"):
            found["Placement"] = placement
        return report_of(self.request, self.frozen, results) | found

    def take(self, result: RoundResult) -> bool:
        """Keep the result of a round. Return whether an A/B test has enough.

        Raises:
            Refused: ``load_test.refused``: the host serves writes by now.
            LeaseLost: another driver owns the row.
        """
        load_tests.keep_round(self.lease, result)
        self._check_again()
        one = self.frozen.rounds[result.number - 1]
        self.journal.say(
            phrase(
                "Round {number} of {count} ended{arm}: {queries} statements, {errors} errors.",
                number=result.number,
                count=len(self.frozen.rounds),
                arm=phrase(" (arm {arm})", arm=one.arm) if one.arm else "",
                queries=result.queries,
                errors=result.errors,
            )
        )
        return self.request.is_ab and is_enough(self.request, self.frozen, results_of(self.row))

    # --- the plan -------------------------------------------------------------------------------------------------
    def make_plan(self) -> RestoreTestPlan:
        self.hosts.remove_leftovers(self.journal)
        self._check_again()
        plan = self.hosts.plan(self.frozen)
        for name, command in plan.commands:
            self.journal.say(f"{name}: {command}")
        if tunnel := self.hosts.tunnel(self.row):
            self.journal.say(
                phrase(
                    "load generator on {host}: {command}",
                    host=self.frozen.generator_host,
                    command=show(tunnel),
                )
            )
        for reason in self.frozen.reasons:
            self.journal.say(reason)
        return plan

    def _check_again(self) -> None:
        """Refuse a test whose host has come to serve writes, or whose backup failed its test, since it was planned.

        Raises:
            Refused: ``load_test.refused``.
        """
        facts = facts_of(self.request, self.row.source, self.row.host, self.row.generator_host)
        now = plan_load(self.request, facts, self.frozen.rounds, limits())
        if found := [one.text for one in now.refusals if one.code in CHECKED_AGAIN]:
            raise Refused(
                "load_test.refused", phrase("Starting load test {test}", test=self.row.pk), cause=joined(found)
            )

    def connect(self) -> LoadTestContext:
        plan = from_record(RestoreTestPlan, self.checkpoint["plan"])
        context = LoadTestContext(
            plan,
            self.hosts.jobs(self.row.uid),
            RunClock(self.checkpoint),
            self.checkpoint,
            self.journal,
            ExpectedContents,
            StallLimits(settings.STALL_NOTICE_SECONDS, settings.STALL_PREPARE_SECONDS),
            self.hosts.ways(self.row, plan),
            settings.UNREACHABLE_TIMEOUT_SECONDS,
            OF_LOAD_TEST,
            self.frozen,
            lambda: self._files(plan),
            self.take,
        )
        others = context.way.others if context.way and not self.is_ending() else ()
        self.raise_fence(context.jobs, *others)
        return context

    def _files(self, plan: RestoreTestPlan) -> dict[str, str]:
        work = self.request.workload
        if self.cluster:
            return tidb_job_files(self.frozen, work, plan, self.cluster.password)
        flavor = flavor_for(self.frozen.version, self.frozen.flavor)
        return job_files(self.frozen, work, plan, flavor, self.hosts.tunnel(self.row))

    # --- the end --------------------------------------------------------------------------------------------------
    def ask_again(self, text: str, *, is_refusal: bool = False) -> float:
        return super().ask_again(phrase("Load test {test}: {text}", test=self.row.pk, text=text), is_refusal=is_refusal)

    def clean_up(self) -> bool:
        is_done = clean_up(self.context)
        if is_done and self.cluster and self.cluster.leave():
            self.journal.say(phrase("The schema {schema} of this test is gone from the cluster.", schema=LOAD_SCHEMA))
        return is_done

    def end(self, status: RunStatus, error: dict[str, Any], *, is_clean: bool) -> None:
        changes: dict[str, Any] = {"error": error, "has_leftovers": not is_clean}
        if status is not RunStatus.SUCCEEDED:  # what was measured until then stays readable
            changes["report"] = self._report({})
        self.journal.note(**changes)
        gone = phrase("Its files were removed.") if is_clean else phrase("Some of its files could not be removed.")
        load_tests.finish(self.lease, status, gone, self.journal.take())
