"""Schedules, maintenance and tokens: who may, what is refused, what is written."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.engine.states import RunStatus, Status
from dbops.models import AccessToken, AuditEntry, BackupSchedule, Instance, Maintenance
from dbops.operations.maintenance import begin_maintenance, end_maintenance
from dbops.operations.schedules import remove_schedule, save_schedule, set_enabled
from dbops.operations.tokens import digest_of, make_token, revoke_token, token_of
from tests.app.factories import make_rebuild, make_run, make_schedule, make_trio

pytestmark = pytest.mark.django_db


@pytest.fixture
def backup() -> Instance:
    return make_trio()[1]


def values(instance: Instance, **changes: object) -> dict[str, object]:
    given = {
        "name": "nightly",
        "instance": instance,
        "method": "physical",
        "run_by": "dbops",
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
        "directory": "/backup/shop",
        "keep_count": 7,
        "keep_days": None,
        "expected_seconds": 3 * 3600,
        "late_after_seconds": 900,
        "is_enabled": True,
    }
    return given | changes


def code_of(call: object, **arguments: object) -> str:
    with pytest.raises(Refused) as caught:
        call(**arguments)
    return caught.value.code


def test_save_schedule_sets_the_next_due_time(olga: User, backup: Instance) -> None:
    row = save_schedule(actor=olga, schedule=None, values=values(backup))
    assert row.next_due_at > timezone.now()
    assert row.next_due_at.astimezone(UTC).minute == 30
    assert row.next_due_at - timezone.now() <= timedelta(hours=25)
    entry = AuditEntry.objects.get(action="schedule.created")
    assert (entry.actor, entry.subject, entry.detail["cron"]) == ("olga", "nightly", "30 2 * * *")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cron": "61 2 * * *"}, "61 2 * * *"),
        ({"cron": "0 0 30 2 *"}, "Bad day-of-month"),
        ({"time_zone": "Europe/Bärlin"}, "Europe/Bärlin"),
        ({"directory": ""}, "directory"),
        ({"directory": "/var/lib/mysql/backup"}, "/var/lib/mysql"),
        ({"directory": "/etc"}, "/etc"),
        ({"directory": "/backup/../etc"}, "write the path as"),
        ({"keep_count": 0}, "from 1 to"),
        ({"method": "tape"}, "tape"),
        ({"name": "a b"}, "letters"),
    ],
)
def test_save_schedule_refuses_invalid_values(olga: User, backup: Instance, changes: dict, expected: str) -> None:
    with pytest.raises(Refused) as caught:
        save_schedule(actor=olga, schedule=None, values=values(backup, **changes))
    assert caught.value.code == "schedule.invalid"
    assert expected in caught.value.cause
    assert not BackupSchedule.objects.exists()


def test_save_schedule_resets_next_due_only_for_a_new_time(olga: User, backup: Instance) -> None:
    row = save_schedule(actor=olga, schedule=None, values=values(backup))
    passed = datetime(2026, 1, 1, tzinfo=UTC)
    BackupSchedule.objects.update(next_due_at=passed)
    row = save_schedule(actor=olga, schedule=row, values={"keep_count": 3})
    assert BackupSchedule.objects.get().next_due_at == passed, "a due time without a run must not be lost"
    save_schedule(actor=olga, schedule=row, values={"cron": "0 4 * * *"})
    assert BackupSchedule.objects.get().next_due_at > timezone.now()


def test_save_schedule_takes_no_limit_by_number(olga: User, backup: Instance) -> None:
    save_schedule(actor=olga, schedule=None, values=values(backup, keep_count=None))
    assert BackupSchedule.objects.get().keep_count is None


def test_disabled_schedule_is_never_due_until_enabled(olga: User, backup: Instance) -> None:
    row = save_schedule(actor=olga, schedule=None, values=values(backup))
    set_enabled(actor=olga, schedule=row, is_enabled=False)
    assert BackupSchedule.objects.get().next_due_at is None
    set_enabled(actor=olga, schedule=row, is_enabled=False)
    set_enabled(actor=olga, schedule=row, is_enabled=True)
    assert BackupSchedule.objects.get().next_due_at > timezone.now()
    assert AuditEntry.objects.filter(action="schedule.changed").count() == 2


def test_save_schedule_keeps_instance_and_name(olga: User, backup: Instance) -> None:
    row = save_schedule(actor=olga, schedule=None, values=values(backup))
    for changes in ({"name": "other"}, {"instance": backup.cluster.instances.get(name="replica-1")}):
        assert code_of(save_schedule, actor=olga, schedule=row, values=changes) == "schedule.invalid"


def test_save_schedule_refuses_a_taken_name(olga: User, backup: Instance) -> None:
    make_schedule(backup, "nightly")
    assert code_of(save_schedule, actor=olga, schedule=None, values=values(backup)) == "schedule.invalid"


def test_delete_schedule_is_refused_while_in_use(olga: User, backup: Instance) -> None:
    row = make_schedule(backup)
    run = make_run(backup, schedule=row, started_at=timezone.now())
    assert code_of(remove_schedule, actor=olga, schedule=row) == "schedule.busy"
    type(run).objects.update(status=RunStatus.SUCCEEDED)
    replica = backup.cluster.instances.get(name="replica-1")
    rebuild = make_rebuild(target=replica, source=backup, requeue_schedule=row)
    assert code_of(remove_schedule, actor=olga, schedule=row) == "schedule.busy"
    type(rebuild).objects.update(status=Status.SUCCEEDED)
    remove_schedule(actor=olga, schedule=row)
    run.refresh_from_db()
    assert run.schedule is None, "the history stays"
    assert (
        code_of(remove_schedule, actor=olga, schedule=BackupSchedule(pk=row.pk or 1, instance=backup))
        == "schedule.gone"
    )


def test_schedule_operations_refuse_viewers(victor: User, olga: User, backup: Instance) -> None:
    row = make_schedule(backup)
    now = timezone.now()
    calls = [
        (save_schedule, {"schedule": None, "values": values(backup)}),
        (set_enabled, {"schedule": row, "is_enabled": False}),
        (remove_schedule, {"schedule": row}),
        (begin_maintenance, {"cluster": backup.cluster, "starts_at": now, "ends_at": None, "reason": "disks"}),
    ]
    assert {code_of(call, actor=victor, **arguments) for call, arguments in calls} == {"access.denied"}


def test_maintenance_begins_and_is_ended(olga: User, backup: Instance) -> None:
    now = timezone.now()
    row = begin_maintenance(actor=olga, cluster=backup.cluster, starts_at=now, ends_at=None, reason=" new disks ")
    assert row.reason == "new disks"
    end_maintenance(actor=olga, maintenance=row)
    assert Maintenance.objects.get().ends_at is not None
    assert code_of(end_maintenance, actor=olga, maintenance=row) == "maintenance.ended"
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["maintenance.announced", "maintenance.ended"]


def test_maintenance_is_withdrawn_before_it_begins(olga: User, backup: Instance) -> None:
    later = timezone.now() + timedelta(hours=3)
    row = begin_maintenance(
        actor=olga, cluster=backup.cluster, starts_at=later, ends_at=later + timedelta(hours=1), reason="new disks"
    )
    end_maintenance(actor=olga, maintenance=row)
    assert not Maintenance.objects.exists()


@pytest.mark.parametrize(
    ("start", "end", "reason"), [(-60, None, "disks"), (60, 60, "disks"), (60, 30, "disks"), (0, 60, "  ")]
)
def test_maintenance_refuses_bad_times(olga: User, backup: Instance, start: int, end: int | None, reason: str) -> None:
    now = timezone.now()
    times = {
        "starts_at": now + timedelta(minutes=start),
        "ends_at": None if end is None else now + timedelta(minutes=end),
    }
    code = code_of(begin_maintenance, actor=olga, cluster=backup.cluster, reason=reason, **times)
    assert code == "maintenance.invalid"


def test_token_is_stored_as_digest() -> None:
    row, secret = make_token(actor="olga", name="office-calendar", purpose="calendar", cluster=None)
    stored = AccessToken.objects.values().get()
    assert secret not in str(stored)
    assert stored["digest"] == digest_of(secret)
    assert secret not in str(list(AuditEntry.objects.values_list("detail", flat=True)))
    assert token_of(secret, "calendar") == row
    assert code_of(token_of, secret=secret, purpose="report") == "token.unknown"
    assert code_of(token_of, secret=secret + "x", purpose="calendar") == "token.unknown"


def test_revoked_token_is_refused_and_keeps_its_name() -> None:
    _, secret = make_token(actor="olga", name="office-calendar", purpose="calendar", cluster=None)
    revoke_token(actor="olga", name="office-calendar")
    revoke_token(actor="olga", name="office-calendar")
    assert code_of(token_of, secret=secret, purpose="calendar") == "token.unknown"
    assert AuditEntry.objects.filter(action="token.revoked").count() == 1
    again = {"actor": "olga", "name": "office-calendar", "purpose": "calendar", "cluster": None}
    assert code_of(make_token, **again) == "token.invalid"
    assert code_of(revoke_token, actor="olga", name="missing") == "token.not_found"


def test_token_use_is_stored_once_an_hour() -> None:
    _, secret = make_token(actor="olga", name="office-calendar", purpose="calendar", cluster=None)
    token_of(secret, "calendar")
    first = AccessToken.objects.get().last_used_at
    assert first is not None
    token_of(secret, "calendar")
    assert AccessToken.objects.get().last_used_at == first
    AccessToken.objects.update(last_used_at=first - timedelta(minutes=61))
    token_of(secret, "calendar")
    assert AccessToken.objects.get().last_used_at >= first
