"""A branch that a shared read went on without is rebuilt once more by itself, alone: when, when not, exactly once, and what is told."""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dbops import dropped, lifecycle, scheduler
from dbops.engine.dropped import OF_THE_WAY
from dbops.engine.facts import InstanceFacts, Problem, from_record
from dbops.engine.plan import Plan
from dbops.engine.states import Approval, Level, Status, StepState
from dbops.models import AuditEntry, Cluster, Hold, Instance, InstanceState, Rebuild
from dbops.operations import joining
from dbops.operations.follow_ups import offers
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.operations.together import Confirmed, plan_together, request_together
from tests.app import rows
from tests.engine import builders

pytestmark = pytest.mark.django_db

MADE = "64769:99"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.tasks._publish", lambda *_: None)
    monkeypatch.setattr("dbops.announce.announce", lambda *_: None)
    monkeypatch.setattr("dbops.announce.announce_many", lambda *_: None)


def see(instance: Instance, facts: InstanceFacts) -> None:
    InstanceState.objects.filter(pk=instance.pk).update(**InstanceState.columns(facts))


def fresh(row: Rebuild) -> Rebuild:
    return Rebuild.objects.get(pk=row.pk)


class Read:
    """replica-1 reads backup-1, also for replica-2; both run."""

    def __init__(self, olga: User, **values: Any) -> None:
        self.fleet = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2")
        self.source, self.target = self.fleet["backup-1"], self.fleet["replica-2"]
        self.see_source()
        confirmed = [
            Confirmed(one.target, one.target.name, one.plan.fingerprint)
            for one in plan_together([self.fleet["replica-1"], self.target], self.source)
            if one.plan
        ]
        self.reader, self.branch = request_together(
            actor=olga, source=self.source, confirmed=confirmed, reason="the rack burned", request_key=str(uuid.uuid4())
        )
        Rebuild.objects.filter(pk__in=(self.reader.pk, self.branch.pk)).update(approval="")
        assert scheduler.start_what_can() == [self.reader.pk]
        assert scheduler.start_what_can() == [self.branch.pk]

    def see_source(self, **changes: Any) -> None:
        facts = rows.facts_of("backup-1", timezone.now())
        assert facts.host
        tools = {**facts.host.tools, "python3": replace(facts.host.tools["bash"], path="/usr/bin/python3")}
        see(self.source, replace(facts, host=replace(facts.host, tools=tools), **changes))

    def see_target(self, *, runs: bool = False, identity: str = MADE, at: datetime | None = None) -> None:
        """As the prober reads it after the end: stopped, with the directory that the failed rebuild made."""
        facts = rows.facts_of("replica-2", timezone.now())
        assert facts.datadir
        facts = replace(facts, observed_at=at or timezone.now(), datadir=replace(facts.datadir, identity=identity))
        if not runs:
            facts = replace(facts, server=None, server_problem=Problem("mysql.unreachable", "Connection refused"))
        see(self.target, facts)

    def copied(self, row: Rebuild) -> None:
        row.steps.filter(name="stream").update(state=StepState.DONE)

    def end(self, row: Rebuild, status: Status = Status.SUCCEEDED, **values: Any) -> Rebuild:
        Rebuild.objects.filter(pk=row.pk).update(**values)
        lease = lifecycle.take_lease(row.pk)
        assert lease is not None
        lifecycle.finish(lease, status, "for the test")
        return fresh(row)

    def drop(self, code: str = "shared.dropped", **values: Any) -> Rebuild:
        """The branch fails as its target is dropped, and both are read again."""
        memory = {"touched": True, "new_identity": MADE, "aside_path": "/var/lib/mysql.dbops-old-RUN"}
        given = {"ending": Status.FAILED, "error": {"code": code}, "memory": memory} | values
        self.end(self.branch, Status.FAILED, **given)
        self.see_target()
        self.see_source()
        return fresh(self.branch)

    def look(self, after: float = 0) -> Rebuild | None:
        return dropped.look_at(self.branch.pk, timezone.now() + timedelta(seconds=after))

    def told(self) -> str:
        return "\n".join(self.branch.events.order_by("pk").values_list("text", flat=True))


@pytest.fixture
def read(olga: User) -> Read:
    return Read(olga)


def test_it_is_planned_anew_and_queued_alone(read: Read, olga: User) -> None:
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    queued = fresh(queued)
    assert (queued.status, queued.method, queued.target, queued.source) == (
        "queued",
        "xbstream",
        read.target,
        read.source,
    )
    assert (queued.follows_id, queued.reads_with, queued.requested_by) == (read.branch.pk, None, olga)
    assert queued.uid != read.branch.uid
    assert queued.memory == {"half_copy": "/var/lib/mysql.dbops-old-RUN"}, "it is nothing to go on with"
    plan = from_record(Plan, queued.plan)
    assert (plan.target.datadir_identity, plan.target.is_answering) == (MADE, False)
    assert queued.plan_fingerprint == plan.fingerprint != read.branch.plan_fingerprint
    assert set(queued.steps.values_list("state", flat=True)) == {"pending"}


def test_who_did_it_and_for_whom_stands_in_both_histories_and_in_the_audit_log(read: Read, olga: User) -> None:
    read.copied(read.reader)
    read.drop()
    assert "replica-2 is rebuilt once more by itself, alone, if another one" in read.told()
    queued = read.look()
    assert queued is not None
    assert f"Rebuild {queued.pk} rebuilds replica-2 once more, alone." in read.told()
    [first] = queued.events.values_list("text", flat=True)
    assert first.startswith(
        "Requested by dbops itself, for olga: Once more, alone: a shared read went on without rebuild"
    )
    assert "the rack burned" in queued.reason
    entry = AuditEntry.objects.filter(action="rebuild.requested").order_by("sequence").last()
    assert entry is not None
    assert (entry.actor, entry.subject, entry.detail["requested_by"]) == ("dbops", "replica-2", "olga")
    assert (entry.detail["rebuild"], entry.detail["follows"], entry.detail["why"]) == (
        queued.pk,
        read.branch.pk,
        "shared.dropped",
    )


