"""How long writes on a source waited when its backup tool last ran: by its rebuilds and its backups."""

from datetime import timedelta

import pytest
from django.utils import timezone

from dbops.engine.states import Status, StepState
from dbops.loaders.plan_inputs import last_write_lock_seconds
from dbops.models import RebuildStep
from tests.app.factories import make_rebuild, make_run, make_trio

pytestmark = pytest.mark.django_db


def test_last_write_lock_is_that_of_the_newest_run() -> None:
    _, source, target = make_trio()
    assert last_write_lock_seconds(source) is None
    now = timezone.now()
    rebuild = make_rebuild(target=target, source=source, status=Status.SUCCEEDED)
    copy = RebuildStep.objects.filter(rebuild=rebuild, name="stream")
    copy.update(state=StepState.DONE, finished_at=now - timedelta(hours=2), result={"write_lock_seconds": 12.5})
    assert last_write_lock_seconds(source) == 12.5
    values = {"method": "physical", "origin": "managed", "status": "succeeded"}
    make_run(source, started_at=now - timedelta(hours=1), seconds=60, evidence={"write_lock_seconds": 3.0}, **values)
    make_run(source, started_at=now - timedelta(minutes=30), seconds=60, evidence={"sha256": "x"}, **values)
    assert last_write_lock_seconds(source) == 3.0
    copy.update(finished_at=now)
    assert last_write_lock_seconds(source) == 12.5
    copy.update(result={"write_lock_seconds": None})
    assert last_write_lock_seconds(source) == 3.0
    assert last_write_lock_seconds(target) is None
