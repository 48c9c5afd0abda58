"""When waiting jobs are expected to start, from real rows: what runs, history, wishes; and with a number of queries that stays."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.engine.backup_states import RunStatus
from dbops.engine.schedule.scheduler import Certainty, Kind
from dbops.engine.states import Status
from dbops.models import BackupRun, Hold, Instance, Rebuild
from dbops.queries.waiting import expected_starts
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_rebuild, make_trio
from tests.app.worker.test_scheduler import fill

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


def minutes(moment: datetime | None, now: datetime) -> int | None:
    return None if moment is None else round((moment - now).total_seconds() / 60)


def predicted(rebuild: Rebuild, seconds: float) -> Rebuild:
    rebuild.steps.update(predicted_seconds=seconds / rebuild.steps.count())
    return rebuild


def test_behind_a_backup_that_tells_its_time_left(trio: Any) -> None:
    now = timezone.now()
    make_run(make_schedule(trio[1]), RunStatus.RUNNING, progress={"eta_seconds": 600})
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)
    found = expected_starts(now)[Kind.REBUILD, rebuild.pk]
    assert (minutes(found.at, now), found.certainty) == (10, Certainty.PREDICTED)


def test_behind_a_backup_of_known_length_by_its_own_history_else_by_what_a_person_expects(trio: Any) -> None:
    now = timezone.now()
    schedule = make_schedule(trio[1], expected_seconds=3600)
    make_run(schedule, RunStatus.RUNNING, started_at=now - timedelta(minutes=20))
    rebuild = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED)
    assumed = expected_starts(now)[Kind.REBUILD, rebuild.pk]
    assert (minutes(assumed.at, now), assumed.certainty) == (40, Certainty.ASSUMED)
    for length in (25, 30, 90):
        ended = now - timedelta(days=1)
        make_run(schedule, RunStatus.SUCCEEDED, started_at=ended - timedelta(minutes=length), finished_at=ended)
    found = expected_starts(now)[Kind.REBUILD, rebuild.pk]
    assert (minutes(found.at, now), found.certainty) == (10, Certainty.PREDICTED)


def test_a_backup_behind_a_rebuild_and_one_that_is_overdue(trio: Any) -> None:
    now = timezone.now()
    rebuild = predicted(make_rebuild(target=trio[2], source=trio[1]), 15 * 60)  # it has run for ten minutes
    Hold.objects.create(instance=trio[1], rebuild=rebuild, purpose="source", taken_at=now)
    run = make_run(make_schedule(trio[1]))
    assert minutes(expected_starts(now)[Kind.BACKUP, run.pk].at, now) == 5
    later = expected_starts(now + timedelta(minutes=9))[Kind.BACKUP, run.pk]
    assert (later.at, later.certainty) == (None, Certainty.UNKNOWN)


def test_wishes_a_moment_and_the_end_of_a_backup(trio: Any) -> None:
    now = timezone.now()
    run = make_run(make_schedule(trio[0]), RunStatus.RUNNING, progress={"eta_seconds": 300})
    after = make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED, after_run=run)
    assert minutes(expected_starts(now)[Kind.REBUILD, after.pk].at, now) == 5
    Rebuild.objects.update(after_run=None, not_before=now + timedelta(hours=2))
    found = expected_starts(now)[Kind.REBUILD, after.pk]
    assert (minutes(found.at, now), found.certainty) == (120, Certainty.FIXED)


@pytest.mark.parametrize(("count", "sources"), [(2, 1), (30, 6)])
def test_sixteen_queries_whatever_waits(db: None, count: int, sources: int) -> None:
    fill(count, sources)
    BackupRun.objects.update(progress={"eta_seconds": 60})
    with CaptureQueriesContext(connection) as queries:
        assert len(expected_starts(timezone.now())) == count
    assert len(queries) == 16


def test_what_nobody_has_approved_is_not_predicted_and_keeps_nobody_waiting(trio: Any) -> None:
    now = timezone.now()
    waiting = predicted(make_rebuild(target=trio[2], source=trio[1], status=Status.QUEUED, approval="waiting"), 3600)
    backup = make_run(make_schedule(trio[1]), RunStatus.QUEUED)
    found = expected_starts(now)
    assert (found[Kind.REBUILD, waiting.pk].at, found[Kind.REBUILD, waiting.pk].certainty) == (None, Certainty.UNKNOWN)
    assert minutes(found[Kind.BACKUP, backup.pk].at, now) == 0
    Rebuild.objects.update(approval="approved")
    found = expected_starts(now)
    assert minutes(found[Kind.REBUILD, waiting.pk].at, now) == 0
