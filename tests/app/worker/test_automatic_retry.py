"""A branch that a shared read went on without is rebuilt once more by itself, alone: when, when not, exactly once, and what is told."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dbops import lifecycle
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.automatic_retry import OF_THE_WAY
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Status
from dbops.models import AuditEntry, Hold, Rebuild
from dbops.operations import shared_reads
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.worker import automatic_retry, scheduler
from tests.app.shared_reads import MADE, TOUCHED, Read, fresh

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


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
    known = {"half_copy": TOUCHED["aside_path"], "half_copy_tree": TOUCHED["left_tree"]}
    assert queued.memory == known, "it is nothing to go on with"
    plan = from_record(Plan, queued.plan)
    assert (plan.target.datadir_identity, plan.target.is_answering) == (MADE, False)
    assert queued.plan_fingerprint == plan.fingerprint != read.branch.plan_fingerprint
    assert set(queued.steps.values_list("state", flat=True)) == {"pending"}


def test_whose_copy_was_whole_is_not_rebuilt_by_itself(read: Read) -> None:
    read.copied(read.reader)
    read.copied(read.branch)
    ended = read.drop("transport.lost")
    assert (ended.status, ended.retry_due_at) == ("failed", None)
    assert "rebuilt once more" not in read.told()
    assert read.look() is None


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


def test_the_one_who_reads_is_as_well_where_its_target_was_dropped(read: Read) -> None:
    """Its backup went on for the others; it ends when they have theirs."""
    read.copied(read.branch)
    read.end(read.branch)
    read.end(read.reader, Status.FAILED, ending=Status.FAILED, error={"code": "shared.dropped"}, memory=TOUCHED)
    read.see_target("replica-1")
    read.see_source()
    queued = automatic_retry.look_at(read.reader.pk, timezone.now())
    assert queued is not None
    assert (queued.follows_id, queued.target.name, queued.reads_with) == (read.reader.pk, "replica-1", None)


def test_one_that_read_alone_is_not(read: Read) -> None:
    Rebuild.objects.filter(pk=read.branch.pk).update(started_at=None)
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
    shared_reads.join_read(actor=olga, rebuild=queued, reader=other)
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
    assert read.look(after=lifecycle.automatic_retries.LOOK_SECONDS + 1) is not None
    assert automatic_retry._queue(slow) is None
    automatic_retry._give_up(slow, "")
    assert Rebuild.objects.filter(follows=read.branch).count() == 1
    assert "is not rebuilt again" not in read.told()
