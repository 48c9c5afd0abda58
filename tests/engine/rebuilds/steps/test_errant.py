"""Transactions that only the copy has, found in its whole history and blamed on the server that wrote them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.replicate.errant import must_have_nothing_errant
from dbops.engine.rebuilds.steps.run import Run, Server
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

#: Server ids: primary 11, source 12, target 13.
UUID = "8f84f270-e51e-11f1-9a6c-02fc000000"


def mariadb(*, position: str, logged: str = "", slave: str = "", oldest: str = "") -> FakeDatabase:
    """Return a server with this last number of each domain, and this list by server in its binary log."""
    database = FakeDatabase()
    database.expect("gtid_current_pos AS executed", [{"executed": position, "logged": position}])
    database.expect("gtid_binlog_state", [{"value": logged or position}])
    database.expect("gtid_slave_pos", [{"value": slave}])
    database.expect("SHOW BINARY LOGS", [{"Log_name": "mysql-bin.000001"}])
    database.expect("BINLOG_GTID_POS", [{"gtid": oldest}])
    return database


def mysql(executed: str, uuid: str) -> FakeDatabase:
    database = FakeDatabase()
    database.expect("gtid_executed AS executed", [{"executed": executed, "logged": executed}])
    database.expect("server_uuid", [{"value": uuid}])
    return database


def compare(
    target: FakeDatabase,
    primary: FakeDatabase,
    source: FakeDatabase,
    *,
    change: Callable[[Plan], Plan] = lambda plan: plan,
) -> None:
    plan = change(build_plan(builders.inputs()))
    run: Run = make_run(plan, FakeJobs(), source=source, target=target, journal=RecordedJournal(), clock=FakeClock())
    run.primary = Server(plan.primary, lambda _: primary)
    must_have_nothing_errant(run, target, state="as it is")


def errors_of(target: FakeDatabase, primary: FakeDatabase, source: FakeDatabase) -> RemoteFailure:
    with pytest.raises(RemoteFailure) as error:
        compare(target, primary, source)
    assert error.value.code == "repoint.errant"
    return error.value


def test_copy_with_the_primarys_history_is_accepted() -> None:
    list_of_both = "0-10-80,0-11-100"
    compare(
        mariadb(position="0-11-100", logged="0-11-100"),
        mariadb(position="0-11-105", logged="0-10-80,0-11-105"),
        mariadb(position="0-11-102", logged=list_of_both),
    )


@pytest.mark.parametrize("logged", ["0-11-100,7-13-2", "0-11-100,0-13-42", "0-11-100,0-99-3"])
def test_transaction_in_another_domain_or_below_the_last_number_is_found(logged: str) -> None:
    shared = mariadb(position="0-11-100")
    error = errors_of(mariadb(position="0-11-100", logged=logged), mariadb(position="0-11-100"), shared)
    assert logged.split(",")[1] in error.cause


def test_errant_transactions_are_blamed_on_the_server_that_wrote_them() -> None:
    shared = mariadb(position="0-11-100")
    by_target = errors_of(mariadb(position="0-11-100", logged="0-11-100,0-13-42"), shared, shared)
    by_source = errors_of(mariadb(position="0-11-100", logged="0-11-100,0-12-42"), shared, shared)
    assert "replica-1" in by_target.cause
    assert "backup-1" not in by_target.cause
    assert "backup-1" in by_source.cause
    assert by_target.next_step != by_source.next_step


def test_sources_older_errant_transaction_is_found_from_its_list() -> None:
    error = errors_of(
        mariadb(position="0-11-100"),
        mariadb(position="0-11-100", oldest="0-11-20"),
        mariadb(position="0-11-100", logged="0-11-100,0-12-42"),
    )
    assert "0-12-42" in error.cause


def test_history_before_the_primarys_first_log_is_not_taken_for_errant() -> None:
    compare(
        mariadb(position="0-11-100"),
        mariadb(position="0-11-100", oldest="0-11-60"),
        mariadb(position="0-11-100", logged="0-10-42,0-11-100"),
    )


def test_transaction_that_the_primary_replicated_before_its_logs_is_its_own() -> None:
    compare(
        mariadb(position="0-11-100", logged="0-10-80,0-11-100"),
        mariadb(position="0-11-100", slave="0-10-80"),
        mariadb(position="0-11-100"),
    )


@pytest.mark.parametrize(("uuid", "name"), [("13", "replica-1"), ("12", "backup-1")])
def test_mysql_sets_are_compared_and_blamed_by_uuid(uuid: str, name: str) -> None:
    def change(plan: Plan) -> Plan:
        source = replace(plan.source, server_uuid=f"{UUID}12", version="8.4.10")
        return replace(plan, source=source, flavor="mysql")

    shared = f"{UUID}11:1-100"
    with pytest.raises(RemoteFailure) as error:
        compare(
            mysql(f"{shared},{UUID}{uuid}:1-3", f"{UUID}13"),
            mysql(shared, f"{UUID}11"),
            mysql(shared, f"{UUID}12"),
            change=change,
        )
    assert f"{UUID}{uuid}:1-3" in error.value.cause
    assert name in error.value.cause
