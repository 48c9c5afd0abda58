"""A backup that dbops did not start, in the middle of a rebuild: both pages and both histories say so, and what it means."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dbops import lifecycle
from dbops.engine.backup_states import BackupMethod, Origin, RunStatus
from dbops.engine.facts.backups import BackupProcess, Reads
from dbops.engine.schedule.conflicts import meaning_beside
from dbops.engine.states import Status
from dbops.models import BackupRun, Rebuild
from tests.app.factories import make_facts, make_rebuild, make_trio
from tests.app.loaders.test_cluster_snapshots import hold, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def rebuild() -> Rebuild:
    _, source, target = make_trio()
    running = make_rebuild(target=target, source=source, status=Status.RUNNING)
    hold(running)
    return running


def seen(rebuild: Rebuild) -> BackupRun:
    """What a probe of the source finds: a dump that began a minute ago."""
    now = timezone.now()
    process = BackupProcess(
        "boot:7:700",
        7,
        "mysqldump",
        BackupMethod.DUMP,
        now - timedelta(minutes=1),
        "root",
        "mysqldump -A",
        Reads.THIS,
        "so",
    )
    facts = replace(make_facts(observed_at=now), backup_processes=(process,))
    lifecycle.observe(rebuild.source, facts)
    return BackupRun.objects.get()


def test_one_probe_tells_both_histories_what_it_means(rebuild: Rebuild) -> None:
    run = seen(rebuild)
    meaning = meaning_beside("xbstream", is_target=False, is_dump=True)
    assert meaning
    told = rebuild.events.get(text__contains=f"backup run {run.pk}")
    assert (told.level, meaning in told.text) == ("warning", True)
    assert run.events.filter(text__contains=f"Rebuild {rebuild.pk} uses backup-1 as its source. {meaning}").exists()
    seen(rebuild)
    assert rebuild.events.filter(text__contains="backup run").count() == 1, "told once"


def test_both_pages_show_it_while_it_goes_on(operator: Client, rebuild: Rebuild) -> None:
    run = seen(rebuild)
    page, other = f"/rebuilds/{rebuild.pk}/", f"/backups/runs/{run.pk}/"
    assert f"backup run {run.pk}</a> (dump, observed), which dbops did not start" in operator.get(page).content.decode()
    assert f"Rebuild {rebuild.pk}</a> uses backup-1 as its source." in operator.get(other).content.decode()
    BackupRun.objects.update(status=RunStatus.ENDED, finished_at=timezone.now())
    assert "which dbops did not start, goes on" not in operator.get(page).content.decode()
    assert "uses backup-1 as its source.\n" not in operator.get(other).content.decode()


def test_a_backup_of_an_instance_that_no_rebuild_uses_tells_nothing(rebuild: Rebuild) -> None:
    lifecycle.end_queued(rebuild, Status.CANCELLED, "")
    rebuild.holds.all().delete()
    run = seen(rebuild)
    assert not run.events.filter(text__contains="Rebuild").exists()


def test_what_dbops_runs_itself_is_never_beside(operator: Client, rebuild: Rebuild) -> None:
    rebuild.holds.all().delete()
    run = make_run(rebuild.source, origin=Origin.MANAGED)
    assert "which dbops did not start" not in operator.get(f"/backups/runs/{run.pk}/").content.decode()