def test_it_runs_when_the_others_have_released_the_source(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    assert scheduler.start_what_can() == []
    assert fresh(queued).waiting_for == f"backup-1 is held by rebuild {read.reader.pk} as its source"
    read.end(read.reader)
    assert scheduler.start_what_can() == [queued.pk]
    assert set(Hold.objects.values_list("instance__name", "rebuild")) == {
        ("backup-1", queued.pk),
        ("replica-2", queued.pk),
    }


def test_the_two_pages_link_to_each_other(read: Read, operator: Client) -> None:
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    old, new = (operator.get(f"/rebuilds/{pk}/").content.decode() for pk in (read.branch.pk, queued.pk))
    assert f'Followed by <a href="/rebuilds/{queued.pk}/">' in old
    assert "which rebuilds it once more, alone:" in old
    assert f'It follows <a href="/rebuilds/{read.branch.pk}/">' in new


@pytest.mark.parametrize("code", sorted(OF_THE_WAY))
def test_whatever_broke_on_the_way_is_done_again(read: Read, code: str) -> None:
    read.copied(read.reader)
    read.drop(code)
    assert read.look() is not None


@pytest.mark.parametrize(
    "code",
    [
        *("plan.changed", "host.refused", "stream.disk_full", "stream.killed", "stream.failed", "stream.garbage"),
        *(
            "host.vanished",
            "host.stalled",
            "shared.no_read",
            "backup.redo_overrun",
            "transport.host_key",
            "bug",
            "prepare.failed",
        ),
    ],
)
def test_what_a_person_has_to_look_at_is_not(read: Read, code: str) -> None:
    read.copied(read.reader)
    assert read.drop(code).retry_due_at is None
    assert lifecycle.retries_due(timezone.now()) == []
    assert "by itself" not in read.told()


@pytest.mark.parametrize(
    ("status", "values"),
    [
        (Status.CANCELLED, {"ending": Status.CANCELLED}),
        (Status.FAILED, {"cancel_requested_at": timezone.now(), "cancel_requested_by": "olga"}),
    ],
)
def test_what_a_person_has_cancelled_stays_so(read: Read, status: Status, values: dict[str, Any]) -> None:
    """Also where the failure came before the cancel that was asked for."""
    read.copied(read.reader)
    given = {"ending": status, "error": {"code": "shared.dropped"}, **values}
    assert read.end(read.branch, status, **given).retry_due_at is None


def test_the_one_who_reads_and_one_that_read_alone_are_not(read: Read, olga: User) -> None:
    ended = read.end(read.reader, Status.FAILED, ending=Status.FAILED, error={"code": "transport.lost"})
    assert ended.retry_due_at is None


def test_nothing_is_done_by_itself_a_second_time(read: Read, olga: User) -> None:
    """Also where a person lets the second one share a read again."""
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    read.end(read.reader)
    plan = plan_rebuild(target=read.fleet["replica-1"], source=read.source)
    other = request_rebuild(
        actor=olga,
        target=read.fleet["replica-1"],
        source=read.source,
        typed_name="replica-1",
        reason="once more",
        fingerprint=plan.fingerprint,
        request_key=str(uuid.uuid4()),
    )
    joining.join_read(actor=olga, rebuild=queued, reader=other)
    assert scheduler.start_what_can() == [other.pk]
    assert scheduler.start_what_can() == [queued.pk]
    ended = read.end(queued, Status.FAILED, ending=Status.FAILED, error={"code": "shared.dropped"})
    assert ended.reads_with_id == other.pk
    assert ended.retry_due_at is None


def test_a_message_that_comes_twice_does_nothing_more(read: Read) -> None:
    read.copied(read.reader)
    read.drop()
    queued = read.look()
    assert queued is not None
    assert read.look(after=60) is None
    lifecycle.end_queued(queued, Status.CANCELLED, "Cancelled.")
    assert read.look(after=120) is None, "a person did not want it"
    assert Rebuild.objects.count() == 3


def test_of_two_that_look_at_once_one_does_it(read: Read) -> None:
    """The second has read that it is due, and one that is slow has claimed it before the first was done."""
    read.copied(read.reader)
    read.drop()
    now = timezone.now()
    slow = lifecycle.claim_retry(read.branch.pk, now)
    assert slow is not None
    assert lifecycle.claim_retry(read.branch.pk, now) is None
    assert read.look(after=lifecycle.dropped.LOOK_SECONDS + 1) is not None
    assert dropped._queue(slow) is None
    dropped._give_up(slow, "")
    assert Rebuild.objects.filter(follows=read.branch).count() == 1
    assert "is not rebuilt again" not in read.told()


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
    Instance.objects.filter(name="replica-2").update(role="primary")
    for after in (0, 11):
        assert read.look(after=after) is None
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
    dropped.rebuild_dropped()
    assert Rebuild.objects.count() == 2
    read.copied(read.reader)
    read.drop()
    dropped.rebuild_dropped()
    assert Rebuild.objects.filter(follows=read.branch).count() == 1


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
    memory = {"touched": True, "new_identity": MADE} if is_touched else {}
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
