"""Plan, request and stop load tests: who may, what is refused, and what a second click does."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import Refused
from dbops.engine.load_tests.request import Raised
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.states import RunStatus
from dbops.lifecycle import backup_runs
from dbops.models import AuditEntry, BackupSchedule, Host, Instance, LoadTest
from dbops.operations.load_tests import cancel_load_test, plan_load_test
from tests.app.backup_rows import make_schedule
from tests.app.factories import make_operator, make_server_facts, make_viewer, set_facts
from tests.app.load_test_rows import make_load_test, make_place, make_request, make_source
from tests.app.restore_test_rows import ended_restore_test, made

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]


@pytest.fixture
def source() -> Instance:
    return make_source()


@pytest.fixture
def place(source: Instance) -> Host:
    return make_place()


@pytest.fixture
def schedule(source: Instance) -> BackupSchedule:
    return make_schedule(source)


def codes(plan: Any) -> set[str]:
    return {one.code for one in plan.refusals}


def test_confirmed_plan_becomes_a_queued_row_with_its_first_event_and_audit_entry(
    source: Instance, place: Host
) -> None:
    request = make_request(source, place)
    load_test = make_load_test(request)
    assert (load_test.status, load_test.host, load_test.source) == (RunStatus.QUEUED, place, source)
    assert load_test.plan["rounds"]
    assert load_test.fingerprint == plan_load_test(request).fingerprint
    assert load_test.events.count() == 1
    [entry] = AuditEntry.objects.filter(action="load_test.requested")
    assert (entry.subject, entry.reason) == (place.name, "before the move")


def test_second_click_of_a_form_returns_the_same_load_test(source: Instance, place: Host) -> None:
    request, olga = make_request(source, place), make_operator()
    first, second = (make_load_test(request, actor=olga) for _ in range(2))
    assert first == second
    assert LoadTest.objects.count() == 1
    assert AuditEntry.objects.filter(action="load_test.requested").count() == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"typed_name": "another"}, "load_test.name"),
        ({"reason": " "}, "load_test.reason"),
        ({"fingerprint": "0" * 64}, "load_test.stale"),
    ],
)
def test_unconfirmed_request_is_refused_and_recorded(
    source: Instance, place: Host, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as refused:
        make_load_test(make_request(source, place), **changes)
    assert refused.value.code == code
    assert not LoadTest.objects.exists()
    assert AuditEntry.objects.get(action="load_test.refused").detail["code"] == code


def test_viewers_can_neither_request_nor_stop(source: Instance, place: Host) -> None:
    victor = make_viewer()
    with pytest.raises(Refused) as refused:
        make_load_test(make_request(source, place), actor=victor)
    assert refused.value.code == "access.denied"
    load_test = make_load_test(make_request(source, place))
    with pytest.raises(Refused) as refused:
        cancel_load_test(actor=victor, load_test=load_test, reason="no more")
    assert refused.value.code == "access.denied"


def test_queued_load_test_is_cancelled_at_once_and_only_once(source: Instance, place: Host) -> None:
    olga = make_operator()
    load_test = make_load_test(make_request(source, place), actor=olga)
    cancel_load_test(actor=olga, load_test=load_test, reason="no more")
    load_test.refresh_from_db()
    assert (load_test.status, load_test.finished_at is not None) == (RunStatus.CANCELLED, True)
    with pytest.raises(Refused) as refused:
        cancel_load_test(actor=olga, load_test=load_test, reason="no more")
    assert refused.value.code == "load_test.ended"
    assert AuditEntry.objects.filter(action="load_test.stop_requested").count() == 1


def test_host_of_a_primary_is_refused_and_allowed_by_a_setting(source: Instance, settings: Any) -> None:
    primary = Instance.objects.get(role="primary")
    request = make_request(source, primary.host)
    assert "load_test.host" in codes(plan_load_test(request))
    settings.LOAD_TEST_ON_PRIMARY_HOSTS = True
    plan = plan_load_test(request)
    assert "load_test.host" not in codes(plan)
    assert "load_test.host" in {one.code for one in plan.warnings}


def test_host_of_a_replica_that_takes_writes_is_refused_as_after_a_failover(source: Instance) -> None:
    place = make_place()
    assert "load_test.host" not in codes(plan_load_test(make_request(source, place)))
    there = Instance.objects.get(host=place)
    set_facts(there, replace(there.state.facts(), server=make_server_facts(read_only=False)))
    assert "load_test.host" in codes(plan_load_test(make_request(source, place)))


def test_host_without_the_generator_or_a_probe_is_refused(source: Instance) -> None:
    bare, unknown = (
        make_place("bare", tools=("mariadbd",)),
        Host.objects.create(name="unknown", ssh_address="unknown.example"),
    )
    assert codes(plan_load_test(make_request(source, bare))) == {"load_test.tool"}
    assert codes(plan_load_test(make_request(source, unknown))) == {"load_test.host"}


def test_test_that_needs_more_memory_than_is_free_is_refused(source: Instance) -> None:
    small = make_place("small", memory_available_bytes=1024**3)
    assert codes(plan_load_test(make_request(source, small))) == {"load_test.memory"}


def test_backup_is_restored_unless_its_restore_test_failed(
    source: Instance, place: Host, schedule: BackupSchedule
) -> None:
    run = made(schedule)
    request = make_request(source, place, run=run.pk)
    plan = plan_load_test(request)
    assert (plan.refusals, plan.run, plan.path) == ((), run.pk, run.path)
    assert plan.needed_bytes > plan_load_test(make_request(source, place)).needed_bytes
    ended_restore_test(run, RunStatus.FAILED, error={"code": "restore_test.damaged"})
    assert codes(plan_load_test(request)) == {"load_test.backup"}


def test_backup_of_another_instance_is_refused(source: Instance, place: Host) -> None:
    other = made(make_schedule(Instance.objects.get(name="replica-1"), name="other"))
    assert codes(plan_load_test(make_request(source, place, run=other.pk))) == {"load_test.backup"}


def test_backup_of_a_queued_load_test_is_kept_by_retention(
    source: Instance, place: Host, schedule: BackupSchedule
) -> None:
    run = made(schedule)
    olga = make_operator()
    load_test = make_load_test(make_request(source, place, run=run.pk), actor=olga)
    assert run.pk in backup_runs.runs_being_read()
    cancel_load_test(actor=olga, load_test=load_test, reason="no more")
    assert run.pk not in backup_runs.runs_being_read()


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": (2, 1)},
        {"seconds": 0},
        {"pool_bytes": 1},
        {"threads": 0},
        {"options": (("datadir", "mysql"),)},
        {"options": (("init_file", "x"),)},
        {"options": (("innodb_io_capacity", "../x"),)},
        {"options": (("plugin_load_a", "x.so"),)},
        {"options_a": (("innodb_buffer_pool_siz", "64G"),)},
        {"options_b": (("loose_plugin_load", "x.so"),)},
        {"options": (("innodb_log_file_size", "500G"),)},
        {"options": (("innodb_io_capacity", "99999999999999"),)},
        {"options": (("innodb_doublewrite", "maybe"),)},
        {"options": (("general_log_file", "x"),)},
        {"options": (("innodb-io-capacity=1 --user", "root"),)},
        {"raised": Raised.SCHEMAS},
        {"raised": Raised.NOTHING},
        {"workload": Workload(Profile.ROTATING, schema="a\nb", statements=("SELECT 1",))},
        {"workload": Workload(Profile.ROTATING, schema="a", statements=())},
        {"workload": Workload(Profile.INSERT)},
        {
            "workload": Workload(Profile.ROTATING, schema="a", statements=("SELECT 1; SET GLOBAL read_only = 0",)),
            "schemas": 1,
        },
        {"workload": Workload(Profile.INSERT, table_ddl="CREATE TABLE t (i INT) DATA/**/DIRECTORY='/x'")},
    ],
)
def test_impossible_request_is_refused(source: Instance, place: Host, changes: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        plan_load_test(make_request(source, place, **changes))
    assert refused.value.code == "load_test.request"


def test_unknown_source_is_refused(source: Instance, place: Host) -> None:
    with pytest.raises(Refused) as refused:
        plan_load_test(replace(make_request(source, place), source="no-such-instance"))
    assert refused.value.code == "load_test.not_found"
