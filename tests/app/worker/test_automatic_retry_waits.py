"""What a dropped branch waits for before it is rebuilt by itself, and when it is left to a person."""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dbops.engine.facts.instance import from_record
from dbops.engine.planning.checks.capacity import bytes_needed
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Approval, Level, Status
from dbops.loaders.plan_inputs import situation_of
from dbops.models import AuditEntry, Cluster, Instance, Rebuild
from dbops.operations.follow_ups import offers
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.worker import automatic_retry, scheduler
from tests.app.shared_reads import MADE, TOUCHED, Read, fresh
from tests.engine import builders

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


@pytest.fixture
def read(olga: User) -> Read:
    return Read(olga)


def test_it_waits_until_another_one_has_its_copy(read: Read) -> None:
    """Till then it may be the source that is at fault."""
    read.drop()
    assert read.look() is None
    read.copied(read.reader)
    assert read.look(after=11) is not None


def test_where_none_has_its_copy_it_is_left_to_a_person(read: Read) -> None:
    read.drop()
    assert read.look() is None
    read.end(read.reader, Status.FAILED, ending=Status.FAILED, error={"code": "backup.connect"})
    assert read.look(after=11) is None
    assert fresh(read.branch).retry_due_at is None
    assert "is not rebuilt again by itself: None of the same read has got its copy" in read.told()
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_it_waits_until_the_target_was_read_again(read: Read) -> None:
    read.copied(read.reader)
    ended = read.drop()
    assert ended.finished_at
    read.see_target(at=ended.finished_at - timedelta(seconds=1))
    assert read.look() is None
    read.see_target()
    Rebuild.objects.filter(pk=read.branch.pk).update(sweep_due_at=timezone.now())
    assert read.look(after=11) is None
    Rebuild.objects.filter(pk=read.branch.pk).update(sweep_due_at=None)
    assert read.look(after=22) is not None


def test_a_plan_that_is_refused_for_now_is_told_once_and_tried_again(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    lagging = builders.server(12, replication=(builders.link(lag_seconds=9000.0),))
    read.see_source(server=lagging)
    assert read.look() is None
    assert read.look(after=11) is None
    assert read.told().count("replica-2 is not rebuilt again yet: ") == 1
    read.see_source()
    assert read.look(after=22) is not None


def test_a_plan_that_stays_refused_is_told_and_nothing_is_queued(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    read.end(read.reader)
    read.see_source(server=builders.server(12, replication=()))
    assert read.look() is None
    assert read.look(after=3500) is None
    assert fresh(read.branch).retry_due_at is not None
    assert read.look(after=3700) is None
    assert fresh(read.branch).retry_due_at is None
    event = read.branch.events.order_by("pk").last()
    assert event is not None
    assert event.level == Level.WARNING
    assert "is not rebuilt again by itself: " in event.text
    entry = AuditEntry.objects.get(action="rebuild.refused")
    assert (entry.actor, entry.subject, entry.detail["code"]) == ("dbops", "replica-2", "plan.refused")
    assert (entry.detail["follows"], entry.detail["requested_by"]) == (read.branch.pk, "olga")
    assert not Rebuild.objects.filter(follows=read.branch).exists()


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        ({"identity": "64769:100"}, "is not the directory that the failed rebuild left"),
        ({"runs": True}, "the server of replica-2 runs, which the failed rebuild left stopped"),
    ],
)
def test_what_somebody_has_done_to_the_target_since_is_not_destroyed(
    read: Read, seen: dict[str, Any], word: str
) -> None:
    """A person may have put data there that nobody has agreed to lose."""
    read.copied(read.reader)
    read.drop()
    read.see_target(**seen)
    assert read.look() is None
    assert word in read.told()
    assert AuditEntry.objects.get(action="rebuild.refused").detail["code"] == "retry.changed"
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_where_nobody_saw_what_was_left_a_person_looks(read: Read) -> None:
    """The host was restarted in the middle: whatever lies there now, it may be somebody's work."""
    read.copied(read.reader)
    read.drop(memory={name: value for name, value in TOUCHED.items() if name != "left_tree"})
    assert read.look() is None
    assert "the host did not say what the failed rebuild left in" in read.told()
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_a_target_that_was_not_stopped_is_still_the_same_server(read: Read) -> None:
    read.copied(read.reader)
    read.drop("shared.missed", memory={})
    another = replace(builders.server(14), version="10.11.20-MariaDB")
    read.see_target(runs=True, identity=builders.datadir(14).identity or "", server=another)
    assert read.look() is None
    assert "target version: " in read.told()
    assert "10.11.20" in read.told()


