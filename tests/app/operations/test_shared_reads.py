"""Shared reads over real rows: joining, starting together, and the lock on the source."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import Tool
from dbops.engine.rebuilds.shared_read import BEGUN, FOLLOWERS, SharedReadMember, SharedReadPhase
from dbops.engine.states import Status, StepState
from dbops.lifecycle import rebuild_driver, rebuild_requests, starts
from dbops.lifecycle import shared_reads as lifecycle_shared_reads
from dbops.loaders.shared_reads import RowSharedReadMembers
from dbops.models import AuditEntry, Hold, Instance, Rebuild
from dbops.operations import shared_reads
from dbops.worker import scheduler
from tests.app.factories import (
    make_facts,
    make_host,
    make_host_facts,
    make_instance,
    make_plan,
    make_rebuild,
    make_trio,
    set_facts,
)
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce_many", lambda *_: None)


class Line:
    """A source with python3, and three replicas of one cluster."""

    def __init__(self) -> None:
        primary, self.source, first = make_trio()
        self.primary = primary
        host = make_host_facts()
        set_facts(
            self.source, make_facts(host=replace(host, tools={**host.tools, "python3": Tool("/usr/bin/python3")}))
        )
        others = [
            make_instance(f"replica-{number}", cluster=first.cluster, host=make_host(f"db-2{number}"), role="replica")
            for number in (2, 3)
        ]
        self.targets: list[Instance] = [first, *others]

    def ask(self, number: int, status: Status = Status.QUEUED, **values: Any) -> Rebuild:
        target = self.targets[number]
        programs = {"source.backup": "/usr/bin/mariadb-backup"}
        given = {"programs": programs, **values.pop("plan", {})}
        plan = make_plan(target=target, source=self.source, primary=self.primary, **given)
        return make_rebuild(target=target, source=self.source, status=status, plan=plan, **values)


@pytest.fixture
def line(olga: User) -> Line:
    return Line()


def fresh(row: Rebuild) -> Rebuild:
    return Rebuild.objects.get(pk=row.pk)


def step(row: Rebuild, name: str, state: StepState) -> None:
    row.steps.filter(name=name).update(state=state)


def finish(row: Rebuild, status: Status = Status.SUCCEEDED) -> None:
    lease = rebuild_driver.take_lease(row.pk)
    assert lease is not None
    rebuild_driver.finish(lease, status, "done")


def test_follower_starts_with_its_leader_and_locks_only_its_target(line: Line, olga: User) -> None:
    leader, follower = line.ask(0), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    assert scheduler.start_what_can() == [leader.pk]
    assert names(fresh(follower).waiting_for, f"rebuild {leader.pk}")
    assert scheduler.start_what_can() == [follower.pk]
    holds = set(Hold.objects.values_list("instance__name", "rebuild", "purpose"))
    assert holds == {
        (line.source.name, leader.pk, "source"),
        (line.targets[0].name, leader.pk, "target"),
        (line.targets[1].name, follower.pk, "target"),
    }
    entry = AuditEntry.objects.get(action="rebuild.joined")
    assert (entry.subject, entry.detail["rebuild"], entry.detail["leader"]) == ("replica-2", follower.pk, leader.pk)


def test_third_rebuild_waits_for_the_whole_group(line: Line, olga: User) -> None:
    leader, follower, other = line.ask(0), line.ask(1), line.ask(2)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    scheduler.start_what_can()
    scheduler.start_what_can()
    finish(leader)
    assert scheduler.start_what_can() == []
    assert Hold.objects.get(instance=line.source).rebuild_id == follower.pk, "it rolls forward from the source"
    finish(follower)
    assert not Hold.objects.filter(instance=line.source).exists()
    assert scheduler.start_what_can() == [other.pk]


def test_source_lock_is_never_passed_to_an_ended_or_queued_follower(line: Line, olga: User) -> None:
    leader, follower, queued = line.ask(0), line.ask(1), line.ask(2)
    for row in (follower, queued):
        shared_reads.join_read(actor=olga, rebuild=row, leader=leader)
    scheduler.start_what_can()
    Rebuild.objects.filter(pk=queued.pk).update(not_before=None)
    starts.start(fresh(follower))
    finish(follower, Status.FAILED)
    assert Hold.objects.get(instance=line.source).rebuild_id == leader.pk
    finish(leader)
    assert not Hold.objects.exists()


def test_late_follower_waits_for_the_source_alone(line: Line, olga: User) -> None:
    leader, follower = line.ask(0), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    scheduler.start_what_can()
    Rebuild.objects.filter(pk=leader.pk).update(checkpoint={FOLLOWERS: {}})
    scheduler.queued_jobs(timezone.now())
    assert fresh(follower).leader == leader, "reading the queue releases no follower"
    assert scheduler.start_what_can() == []
    left = fresh(follower)
    assert left.leader is None
    assert names(left.waiting_for, "backup-1", f"rebuild {leader.pk}")
    told = [event.text for event in left.events.all() if left.waiting_for not in event.text]
    assert sum(names(text, f"Rebuild {leader.pk}") for text in told) == 1, told


def test_next_follower_leads_when_the_leader_is_cancelled(line: Line, olga: User) -> None:
    leader, follower, third = line.ask(0), line.ask(1), line.ask(2)
    for row in (follower, third):
        shared_reads.join_read(actor=olga, rebuild=row, leader=leader)
    rebuild_requests.end_queued(leader, Status.CANCELLED, "Cancelled.")
    assert (fresh(follower).leader, fresh(third).leader_id) == (None, follower.pk)
    assert scheduler.start_what_can() == [follower.pk]
    assert scheduler.start_what_can() == [third.pk]


def test_follower_keeps_its_start_time_when_the_leader_is_cancelled(line: Line, olga: User) -> None:
    """Its target would be wiped at noon instead of at night."""
    night = timezone.now() + timedelta(hours=8)
    leader, follower = line.ask(0, not_before=night), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    rebuild_requests.end_queued(leader, Status.CANCELLED, "Cancelled.")
    assert fresh(follower).not_before == night
    assert scheduler.start_what_can() == []
    assert f"{night:%Y-%m-%d %H:%M}" in fresh(follower).waiting_for


def test_follower_gets_its_start_time_back_when_it_leaves(line: Line, olga: User) -> None:
    night = timezone.now() + timedelta(hours=8)
    leader, follower = line.ask(0), line.ask(1, not_before=night)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    assert scheduler.start_what_can() == [leader.pk]
    assert scheduler.start_what_can() == [follower.pk]
    later = line.ask(2, not_before=night)
    shared_reads.join_read(actor=olga, rebuild=later, leader=leader)
    shared_reads.leave_read(actor=olga, rebuild=fresh(later))
    assert fresh(later).not_before == night


def test_late_follower_respects_its_own_start_time(line: Line, olga: User) -> None:
    """Its own start conditions did not count while it followed a leader; they do once it waits on its own."""
    leader, follower = line.ask(0), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    scheduler.start_what_can()
    tonight = timezone.now() + timedelta(hours=9)
    Rebuild.objects.filter(pk=follower.pk).update(not_before=tonight)
    finish(leader, Status.FAILED)
    assert scheduler.start_what_can() == []
    assert fresh(follower).leader is None
    assert f"{tonight:%Y-%m-%d %H:%M}" in fresh(follower).waiting_for


def test_follower_does_not_start_while_its_leader_ends(line: Line, olga: User) -> None:
    leader, follower = line.ask(0), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    scheduler.start_what_can()
    row = fresh(follower)
    finish(leader, Status.FAILED)
    assert names(starts.start(row), f"rebuild {leader.pk}")
    assert not Hold.objects.filter(rebuild=follower).exists()
    assert scheduler.start_what_can() == [follower.pk], "on its own, with both holds"
    assert Hold.objects.filter(rebuild=follower).count() == 2


def test_start_refuses_a_row_read_before_it_joined(line: Line, olga: User) -> None:
    leader, follower = line.ask(0), line.ask(1)
    before = fresh(follower)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    assert starts.start(before), "a reason why not"
    assert not Hold.objects.exists()


def test_join_read_refuses_the_rebuild_itself(line: Line, olga: User) -> None:
    alone = line.ask(0)
    with pytest.raises(Refused):
        shared_reads.join_read(actor=olga, rebuild=alone, leader=alone)
    assert fresh(alone).leader is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "archive"}, "stream from a running server"),
        ({"uses_gtid": False}, "without GTID"),
        ({"parallel": 7}, "with different options"),
    ],
)
def test_join_read_gives_the_reason_when_refused(line: Line, olga: User, changes: dict[str, Any], why: str) -> None:
    leader, other = line.ask(0), line.ask(1, plan=changes)
    with pytest.raises(Refused) as refused:
        shared_reads.join_read(actor=olga, rebuild=other, leader=leader)
    assert refused.value.code == "join.not_possible"
    assert why in str(refused.value)
    assert fresh(other).leader is None


def test_join_read_is_refused_for_a_source_without_python(line: Line, olga: User) -> None:
    set_facts(line.source, make_facts())
    leader, other = line.ask(0), line.ask(1)
    with pytest.raises(Refused, match="backup-1.*python3"):
        shared_reads.join_read(actor=olga, rebuild=other, leader=leader)


def test_join_read_refuses_followers_of_followers(line: Line, olga: User) -> None:
    first, second, third = line.ask(0), line.ask(1), line.ask(2)
    shared_reads.join_read(actor=olga, rebuild=second, leader=first)
    for rebuild, leader in ((third, second), (first, third), (second, third), (first, first)):
        with pytest.raises(Refused) as refused:
            shared_reads.join_read(actor=olga, rebuild=fresh(rebuild), leader=fresh(leader))
        assert refused.value.code == "join.not_possible"
    assert [fresh(row).leader_id for row in (first, second, third)] == [None, first.pk, None]


def test_join_read_is_possible_until_the_leader_has_settled(line: Line, olga: User) -> None:
    leader = line.ask(0, Status.RUNNING)
    shared_reads.join_read(actor=olga, rebuild=line.ask(1), leader=leader)
    Rebuild.objects.filter(pk=leader.pk).update(checkpoint={FOLLOWERS: {}})
    late = line.ask(2)
    with pytest.raises(Refused):
        shared_reads.join_read(actor=olga, rebuild=late, leader=leader)
    assert fresh(late).leader is None


def test_join_read_refuses_a_viewer(line: Line, victor: User) -> None:
    first, second = line.ask(0), line.ask(1)
    for refuse in (
        lambda: shared_reads.join_read(actor=victor, rebuild=second, leader=first),
        lambda: shared_reads.leave_read(actor=victor, rebuild=second),
    ):
        with pytest.raises(Refused) as refused:
            refuse()
        assert refused.value.code == "access.denied"


def test_leave_read_returns_the_rebuild_to_the_queue(line: Line, olga: User) -> None:
    leader, follower = line.ask(0), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    shared_reads.leave_read(actor=olga, rebuild=fresh(follower))
    assert fresh(follower).leader is None
    with pytest.raises(Refused) as refused:
        shared_reads.leave_read(actor=olga, rebuild=fresh(follower))
    assert refused.value.code == "join.not_joined"


def test_leave_ignores_a_row_that_joined_another_leader(line: Line, olga: User) -> None:
    first, second, follower = line.ask(0), line.ask(1), line.ask(2)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=first)
    seen_then = fresh(follower)
    shared_reads.leave_read(actor=olga, rebuild=fresh(follower))
    shared_reads.join_read(actor=olga, rebuild=fresh(follower), leader=second)
    assert not lifecycle_shared_reads.leave(seen_then, "test")
    assert fresh(follower).leader == second


def test_members_are_read_again_at_each_call(line: Line, olga: User) -> None:
    leader, follower = line.ask(0, Status.RUNNING), line.ask(1)
    shared_reads.join_read(actor=olga, rebuild=follower, leader=leader)
    asked = RowSharedReadMembers(leader)

    def seen() -> SharedReadMember:
        found = RowSharedReadMembers(fresh(follower)).leader()
        assert found is not None
        return found

    assert [one.phase for one in asked.followers()] == [SharedReadPhase.QUEUED]
    starts.start(fresh(follower))
    assert [one.phase for one in asked.followers()] == [SharedReadPhase.COMING]
    step(follower, "stream", StepState.RUNNING)
    assert [one.phase for one in asked.followers()] == [SharedReadPhase.READY]
    assert (seen().phase, seen().followers) == (SharedReadPhase.COMING, None)
    step(leader, "swap-datadir", StepState.DONE)
    assert seen().phase is SharedReadPhase.READY
    settled = {FOLLOWERS: {fresh(follower).uid: "replica-2"}, BEGUN: True}
    Rebuild.objects.filter(pk=leader.pk).update(checkpoint=settled)
    assert (seen().phase, seen().followers) == (SharedReadPhase.READING, (fresh(follower).uid,))
    Rebuild.objects.filter(pk=leader.pk).update(pending_status="cancelled")
    assert seen().phase is SharedReadPhase.READING, "the backup is still sent to the others"
    step(leader, "stream", StepState.DONE)
    assert seen().phase is SharedReadPhase.GONE


def shared(page: str) -> list[tuple[int, bool]]:
    """Return the rebuilds of one read that a page names, in their order, and which of them is the page's own."""
    [part] = re.findall(r'id="shared-read">(.*?)</p>', page, re.DOTALL)
    found = re.findall(r'data-shares="(\d+)"( data-self)?', part)
    return [(int(number), bool(own)) for number, own in found]


