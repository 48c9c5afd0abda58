"""Queue order and expected start: page, queue, cluster page, command line and scheduler give one answer."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dbops.engine.schedule.occupancy import order_of
from dbops.engine.schedule.scheduler import JobKind
from dbops.engine.states import Approval, Status
from dbops.loaders.cluster_snapshots import snapshot_of
from dbops.models import BackupRun, Hold, Instance, Rebuild
from dbops.worker import scheduler
from tests.app.factories import make_instance, make_plan, make_rebuild, make_run, make_schedule, make_trio

pytestmark = pytest.mark.django_db

#: The pages are asked one after the other, and some starts are "now".
NEAR = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


class Scene:
    """A backup of backup-1 runs for one of its usual four hours; seven jobs wait, each in another way."""

    def __init__(self) -> None:
        self.now = timezone.now()
        self.primary, self.backup, self.replica = make_trio()
        schedule = make_schedule(
            self.backup, cron=f"30 {(self.now - timedelta(hours=2)).hour} * * *", run_by="dbops", directory="/backup"
        )
        given: dict[str, Any] = {"schedule": schedule, "origin": "managed"}
        make_run(self.backup, started_at=self.now - timedelta(days=1), seconds=4 * 3600, **given)
        self.run = make_run(self.backup, started_at=self.now - timedelta(hours=1), **given)
        Hold.objects.create(instance=self.backup, backup_run=self.run, purpose="backup", taken_at=self.now)
        ended = make_rebuild(target=self.replica, source=self.backup, status=Status.SUCCEEDED)
        Rebuild.objects.filter(pk=ended.pk).update(started_at=self.now - timedelta(days=2, hours=2))
        Rebuild.objects.filter(pk=ended.pk).update(finished_at=self.now - timedelta(days=2))
        ages = {"requested_at": self.now - timedelta(minutes=20)}
        self.first = self.rebuild("first", **ages)
        self.same_age = self.rebuild("same-age", **ages)
        self.later = self.rebuild("later", not_before=self.now + timedelta(hours=9))
        self.after = self.rebuild("after", start_after_run=self.run)
        self.unread = self.rebuild("unread", method="archive")
        self.undo = self.rebuild("undo", method="rollback")
        self.follower = self.rebuild("follower", leader=self.first)
        self.unapproved = self.rebuild("unapproved", approval=Approval.WAITING)
        self.urgent = self.rebuild("urgent", priority=3, requested_at=self.now)
        self.waiting_run = make_run(
            self.backup, started_at=None, status="queued", queued_at=self.now - timedelta(minutes=15), **given
        )

    def rebuild(self, name: str, **values: Any) -> Rebuild:
        target: Instance = make_instance(name, cluster=self.primary.cluster)
        plan = make_plan(target=target, source=self.backup)
        return make_rebuild(target=target, source=self.backup, status=Status.QUEUED, plan=plan, **values)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def of_page(client: Client, rebuild: Rebuild) -> Any:
    return client.get(f"/rebuilds/{rebuild.pk}/").context["page"].expected_start


def of_lines(client: Client, address: str) -> dict[int, Any]:
    lines = client.get(address).context["queues"]
    return {item.job.rebuild: item.starts for line in lines for item in line.jobs if item.position and item.job.rebuild}


def of_command(rebuild: Rebuild) -> dict[str, str | None]:
    out = StringIO()
    wanted = ("--priority", str(rebuild.priority), "--json", "--as", "olga")
    call_command("rebuild", rebuild.target.name, *wanted, stdout=out)
    found: dict[str, str | None] = json.loads(out.getvalue())["expected_start"]
    return found


def is_same(one: datetime | None, other: datetime | None) -> bool:
    return one is other is None or (one is not None and other is not None and abs(one - other) < NEAR)


def test_expected_start_is_the_same_everywhere(operator: Client, scene: Scene) -> None:
    queue, cluster = of_lines(operator, "/queue/"), of_lines(operator, "/clusters/shop/")
    waiting = list(Rebuild.objects.filter(status=Status.QUEUED).select_related("target"))
    assert len(waiting) == 9
    for rebuild in waiting:
        page, command = of_page(operator, rebuild), of_command(rebuild)
        found = [(queue[rebuild.pk].p50, queue[rebuild.pk].p90), (cluster[rebuild.pk].p50, cluster[rebuild.pk].p90)]
        found.append(tuple(datetime.fromisoformat(at) if at else None for at in (command["p50"], command["p90"])))
        for p50, p90 in found:
            assert is_same(page.p50, p50), rebuild.target.name
            assert is_same(page.p90, p90), rebuild.target.name


def test_expected_start_follows_what_each_job_waits_for(operator: Client, scene: Scene) -> None:
    starts = {name: of_page(operator, getattr(scene, name)).p50 for name in ("urgent", "first", "same_age", "follower")}
    ends = scene.run.started_at + timedelta(hours=4)
    assert is_same(starts["urgent"], ends)
    assert starts["urgent"] < starts["first"] < starts["same_age"]
    assert is_same(starts["follower"], starts["first"])
    assert of_page(operator, scene.later).p50 >= scene.now + timedelta(hours=9)
    assert is_same(of_page(operator, scene.undo).p50, scene.now), "it reads no source, and nothing holds its target"
    assert of_page(operator, scene.unapproved).p50 is None
    assert BackupRun.objects.filter(pk=scene.run.pk, status="running").exists()


def test_queue_order_equals_the_order_of_the_scheduler(scene: Scene) -> None:
    Rebuild.objects.filter(pk=scene.later.pk).update(not_before=scene.now - timedelta(minutes=30))
    jobs = [job for job in snapshot_of(scene.primary.cluster).jobs if job.started_at is None]
    shown = [
        (JobKind.REBUILD, job.rebuild) if job.rebuild else (JobKind.BACKUP, job.run)
        for job in sorted(jobs, key=order_of)
    ]
    decided = [job.key for job in sorted(scheduler.queued_jobs(scene.now), key=lambda job: job.order)]
    assert shown == decided
    keys = [pk for kind, pk in shown if kind is JobKind.REBUILD]
    assert keys[:4] == [scene.urgent.pk, scene.later.pk, scene.first.pk, scene.same_age.pk]


def test_queue_position_is_the_same_on_both_pages(operator: Client, scene: Scene) -> None:
    lines = {line.instance: line for line in operator.get("/queue/").context["queues"]}
    shown = [item.job.rebuild for item in lines["backup-1"].jobs if item.position and item.job.rebuild]
    place = operator.get(f"/rebuilds/{scene.first.pk}/queue-position/").context["queue"]
    assert shown == [item.pk for item in place if item.pk in shown]
    assert [item.position for item in lines["backup-1"].jobs if item.position] == list(range(1, len(shown) + 2))
