"""A backup that dbops did not start, in the middle of a rebuild: both pages and both histories say so, and what it means."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from dbops.engine.facts.backups import BackupProcess, Reads
from dbops.engine.methods import METHODS
from dbops.engine.schedule.conflicts import meaning_alongside
from dbops.engine.states import BackupMethod, RunOrigin, RunStatus, Status
from dbops.lifecycle import external_runs, rebuild_requests
from dbops.models import BackupRun, Rebuild
from tests.app.factories import make_facts, make_rebuild, make_trio
from tests.app.loaders.test_cluster_snapshots import hold, make_run

from .marks import marks

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
    external_runs.observe(rebuild.source, facts)
    return BackupRun.objects.get()


def test_probe_logs_the_backup_once_on_both_sides(rebuild: Rebuild) -> None:
    run = seen(rebuild)
    meaning = meaning_alongside(METHODS["xbstream"], is_target=False, is_dump=True)
    assert meaning
    logged = rebuild.events.get(text__contains=meaning)
    assert (logged.level, str(run.pk) in re.findall(r"\d+", logged.text)) == ("warning", True)
    other = run.events.get(text__contains=meaning).text
    assert "backup-1" in other
    assert str(rebuild.pk) in re.findall(r"\d+", other)
    seen(rebuild)
    assert rebuild.events.filter(text__contains=meaning).count() == 1, "logged once"
    assert run.events.filter(text__contains=meaning).count() == 1, "logged once"


def test_both_pages_show_the_other_while_it_runs(operator: Client, rebuild: Rebuild) -> None:
    run = seen(rebuild)
    page, other = f"/rebuilds/{rebuild.pk}/", f"/backups/runs/{run.pk}/"
    meaning = escape(meaning_alongside(METHODS["xbstream"], is_target=False, is_dump=True))
    for address, number, linked in ((page, run.pk, other), (other, rebuild.pk, page)):
        text = operator.get(address).content.decode()
        assert marks(text, "overlap") == [str(number)]
        shown = text[text.rindex("<p", 0, text.index("data-overlap=")) :].partition("</p>")[0]
        for said in (f'href="{linked}"', "backup-1", meaning):
            assert said in shown
    BackupRun.objects.update(status=RunStatus.ENDED, finished_at=timezone.now())
    for address in (page, other):
        assert marks(operator.get(address).content.decode(), "overlap") == []


def test_probe_logs_nothing_for_an_instance_that_no_rebuild_uses(rebuild: Rebuild) -> None:
    rebuild_requests.end_queued(rebuild, Status.CANCELLED, "")
    rebuild.holds.all().delete()
    run = seen(rebuild)
    assert not run.events.filter(text__contains="Rebuild").exists()


def test_page_of_a_managed_run_shows_no_rebuild_beside_it(operator: Client, rebuild: Rebuild) -> None:
    rebuild.holds.all().delete()
    run = make_run(rebuild.source, origin=RunOrigin.MANAGED)
    assert marks(operator.get(f"/backups/runs/{run.pk}/").content.decode(), "overlap") == []
