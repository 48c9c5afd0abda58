"""Drive one restore test for one tick.

A restore test is one job on its host. However it ends, a removal job first removes everything that it made. An
unreachable host keeps it open until the host answers or a person ends it; the next restore test on that host then
removes the leftovers.
"""

import logging
import time
from contextlib import ExitStack
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from dbops.database.errors import AWAY
from dbops.engine.errors import Bug, Cancelled, DbopsError, Unreachable
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.hosts.jobs import Patience
from dbops.engine.restore_tests.job import RestoreTestContext, advance, clean_up, remove_leftovers
from dbops.engine.restore_tests.plan import RestoreTestPlan
from dbops.engine.restore_tests.result import ExpectedContents, RestoreTestResult
from dbops.engine.states import Level, RunStatus
from dbops.lifecycle import leases, restore_tests
from dbops.lifecycle.leases import LeaseLost
from dbops.lifecycle.restore_tests import RestoreTestLease, RestoreTestUpdate
from dbops.models import BackupEvent, RestoreTest
from dbops.security.redaction import redact, redact_record
from dbops.worker.connections import open_database
from dbops.worker.driver import LOST_RETRY_SECONDS, RETRY_SECONDS, drive_once
from dbops.worker.restore_test_hosts import Hosts
from dbops.worker.wiring import SystemClock, secrets_of

log = logging.getLogger(__name__)

WRITE_INTERVAL_SECONDS = 1.0
#: Maximum number of tables read from the source; with more, nothing is compared.
TABLES_ASKED = 20_000
TABLES_SQL = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, UNIX_TIMESTAMP(CREATE_TIME) < %s AS older FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE IN ('InnoDB', 'Aria', 'MyISAM', 'ROCKSDB')"
    " AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
    " LIMIT %s"
)


def tick(restore_test_id: int) -> bool:
    """Drive one restore test for at most ``TICK_SECONDS``.

    Return whether more work is due at once. Never raises for host errors.
    """
    lease = restore_tests.take_restore_test_lease(restore_test_id)

    def drive(until: float) -> float | None:
        assert lease is not None  # noqa: S101 - it is not driven without
        with ExitStack() as stack:
            return Driver(lease, stack).drive(until=until)

    return drive_once(lease, drive)


