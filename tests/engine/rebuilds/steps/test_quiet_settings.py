"""Settings that keep a started copy quiet: remembered before they change, put back as they were."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.quiet import NO_CLIENTS
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start.quiet_settings import begin_quiet, end_quiet, remember_events, say_still_quiet
from tests.engine import builders
from tests.engine.by_name import build_plan
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

ADMIN = "GRANT SYSTEM_VARIABLES_ADMIN,CONNECTION_ADMIN ON *.* TO `dbops`@`%`"
VARIABLES = {"event_scheduler": "ON", "super_read_only": "OFF", "offline_mode": "OFF"}


class Server(FakeDatabase):
    """A server whose variables change by SET GLOBAL; ``stuck`` ones keep their value without an error."""

    def __init__(self, *, grants: str = ADMIN, stuck: str = "", refused: str = "", **variables: str) -> None:
        super().__init__()
        self.values = VARIABLES | variables
        self.stuck, self.refused = stuck, refused
        self.expect("SHOW GRANTS", [{"Grants": grants}])
        self.expect("information_schema.EVENTS", [{"db": "app", "name": "own", "definer": "o`dd@%"}])
        self.expect("information_schema.EVENTS WHERE", [{"db": "app", "name": "own"}, {"db": "app", "name": "gone"}])

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        if "SHOW GLOBAL VARIABLES" in sql:
            name = sql.split("'")[1]
            return [{"Variable_name": name, "Value": self.values[name]}] if name in self.values else []
        return super().query(sql, parameters)

    def execute(self, sql: str, parameters: Any = ()) -> None:
        super().execute(sql, parameters)
        if sql.startswith("SET GLOBAL"):
            _, _, name, _, value = sql.split(maxsplit=4)
            if name == self.refused:
                raise RemoteFailure("mysql.error", "Setting", cause="1227: Access denied")
            if name != self.stuck:
                self.values[name] = value.removeprefix("'").removesuffix("'").replace("''", "'")


def run_on(server: FakeDatabase, flavor: str = "mysql") -> Run:
    plan = build_plan(builders.inputs())
    if flavor == "mysql":
        plan = replace(plan, source=replace(plan.source, version="8.4.10"), flavor=flavor)
    return make_run(plan, FakeJobs(), source=server, target=server, journal=RecordedJournal(), clock=FakeClock())


def test_settings_are_put_back_as_they_were() -> None:
    server = Server(super_read_only="ON")
    run = run_on(server)
    begin_quiet(run, server)
    assert server.values == {"event_scheduler": "OFF", "super_read_only": "ON", "offline_mode": "ON"}
    begin_quiet(run, server)  # another driver, after the change
    end_quiet(run, server)
    assert server.values == VARIABLES | {"super_read_only": "ON"}
    end_quiet(run, server)
    assert "quiet" not in run.checkpoint


def test_account_that_offline_mode_would_lock_out_leaves_it() -> None:
    server = Server(grants="GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO `dbops`@`%`")
    begin_quiet(run_on(server), server)
    assert server.values["offline_mode"] == "OFF"
    assert server.values["super_read_only"] == "ON"


@pytest.mark.parametrize("before", ["", "SET @own = 'x'"])
def test_mariadb_keeps_clients_out_and_ends_those_that_came_before(before: str) -> None:
    server = Server(grants="GRANT SELECT, CONNECTION ADMIN ON *.* TO `dbops`@`%`", init_connect=before)
    server.values.pop("super_read_only")
    server.expect("information_schema.PROCESSLIST", [{"id": 7}, {"id": 9}], [])
    run = run_on(server, "mariadb")
    begin_quiet(run, server)
    assert server.values["init_connect"] == NO_CLIENTS
    assert [sql for sql in server.statements if sql.startswith("KILL")] == ["KILL 7", "KILL 9"]
    begin_quiet(run, server)  # another driver: no client has come in since
    assert len([sql for sql in server.statements if sql.startswith("KILL")]) == 2
    end_quiet(run, server)
    assert server.values["init_connect"] == before


def test_clients_are_ended_by_the_next_driver_when_the_first_one_died() -> None:
    server = Server(grants="GRANT SELECT, CONNECTION ADMIN ON *.* TO `dbops`@`%`", init_connect="")
    gone = Unreachable("mysql.unreachable", "Asking for clients", cause="gone")
    server.expect("information_schema.PROCESSLIST", gone, [{"id": 7}], [])
    run = run_on(server, "mariadb")
    with pytest.raises(Unreachable):
        begin_quiet(run, server)
    assert server.values["init_connect"] == NO_CLIENTS
    begin_quiet(run, server)
    assert [sql for sql in server.statements if sql.startswith("KILL")] == ["KILL 7"]
    end_quiet(run, server)
    assert server.values["init_connect"] == ""


def test_clients_stay_where_they_may_come_in() -> None:
    server = Server(
        grants="GRANT SELECT, CONNECTION ADMIN ON *.* TO `dbops`@`%`", init_connect="", refused="init_connect"
    )
    server.expect("information_schema.PROCESSLIST", [{"id": 7}])
    begin_quiet(run_on(server, "mariadb"), server)
    assert not [sql for sql in server.statements if sql.startswith("KILL")]


@pytest.mark.parametrize(
    ("grants", "value"),
    [
        ("GRANT SELECT, SUPER ON *.* TO `dbops`@`%`", ""),
        ("GRANT ALL PRIVILEGES ON *.* TO `dbops`@`%`", "SET @a = '\\n'"),
    ],
)
def test_init_connect_that_could_lock_dbops_out_or_not_come_back_stays(grants: str, value: str) -> None:
    server = Server(grants=grants, init_connect=value)
    run = run_on(server, "mariadb")
    begin_quiet(run, server)
    assert server.values["init_connect"] == value
    assert set(run.checkpoint["quiet"]) == {"event_scheduler"}


def test_refused_setting_is_left_and_the_rest_is_put_back() -> None:
    server = Server(refused="super_read_only")
    run = run_on(server)
    begin_quiet(run, server)
    assert set(run.checkpoint["quiet"]) == {"event_scheduler", "offline_mode"}


def test_setting_that_does_not_come_back_fails() -> None:
    server = Server()
    run = run_on(server)
    begin_quiet(run, server)
    server.stuck = "event_scheduler"
    with pytest.raises(RemoteFailure) as error:
        end_quiet(run, server)
    assert error.value.code == "quiet.not_back"
    assert run.checkpoint["quiet"]["event_scheduler"] == "ON"


def test_own_events_are_enabled_with_their_definer_and_missing_ones_are_named() -> None:
    server = Server()
    run = run_on(server)
    remember_events(run)
    begin_quiet(run, server)
    end_quiet(run, server)
    [statement] = [sql for sql in server.statements if sql.startswith("ALTER")]
    assert statement == "ALTER DEFINER = `o``dd`@`%` EVENT `app`.`own` ENABLE"
    journal = run.journal
    assert isinstance(journal, RecordedJournal)
    assert any("app.gone" in line for line in journal.lines)


def test_unverified_copy_is_said_to_stay_quiet() -> None:
    server = Server()
    run = run_on(server)
    journal = run.journal
    assert isinstance(journal, RecordedJournal)
    say_still_quiet(run)
    assert journal.lines == []
    begin_quiet(run, server)
    before = len(journal.lines)
    say_still_quiet(run)
    assert len(journal.lines) == before + 1