def test_join_page_joins_and_leaves(line: Line, operator: Client) -> None:
    leader, follower = line.ask(0), line.ask(1)
    page = operator.get(f"/rebuilds/{follower.pk}/group/").content.decode()
    assert re.search(rf'name="leader"\s+value="{leader.pk}"', page)
    answer = operator.post(f"/rebuilds/{follower.pk}/group/", {"leader": str(leader.pk)})
    assert (answer.status_code, fresh(follower).leader_id) == (302, leader.pk)
    shown = operator.get(f"/rebuilds/{leader.pk}/").content.decode()
    assert shared(shown) == [(leader.pk, True), (follower.pk, False)]
    assert f"rebuild {follower.pk}</a> of replica-2 (queued)" in shown
    page = operator.get(f"/rebuilds/{leader.pk}/group/").content.decode()
    assert ('name="leader"' in page, 'name="leave"' in page) == (False, False), "a leader with followers cannot join"
    answer = operator.post(f"/rebuilds/{follower.pk}/group/", {"leave": "1"})
    assert (answer.status_code, fresh(follower).leader_id) == (302, None)
    answer = operator.post(f"/rebuilds/{follower.pk}/group/", {"leave": "1"})
    assert answer.status_code == 409
    for asked in ("", "nonsense", "999999999999", "99"):
        assert operator.post(f"/rebuilds/{follower.pk}/group/", {"leader": asked}).status_code == 404


def test_join_page_of_a_lone_rebuild_offers_nothing(line: Line, operator: Client, viewer: Client) -> None:
    alone = line.ask(0)
    page = operator.get(f"/rebuilds/{alone.pk}/group/").content.decode()
    assert ("data-no-partner" in page, 'name="leader"' in page) == (True, False)
    assert viewer.get(f"/rebuilds/{alone.pk}/group/").status_code == 403
