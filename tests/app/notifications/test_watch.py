"""Looking for events: each state and each happening is one event, and one delivery for each rule, however often dbops looks."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dbops.database import clock
from dbops.engine.capacity.limits import CapacityLimit, LimitKind, LimitState
from dbops.engine.capacity.trend import Trend, TrendState
from dbops.engine.facts.instance import to_record
from dbops.engine.notifications.events import EVENTS
from dbops.engine.states import Approval, RunStatus, Status
from dbops.lifecycle import notification_events
from dbops.models import (
    BackupRun,
    CapacityForecast,
    Instance,
    NotificationDelivery,
    NotificationEvent,
    NotificationWatch,
    ProcessHeartbeat,
    Rebuild,
)
from dbops.queries.notifications.occurrences import news, states_now
from dbops.worker.notification_watch import watch
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_facts, make_rebuild, make_trio, make_unreachable, set_facts
from tests.app.restore_test_rows import ended_restore_test, made

from . import rows
from .conftest import Clock
from .test_certificates import authority

pytestmark = pytest.mark.django_db
Trio = tuple[Instance, Instance, Instance]
HOOK = "https://127.0.0.1:9/in"


@pytest.fixture
def trio(moment: Clock) -> Trio:
    alive()
    return make_trio()


def alive() -> None:
    for name in ("worker", "beat"):
        ProcessHeartbeat.objects.update_or_create(name=name, defaults={"at": clock.now()})


def kinds() -> set[str]:
    return {
        one.kind
        for one in states_now(clock.now(), limit_within=timedelta(days=30), certificate_within=timedelta(days=14))
    }


def ended(trio: Trio, status: Status, **values: Any) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], status=status, **values)


def missed(trio: Trio) -> BackupRun:
    return make_run(make_schedule(trio[1]), RunStatus.MISSED, started_at=None, finished_at=clock.now())


def deliveries() -> list[tuple[str, str, str]]:
    found = NotificationDelivery.objects.order_by("pk").values_list("rule__name", "event__kind", "state")
    return [(name, kind, state) for name, kind, state in found]


def test_well_fleet_has_no_event(trio: Trio) -> None:
    assert kinds() == set()


def away(trio: Trio) -> None:
    set_facts(trio[2], make_unreachable())


def all_away(trio: Trio) -> None:
    away(trio)
    set_facts(trio[1], make_unreachable())


def near_limit(trio: Trio) -> None:
    soon = clock.now() + timedelta(days=20)
    limit = CapacityLimit(
        LimitKind.DISK, "replica-1", 1, 2, "disk", Trend(TrendState.GROWING, 1), LimitState.AHEAD, first=soon
    )
    CapacityForecast.objects.create(
        cluster=trio[0].cluster, computed_at=clock.now(), due_at=clock.now(), first_at=soon, soonest=to_record(limit)
    )


def old_authority(trio: Trio) -> None:
    now = clock.now()
    trio[0].cluster.tls_ca = authority(now - timedelta(days=99), now + timedelta(days=13))
    trio[0].cluster.save()


def restored(trio: Trio, status: RunStatus, days: int) -> None:
    at = clock.now() - timedelta(days=days)
    ended_restore_test(made(make_schedule(trio[1])), status, finished_at=at)


def left_stopped(trio: Trio) -> None:
    ended(trio, Status.FAILED, checkpoint={"source_differs": "backup-1 does not replicate"})
    set_facts(trio[1], make_facts(server_id=2, replication=()))


CASES: dict[str, tuple[set[str], Any]] = {
    "needs approval": (
        {"rebuild.needs_approval"},
        lambda trio: ended(trio, Status.QUEUED, approval=Approval.WAITING),
    ),
    "waits": ({"rebuild.waiting", "cluster.blocked"}, lambda trio: ended(trio, Status.QUEUED)),
    "starts later": (set(), lambda trio: ended(trio, Status.QUEUED, not_before=clock.now() + timedelta(hours=1))),
    "lost": ({"rebuild.lost", "cluster.short"}, lambda trio: ended(trio, Status.LOST)),
    "one away": ({"cluster.short"}, away),
    "all away": ({"cluster.short", "cluster.unprotected", "cluster.blocked"}, all_away),
    "missed": ({"backup.missed", "restore_test.old"}, missed),
    "failed": (
        {"backup.failed", "restore_test.old"},
        lambda trio: make_run(make_schedule(trio[1]), RunStatus.FAILED, finished_at=clock.now()),
    ),
    "small": (
        {"backup.small", "restore_test.old"},
        lambda trio: make_run(make_schedule(trio[1]), RunStatus.SUCCEEDED, finished_at=clock.now(), flags=["small"]),
    ),
    "disabled": (
        set(),
        lambda trio: make_run(make_schedule(trio[1], is_enabled=False), RunStatus.FAILED, finished_at=clock.now()),
    ),
    "tested": (set(), lambda trio: restored(trio, RunStatus.SUCCEEDED, 1)),
    "test failed": ({"restore_test.failed"}, lambda trio: restored(trio, RunStatus.FAILED, 1)),
    "test old": ({"restore_test.old"}, lambda trio: restored(trio, RunStatus.SUCCEEDED, 90)),
    "limit": ({"capacity.limit"}, near_limit),
    "certificate": ({"certificate.ending"}, old_authority),
    "source left": ({"source.stopped", "cluster.short", "cluster.blocked"}, left_stopped),
    "no beat": (
        {"dashboard.process_silent"},
        lambda trio: ProcessHeartbeat.objects.filter(name="beat").update(at=clock.now() - timedelta(seconds=61)),
    ),
    "late tick": (
        {"dashboard.ticks_late"},
        lambda trio: ended(trio, Status.SUCCEEDED, next_tick_at=clock.now() - timedelta(seconds=121)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_state_is_derived_from_the_rows(trio: Trio, name: str) -> None:
    wanted, prepare = CASES[name]
    prepare(trio)
    assert kinds() == wanted


def test_every_state_of_the_table_has_a_case() -> None:
    covered = set().union(*(wanted for wanted, _ in CASES.values()))
    assert covered == {name for name, kind in EVENTS.items() if kind.is_state}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(Status.SUCCEEDED, "rebuild.done"), (Status.FAILED, "rebuild.failed"), (Status.EXPIRED, "rebuild.failed")],
)
def test_end_of_a_rebuild_is_news_of_the_last_day(trio: Trio, moment: Clock, status: Status, kind: str) -> None:
    ended(trio, status, error={"code": "stream.truncated", "cause": "s3cret text of a host"})
    since = moment.now - timedelta(days=3)
    [found] = [one for one in news(moment.now, since) if one.kind.startswith("rebuild.")]
    assert (found.kind, found.cluster, found.subject) == (kind, "shop", "replica-1")
    assert "s3cret" not in found.detail
    assert [one for one in news(moment.now, moment.now + timedelta(seconds=1)) if one.cluster] == []
    assert [one for one in news(moment.now + timedelta(hours=25), since) if one.cluster] == []


def test_late_probes_are_no_loss_of_replicas(trio: Trio, moment: Clock) -> None:
    moment.now += timedelta(minutes=5)
    alive()
    assert kinds() == {"cluster.blocked"}


def test_state_is_reported_once_and_resolved_once(trio: Trio, moment: Clock) -> None:
    rows.channel(HOOK)
    rows.rule()
    run = missed(trio)
    for _ in range(3):
        assert watch()
    assert deliveries() == [("all", "backup.missed", "open")]
    make_run(run.schedule, RunStatus.SUCCEEDED, finished_at=clock.now() + timedelta(seconds=1))  # type: ignore[arg-type]
    for _ in range(3):
        assert watch()
    assert deliveries() == [("all", "backup.missed", "open"), ("all", "backup.missed", "resolved")]
    moment.now += timedelta(hours=1)
    alive()
    make_run(run.schedule, RunStatus.FAILED, finished_at=clock.now())  # type: ignore[arg-type]
    watch()
    assert deliveries()[2:] == [("all", "restore_test.old", "open"), ("all", "backup.failed", "open")]


def test_happening_is_reported_once(trio: Trio) -> None:
    rows.channel(HOOK)
    rows.rule(events=["rebuild.done", "rebuild.failed"])
    ended(trio, Status.SUCCEEDED, finished_at=clock.now() - timedelta(seconds=1))
    watch()
    assert deliveries() == []  # before dbops looked for the first time
    ended(trio, Status.FAILED)
    for _ in range(3):
        watch()
    assert deliveries() == [("all", "rebuild.failed", "happened")]


def test_short_state_is_not_reported(trio: Trio, moment: Clock) -> None:
    rows.channel(HOOK)
    rows.rule(events=["cluster.short"])
    healthy = trio[2].state.facts()
    assert healthy is not None
    away(trio)
    watch()
    moment.now += timedelta(minutes=9)
    set_facts(trio[2], make_unreachable())
    watch()
    assert (deliveries(), NotificationEvent.objects.filter(kind="cluster.short").count()) == ([], 1)
    set_facts(trio[2], replace(healthy, observed_at=moment.now))
    watch()
    assert not NotificationEvent.objects.filter(kind="cluster.short").exists()


def test_lasting_state_is_reported_after_its_delay(trio: Trio, moment: Clock) -> None:
    rows.channel(HOOK)
    rows.rule(events=["cluster.short"])
    away(trio)
    watch()
    moment.now += timedelta(minutes=11)
    set_facts(trio[2], make_unreachable())
    watch()
    assert deliveries() == [("all", "cluster.short", "open")]


def test_delay_of_blocked_clusters_is_a_setting(trio: Trio, moment: Clock, settings: Any) -> None:
    rows.channel(HOOK)
    rows.rule(events=["cluster.blocked"])
    settings.BLOCKED_TOO_LONG_SECONDS = 60
    all_away(trio)
    watch()
    assert deliveries() == []
    moment.now += timedelta(seconds=61)
    watch()
    assert deliveries() == [("all", "cluster.blocked", "open")]


def test_each_rule_gets_what_it_wants(trio: Trio) -> None:
    rows.channel(HOOK)
    rows.channel(HOOK, "other")
    rows.rule("two channels", "other")
    rows.rule("all")
    rows.rule("only info", events=["rebuild.done"])
    rows.rule("shop", cluster="shop")
    make_trio("other")
    rows.rule("elsewhere", cluster="other")
    missed(trio)
    watch()
    assert {name for name, kind, _ in deliveries() if kind == "backup.missed"} == {"all", "shop", "two channels"}


def test_new_rule_gets_no_open_state_and_no_end_of_it(trio: Trio) -> None:
    rows.channel(HOOK)
    run = missed(trio)
    watch()
    rows.rule()
    watch()
    make_run(run.schedule, RunStatus.SUCCEEDED, finished_at=clock.now() + timedelta(seconds=1))  # type: ignore[arg-type]
    watch()
    assert deliveries() == []


def test_process_that_was_overtaken_writes_nothing(trio: Trio) -> None:
    late = notification_events.claim_watch()
    assert late is not None
    assert not watch()  # it is claimed
    NotificationWatch.objects.update(lease_until=clock.now() - timedelta(seconds=1))
    assert watch()
    missed(trio)
    found = states_now(clock.now(), limit_within=timedelta(days=1), certificate_within=timedelta(days=1))
    values: dict[str, Any] = {"zone": clock.now().tzinfo, "delays": {}}
    assert found
    assert not notification_events.write_events(late, found, [], clock.now(), **values)
    assert not NotificationEvent.objects.exists()
    notification_events.release_watch(late)
    assert watch()


def test_failed_look_frees_the_watch(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dbops.worker.notification_watch.states_now", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            watch()
    assert watch()


def queries_of_a_look() -> int:
    with CaptureQueriesContext(
        connection,
    ) as found:
        watch()
    return len(found)


def test_number_of_queries_is_that_of_a_small_fleet(trio: Trio) -> None:
    rows.channel(HOOK)
    rows.rule()

    def break_all(*names: str) -> None:
        for name in names:
            members = make_trio(name)
            all_away(members)
            run = make_run(make_schedule(members[1], name), RunStatus.MISSED, started_at=None, finished_at=clock.now())
            assert run.pk
            ended(members, Status.FAILED)
            ended(members, Status.LOST)

    watch()
    break_all("a")
    few = queries_of_a_look()
    break_all(*"bcdefgh")
    assert queries_of_a_look() == few
    assert NotificationDelivery.objects.count() >= 7 * 3
    BackupRun.objects.update(status=RunStatus.SUCCEEDED)
    assert queries_of_a_look() <= few + 2
    assert few < 60


def test_old_deliveries_and_events_are_removed(trio: Trio, moment: Clock, settings: Any) -> None:
    from dbops.worker.tasks import trim_notifications

    settings.NOTIFICATION_KEEP_DAYS = 5
    rows.channel(HOOK)
    wanted = rows.rule()
    rows.due_event(wanted)
    NotificationDelivery.objects.update(status="sent", ended_at=clock.now())
    NotificationEvent.objects.update(resolved_at=clock.now())
    rows.due_event(wanted)
    NotificationEvent.objects.filter(resolved_at=None).update(resolved_at=clock.now())
    rows.due_event(wanted, "rebuild.done")
    moment.now += timedelta(days=6)
    trim_notifications()
    kept = list(NotificationEvent.objects.order_by("pk").values_list("kind", flat=True))
    assert (kept, NotificationDelivery.objects.count()) == (["backup.missed", "rebuild.done"], 2)