def test_room_that_its_own_half_copy_takes_is_no_reason(read: Read) -> None:
    """It goes before the copy begins: there was room for two."""
    read.copied(read.reader)
    read.drop()
    needed = bytes_needed(situation_of(read.target, read.source))
    assert needed
    half = replace(builders.datadir(14), identity=MADE, free_bytes=needed // 2, total_bytes=needed)
    read.see_target(datadir=half)
    queued = read.look()
    assert queued is not None
    assert from_record(Plan, queued.plan).old_data == "removed_first"


def test_a_warning_that_nobody_has_accepted_is_not_accepted_by_itself(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    read.see_source(server=builders.server(12, foreign_engines={"MyISAM": 3}))
    assert read.look() is None
    assert "Not InnoDB: 3 MyISAM" in read.told()
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_after_a_failover_a_person_decides(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    Instance.objects.filter(name="primary-1").update(role="replica")
    Instance.objects.filter(name="replica-1").update(role="primary")
    for after in (0, 11):
        assert read.look(after=after) is None
    assert "primary" in AuditEntry.objects.get(action="rebuild.refused").detail["why"]
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_who_takes_it_in_hand_comes_first(read: Read, olga: User) -> None:
    """Also where what they asked for has been cancelled since."""
    read.copied(read.reader)
    read.drop()
    plan = plan_rebuild(target=read.target, source=read.source)
    by_hand = request_rebuild(
        actor=olga,
        target=read.target,
        source=read.source,
        typed_name="replica-2",
        reason="by hand",
        fingerprint=plan.fingerprint,
        request_key=str(uuid.uuid4()),
    )
    cancel_rebuild(actor=olga, rebuild=by_hand)
    assert read.look() is None
    assert f"rebuild {by_hand.pk} of this instance was asked for since" in read.told()


def test_who_may_not_ask_any_more_is_not_asked_for(read: Read, olga: User) -> None:
    read.copied(read.reader)
    read.drop()
    olga.is_active = False
    olga.save()
    assert read.look() is None
    assert AuditEntry.objects.get(action="rebuild.refused").detail["code"] == "access.denied"


def test_a_cluster_that_asks_for_approval_asks_again(read: Read, olga: User) -> None:
    """Who approved has seen another plan."""
    read.copied(read.reader)
    Cluster.objects.update(needs_approval=True)
    read.drop(approval=Approval.APPROVED, approval_by="anna")
    queued = read.look()
    assert queued is not None
    assert (queued.approval, queued.approval_by) == (Approval.WAITING, "")
    read.end(read.reader)
    assert scheduler.start_what_can() == []
    assert fresh(queued).waiting_for == "an operator other than olga must approve it"


def test_a_rate_that_a_person_set_holds_on(read: Read) -> None:
    read.copied(read.reader)
    read.drop(stream_rate=5 * 1024**2)
    queued = read.look()
    assert queued is not None
    assert fresh(queued).stream_rate == 5 * 1024**2


@pytest.mark.parametrize("is_off_at_the_end", [True, False])
def test_it_can_be_turned_off(read: Read, settings: Any, is_off_at_the_end: bool) -> None:
    read.copied(read.reader)
    settings.FAN_OUT_RETRY = not is_off_at_the_end
    read.drop()
    settings.FAN_OUT_RETRY = False
    assert read.look() is None
    assert fresh(read.branch).retry_due_at is None
    assert ("DBOPS_FAN_OUT_RETRY is off" in read.told()) is not is_off_at_the_end
    assert not Rebuild.objects.filter(follows=read.branch).exists()


def test_the_task_looks_at_all_that_are_due(read: Read) -> None:
    automatic_retry.rebuild_dropped()
    assert Rebuild.objects.count() == 2
    read.copied(read.reader)
    read.drop()
    automatic_retry.rebuild_dropped()
    assert Rebuild.objects.filter(follows=read.branch).count() == 1


def test_one_that_cannot_be_read_keeps_no_other_from_being_looked_at(
    read: Read, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read.drop()
    Rebuild.objects.filter(pk=read.reader.pk).update(retry_due_at=timezone.now())  # the first in order
    read.copied(read.reader)
    look_at, seen = automatic_retry.look_at, []

    def look(rebuild_id: int, now: datetime) -> Rebuild | None:
        seen.append(rebuild_id)
        if rebuild_id == read.reader.pk:
            raise KeyError("a plan of another version")
        return look_at(rebuild_id, now)

    monkeypatch.setattr(automatic_retry, "look_at", look)
    automatic_retry.rebuild_dropped()
    assert seen == [read.reader.pk, read.branch.pk]
    assert Rebuild.objects.filter(follows=read.branch).exists()
    assert f"rebuild {read.reader.pk} is left to a person" in caplog.text
    assert fresh(read.reader).retry_due_at is None, "it would be so again in ten seconds"
    assert "KeyError: 'a plan of another version'" in AuditEntry.objects.get(action="rebuild.refused").detail["why"]


def test_a_worker_that_is_told_to_hurry_looks_at_no_other(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    read.drop()

    def look(rebuild_id: int, now: datetime) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(automatic_retry, "look_at", look)
    with pytest.raises(SoftTimeLimitExceeded):
        automatic_retry.rebuild_dropped()
    assert fresh(read.branch).retry_due_at is not None


def test_a_worker_knows_the_task_and_beat_sends_it() -> None:
    from dbops.celery import app

    app.loader.import_default_modules()
    name = app.conf.beat_schedule["dropped"]["task"]
    assert name in app.tasks


def test_one_that_was_left_behind_before_it_was_stopped_is_rebuilt_as_it_stands(read: Read) -> None:
    read.copied(read.reader)
    read.drop("shared.missed", memory={})
    read.see_target(runs=True, identity=builders.datadir(14).identity or "")
    queued = read.look()
    assert queued is not None
    assert from_record(Plan, queued.plan).target.is_answering


@pytest.mark.parametrize(("is_touched", "keeps"), [(True, False), (False, True)])
def test_old_data_is_kept_as_was_asked_and_half_a_copy_is_not(read: Read, is_touched: bool, keeps: bool) -> None:
    read.copied(read.reader)
    plan = {**fresh(read.branch).plan, "keep_old_data": True}
    memory = TOUCHED if is_touched else {}
    read.drop(plan=plan, memory=memory)
    if not is_touched:
        read.see_target(runs=True, identity=builders.datadir(14).identity or "")
    queued = read.look()
    assert queued is not None
    assert from_record(Plan, queued.plan).keep_old_data is keeps


def test_half_a_copy_is_not_put_back_as_if_it_were_old_data(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    read.end(read.reader)
    assert scheduler.start_what_can() == [queued.pk]
    moved = {"touched": True, "aside_path": "/var/lib/mysql.dbops-old-2", "aside_identity": MADE}
    ended = read.end(
        queued,
        Status.FAILED,
        ending=Status.FAILED,
        error={"code": "stream.disk_full"},
        memory={**fresh(queued).memory, **moved},
    )
    offer = offers(ended)["put-back"]
    assert not offer.is_possible
    assert "at /var/lib/mysql.dbops-old-RUN: put it back by hand" in offer.reason


def test_a_person_calls_it_off_on_its_page(read: Read, operator: Client) -> None:
    read.copied(read.reader)
    read.drop()
    url = f"/rebuilds/{read.branch.pk}/"
    page = operator.get(url).content.decode()
    assert "It is rebuilt once more by itself, alone, when" in page
    assert "Do not rebuild it again by itself" in page
    assert operator.get(f"{url}retry/off/").status_code == 405
    said = operator.post(f"{url}retry/off/", follow=True).content.decode()
    assert "replica-2 is not rebuilt again by itself." in said
    assert "Do not rebuild it again by itself" not in said
    assert read.look(after=60) is None
    assert not Rebuild.objects.filter(follows=read.branch).exists()
    entry = AuditEntry.objects.get(action="rebuild.retry_called_off")
    assert (entry.actor, entry.subject, entry.detail["rebuild"]) == ("olga", "replica-2", read.branch.pk)
    again = operator.post(f"{url}retry/off/", follow=True).content.decode()
    assert "nothing of that kind is to come" in again


def test_once_the_second_one_waits_that_one_is_cancelled(read: Read, operator: Client, viewer: Client) -> None:
    read.copied(read.reader)
    read.drop()
    url = f"/rebuilds/{read.branch.pk}/retry/off/"
    assert viewer.post(url).status_code == 403
    queued = read.look()
    assert queued is not None
    assert f"rebuild {queued.pk} does it. Cancel that one" in operator.post(url, follow=True).content.decode()
    assert fresh(queued).status == Status.QUEUED
