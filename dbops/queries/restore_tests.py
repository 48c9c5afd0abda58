"""Read the restore tests of a backup, and the newest restore test of each source."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Max, Q

from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.due import OF_THE_PLACE, OF_THE_WAY, RestoreAge, RestoreState
from dbops.engine.restore_tests.result import STEPS
from dbops.engine.states import BackupMethod, RunBy, RunStatus
from dbops.models import BackupRun, BackupSchedule, RestoreTest

#: Maximum number of restore tests shown of one run, the newest.
SHOWN = 5


class RestoreTestStep(NamedTuple):
    """One step of a restore test. Unknown numbers are ``None``."""

    name: str
    title: str
    state: str
    seconds: float | None
    bytes: int | None

    @property
    def rate(self) -> float | None:
        return self.bytes / self.seconds if self.bytes and self.seconds else None


@dataclass(frozen=True, slots=True)
class RestoreTestRow:
    """One restore test of a run, with its steps."""

    restore_test: RestoreTest

    @property
    def steps(self) -> tuple[RestoreTestStep, ...]:
        return tuple(
            RestoreTestStep(step["name"], self._title(step["name"]), step["state"], step["seconds"], step["bytes"])
            for step in self.restore_test.steps
            if step.get("name") in STEPS
        )

    def _title(self, step: str) -> str:
        return phrase("Fetch, decompress and unpack") if step == "unpack" and self.holder else STEPS[step]

    @property
    def holder(self) -> str:
        """Return the host that has the backup file; empty if it is the restore test's host."""
        holder = self.restore_test.source.host
        return "" if holder.pk == self.restore_test.host_id else holder.name

    @property
    def rows(self) -> str:
        """Return the number of counted rows, for display."""
        return f"{self.restore_test.rows_counted or 0:,}"

    @property
    def warnings(self) -> list[str]:
        return list(self.restore_test.result.get("warnings", []))


@dataclass(frozen=True, slots=True)
class RunRestoreTests:
    """The restore tests of one run, newest first; ``why_not`` says why the run can't be tested, or is empty."""

    shown: tuple[RestoreTestRow, ...]
    why_not: str

    @property
    def is_open(self) -> bool:
        return any(not one.restore_test.is_over for one in self.shown)

    @property
    def may_be_shown(self) -> bool:
        return bool(self.shown) or not self.why_not


def restore_tests_of(run: BackupRun) -> RunRestoreTests:
    """Return the restore tests of a run. One query; none for a run that can't have any."""
    why_not = run.why_not_testable
    if why_not and run.status != RunStatus.SUCCEEDED:
        return RunRestoreTests((), why_not)
    rows = run.restore_tests.select_related("host", "source__host").defer("checkpoint")[:SHOWN]
    return RunRestoreTests(tuple(RestoreTestRow(restore_test) for restore_test in rows), why_not)


def find_restore_test(restore_test_id: int) -> RestoreTest | None:
    """Return one restore test with its related rows, or ``None``. One query."""
    return RestoreTest.objects.select_related("run", "source", "host").filter(pk=restore_test_id).first()


@dataclass(frozen=True, slots=True)
class RestoreStatus:
    """The restore test state of one source's backups."""

    age: RestoreAge
    state: RestoreState

    @property
    def is_good(self) -> bool:
        return self.state is RestoreState.TESTED

    @property
    def at(self) -> datetime | None:
        return self.age.failed_at if self.state is RestoreState.FAILED else self.age.tested_at

    @property
    def run(self) -> int | None:
        return self.age.failed_run if self.state is RestoreState.FAILED else self.age.restore_test_run

    @property
    def weight(self) -> int:
        """Return the urgency: a greater number comes first."""
        order = (RestoreState.TESTED, RestoreState.OLD, RestoreState.NEVER, RestoreState.FAILED)
        return order.index(self.state)


def restores(now: datetime, only: Collection[int] | None = None) -> dict[int, list[RestoreStatus]]:
    """Return the sources with physical backups by dbops, by cluster, worst first. Three queries.

    A source that was never tested is left out if automatic restore tests are off
    (``DBOPS_RESTORE_TEST_INTERVAL_SECONDS`` is 0).
    """
    sources = _sources(only)
    newest: dict[tuple[int, str], dict[str, Any]] = {}
    ended = RestoreTest.objects.filter(source__in=sources, status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED))
    # Filtered by key: a restore test without an error code counts, and SQL's NOT skips missing values.
    nothing = Q(error__code__in=sorted(OF_THE_PLACE)) | Q(error__code__startswith=OF_THE_WAY)
    ended = ended.exclude(pk__in=RestoreTest.objects.filter(nothing).order_by().values("pk"))
    keys = [row["newest"] for row in ended.order_by().values("source", "status").annotate(newest=Max("pk"))]
    columns = ("source_id", "status", "finished_at", "run_id", "error")
    for row in RestoreTest.objects.filter(pk__in=keys).order_by().values(*columns):
        newest[row["source_id"], row["status"]] = row
    found: dict[int, list[RestoreStatus]] = defaultdict(list)
    old_after = timedelta(seconds=settings.RESTORE_TEST_OLD_AFTER_SECONDS)
    for source, (name, cluster) in sources.items():
        age = _age(name, newest.get((source, RunStatus.SUCCEEDED)), newest.get((source, RunStatus.FAILED)))
        state = age.state(now, old_after)
        if state is not RestoreState.NEVER or settings.RESTORE_TEST_INTERVAL_SECONDS > 0:
            found[cluster].append(RestoreStatus(age, state))
    for restores_of in found.values():
        restores_of.sort(key=lambda one: (-one.weight, one.age.source))
    return found


def _sources(only: Collection[int] | None) -> dict[int, tuple[str, int]]:
    rows = BackupSchedule.objects.filter(is_enabled=True, run_by=RunBy.DBOPS, method=BackupMethod.PHYSICAL)
    if only is not None:
        rows = rows.filter(instance__cluster__in=only)
    values = rows.order_by("instance__name").values_list("instance_id", "instance__name", "instance__cluster_id")
    return {source: (name, cluster) for source, name, cluster in values}


def _age(name: str, good: dict[str, Any] | None, bad: dict[str, Any] | None) -> RestoreAge:
    return RestoreAge(
        source=name,
        tested_at=good["finished_at"] if good else None,
        restore_test_run=good["run_id"] if good else None,
        failed_at=bad["finished_at"] if bad else None,
        failed_run=bad["run_id"] if bad else None,
        code=bad["error"].get("code", "") if bad else "",
    )