class Journal:
    """Collect events and changes, and write them at most once a second.

    Each write is the heartbeat and the stop check.
    """

    def __init__(self, lease: RestoreTestLease, secrets: list[str], checkpoint: dict[str, Any]) -> None:
        self.checkpoint, self.cancellable = checkpoint, True
        self._lease, self._secrets = lease, secrets
        self._news, self._written_at, self._written = RestoreTestUpdate(), 0.0, dict[str, Any]()

    def say(self, text: str, *, level: Level = Level.INFO) -> None:
        line = redact(f"Proof {self._lease.restore_test.pk}: {text}", self._secrets)
        event = BackupEvent(run_id=self._lease.restore_test.run_id, at=timezone.now(), level=level, text=line)
        self._news.events.append(event)

    def progress(self, **known: Any) -> None:
        """Ignore progress: a restore test shows only its steps."""

    def note(self, **changes: Any) -> None:
        self._news.changes.update(changes)

    def check(self) -> None:
        if time.monotonic() - self._written_at >= WRITE_INTERVAL_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write everything now. Raises ``LeaseLost``, or ``Cancelled`` if a person requested the stop."""
        cancel = restore_tests.heartbeat_restore_test(self._lease, self.take())
        self._written_at = time.monotonic()
        if cancel and self.cancellable:
            raise Cancelled(
                "restore_test.cancelled", "Testing the restore of the backup", found="a person requested the stop"
            )

    def take(self) -> RestoreTestUpdate:
        """Return the pending changes, with checkpoint and steps if they have changed."""
        news, self._news = self._news, RestoreTestUpdate()
        checkpoint = redact_record(self.checkpoint, self._secrets, limit=None)
        columns = {"checkpoint": checkpoint, "steps": checkpoint.get("steps", [])}
        news.changes |= {name: value for name, value in columns.items() if self._written.get(name) != value}
        self._written = columns
        return news


class Driver:
    """Drive one leased restore test."""

    def __init__(self, lease: RestoreTestLease, stack: ExitStack) -> None:
        self.lease, self.restore_test, self.stack = lease, lease.restore_test, stack
        self.checkpoint: dict[str, Any] = dict(self.restore_test.checkpoint)
        self.secrets = secrets_of(self.restore_test.source.cluster)
        self.journal = Journal(lease, self.secrets, self.checkpoint)
        self.hosts = Hosts(self.restore_test, stack)
        self.site: RestoreTestContext | None = None

    def drive(self, *, until: float) -> float | None:
        """Advance the restore test. Return seconds until the next tick, or ``None`` if it has ended."""
        if self.lease.reattached_after_seconds is not None:
            self.journal.say(f"Reattached after {self.lease.reattached_after_seconds:.0f} s.")
            self.checkpoint["to_fence"] = True
        while time.monotonic() < until:
            try:
                if "pending_status" in self.checkpoint:
                    if self._end():
                        return None
                    self.journal.check()
                    continue
                restore_tested = self._advance()
                if self.restore_test.unreachable_since and "pending_status" not in self.checkpoint:
                    leases.mark_reachable(self.lease)
                if restore_tested is not None:
                    self._begin_ending(RunStatus.SUCCEEDED, restore_tested=restore_tested)
            except Unreachable as error:
                return self._unreachable(error)
        self.journal.flush()
        return 0.0

    def _advance(self) -> RestoreTestResult | None:
        try:
            self.journal.check()
            return advance(self._site())
        except Cancelled:
            self._begin_ending(RunStatus.CANCELLED)
        except (Unreachable, LeaseLost, SoftTimeLimitExceeded, *AWAY):
            raise
        except DbopsError as error:
            log.warning("restore test %s: %s", self.restore_test.pk, error)
            self._begin_ending(RunStatus.FAILED, error)
        except Exception as error:
            log.exception("restore test %s", self.restore_test.pk)
            found = f"{type(error).__name__}: {error}"
            bug = Bug("bug", f"Restore test {self.restore_test.pk}", found=found, next_step="Please report this.")
            self._begin_ending(RunStatus.FAILED, bug)
        return None

    # --- the plan -------------------------------------------------------------------------------------------------
    def _site(self) -> RestoreTestContext:
        """Return the connection to the host and its plan, which is made once from a new probe."""
        if self.site is not None:
            return self.site
        if "plan" not in self.checkpoint:
            self._remove_leftovers()
            plan = self.hosts.plan()
            self.checkpoint["plan"] = to_record(plan)
            for name, command in plan.commands:
                self.journal.say(f"{name}: {command}")
            for reason in plan.reasons:
                self.journal.say(reason)
        plan = from_record(RestoreTestPlan, self.checkpoint["plan"])
        patience = Patience(settings.STALL_NOTICE_SECONDS, settings.STALL_PREPARE_SECONDS)
        jobs = self.hosts.jobs(self.restore_test.uid)
        way = self.hosts.way_to_file(self.restore_test, plan)
        silence = settings.UNREACHABLE_TIMEOUT_SECONDS
        site = RestoreTestContext(
            plan, jobs, SystemClock(), self.checkpoint, self.journal, self._expected, patience, way, silence
        )
        if self.checkpoint.pop("to_fence", False) and self.checkpoint.get("asked"):
            self._shut_out_the_last_driver(site)
        self.site = site
        return site

    def _shut_out_the_last_driver(self, site: RestoreTestContext) -> None:
        """Fence off a slow former driver on both hosts. After ``Unreachable`` it is done again."""
        self.checkpoint["to_fence"] = True
        for fenced in (
            site.jobs,
            *((site.way.way.source.jobs,) if site.way and "pending_status" not in self.checkpoint else ()),
        ):
            fenced.act("true")
        del self.checkpoint["to_fence"]

    def _expected(self) -> ExpectedContents:
        """Return the expected content, from the source's server and the last successful restore test."""
        good = RestoreTest.objects.filter(source=self.restore_test.source, status=RunStatus.SUCCEEDED)
        last = good.order_by("-pk").values_list("result", flat=True).first() or {}
        rows = {(schema, name): count for schema, name, count in last.get("tables", [])}
        tables = self._tables_of_source()
        return ExpectedContents(
            frozenset(table for table, is_older in tables.items() if is_older), frozenset(tables), rows
        )

    def _tables_of_source(self) -> dict[tuple[str, str], bool]:
        """Return the source's tables, and whether each is older than the backup.

        An unreachable server does not fail the test.
        """
        started = self.restore_test.run.started_at
        try:
            database = open_database(self.restore_test.source)
            try:
                rows = database.query(TABLES_SQL, [started.timestamp() if started else 0, TABLES_ASKED])
            finally:
                database.close()
        except DbopsError as error:
            self.journal.say(f"Could not read the tables of the source: {error}", level=Level.WARNING)
            return {}
        if len(rows) == TABLES_ASKED:
            return {}
        return {(row["s"], row["t"]): bool(row["older"]) for row in rows}

    def _remove_leftovers(self) -> None:
        """Remove the leftovers of restore tests on this host. An unreachable host with files is asked once."""
        silent: set[int] = set()
        for dead in restore_tests.leftover_restore_tests(self.restore_test):
            if dead.source.host_id in silent:
                continue
            if "plan" not in dead.checkpoint:
                restore_tests.mark_restore_test_removed(dead)
                continue
            plan, jobs = from_record(RestoreTestPlan, dead.checkpoint["plan"]), self.hosts.jobs(dead.uid)
            try:
                jobs.stop("restore-test")
                until = time.monotonic() + settings.TICK_SECONDS
                way, name = self.hosts.way_to_file(dead, plan), f"again-{self.restore_test.uid}"
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
                restore_tests.mark_restore_test_removed(dead)

    # --- silence --------------------------------------------------------------------------------------------------
    def _unreachable(self, error: Unreachable) -> float | None:
        """Handle an unreachable host.

        Before the job was requested, the test fails after a timeout; afterwards dbops retries.
        """
        self.journal.cancellable = False
        self.journal.flush()
        if not self.checkpoint.get("asked") and self._silent_seconds() > settings.UNREACHABLE_TIMEOUT_SECONDS:
            error.left, error.next_step = "Nothing was written.", "Check the host, then run the restore test again."
            self._begin_ending(RunStatus.FAILED, error)
            try:
                return None if self._end() else 0.0
            except Unreachable:
                return RETRY_SECONDS  # the access to the file is still open
        text = f"Restore test {self.restore_test.pk}: {error} The job may still be running on the host. dbops retries."
        self.restore_test.unreachable_since = leases.mark_unreachable(self.lease, text)
        return LOST_RETRY_SECONDS if self.restore_test.status == RunStatus.LOST else RETRY_SECONDS

    def _silent_seconds(self) -> float:
        since = self.restore_test.unreachable_since
        return (timezone.now() - since).total_seconds() if since else 0.0

    # --- ends -----------------------------------------------------------------------------------------------------
    def _begin_ending(
        self, status: RunStatus, error: DbopsError | None = None, *, restore_tested: RestoreTestResult | None = None
    ) -> None:
        """Store the coming end: the next driver removes the files without looking at the job."""
        record = redact_record(error.as_record(), self.secrets) if error else {}
        self.checkpoint["pending_status"] = {
            "status": status.value,
            "error": record,
            "text": str(error) if error else "",
        }
        if restore_tested is not None:
            result = {"tables": restore_tested.largest(), "warnings": list(restore_tested.warnings)}
            self.journal.note(tables_checked=restore_tested.checked, rows_counted=restore_tested.rows, result=result)
        self.journal.cancellable = False
        self.journal.flush()

    def _end(self) -> bool:
        """Remove everything, then end. Return whether the restore test has ended."""
        self.journal.cancellable = False
        pending_status, has_leftovers = self.checkpoint["pending_status"], False
        try:
            if "plan" in self.checkpoint and not clean_up(self._site()):
                return False
        except Unreachable:
            raise
        except DbopsError as error:
            self.journal.say(f"{error}", level=Level.WARNING)
            has_leftovers = True
        if self.restore_test.unreachable_since and self.checkpoint.get("asked"):  # the clean-up reached the host
            leases.mark_reachable(self.lease)
        self.journal.note(error=pending_status["error"], has_leftovers=has_leftovers)
        if pending_status["text"]:
            self.journal.say(pending_status["text"], level=Level.ERROR)
        gone = "Some of its files could not be removed." if has_leftovers else "Its files were removed."
        restore_tests.finish_restore_test(self.lease, RunStatus(pending_status["status"]), gone, self.journal.take())
        return True
