"""Variables that were set at run time: which of them a new server process does not have."""

from collections.abc import Mapping

import pytest

from dbops.engine.facts.instance import RunTimeSetting
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.run_time_settings import (
    is_of_replication,
    outlasts_restart,
    run_time_settings_from,
    same_setting,
    set_run_time,
    show_run_time_settings,
)

MARIADB, MYSQL = flavor_for("10.11.19-MariaDB", ""), flavor_for("8.4.6", "MySQL Community Server")


def row(name: str, value: str | None, **more: str) -> dict[str, str | None]:
    return {"name": name, "value": value, "ordinary": None, "persisted": None, **more}


def test_state_and_text_that_is_no_name_are_left_out() -> None:
    rows = [
        *(row("gtid_slave_pos", "0-1-1"), row("read_only", "ON"), row("replicate_do_db", "a")),
        *(row("a = 1; DROP", "1"), row("slave_exec_mode", None), row("SLAVE_NET_TIMEOUT", "9", ordinary="60")),
    ]
    assert run_time_settings_from(rows, MARIADB) == (RunTimeSetting("slave_net_timeout", "9", "60"),)


def test_mysqls_old_names_are_left_out_and_ones_without_a_new_name_stay() -> None:
    names = [
        "replica_exec_mode",
        "slave_exec_mode",
        "slave_rows_search_algorithms",
        "sync_master_info",
        "sync_source_info",
    ]
    names += ["rpl_semi_sync_slave_enabled", "rpl_semi_sync_replica_enabled", "rpl_semi_sync_master_timeout"]
    found = {one.name for one in run_time_settings_from([row(name, "1") for name in names], MYSQL)}
    assert found == {
        *("replica_exec_mode", "slave_rows_search_algorithms", "sync_source_info"),
        *("rpl_semi_sync_replica_enabled", "rpl_semi_sync_master_timeout"),
    }


def test_default_of_a_variable_that_dbops_itself_sets_is_known() -> None:
    found = run_time_settings_from([row("sync_binlog", "1"), row("event_scheduler", "OFF")], MYSQL)
    assert [outlasts_restart(one, {}) for one in found] == [True, False]


@pytest.mark.parametrize(
    ("name", "value", "options", "expected"),
    [
        ("wait_timeout", "28800", {}, True),
        ("wait_timeout", "600", {}, False),
        ("wait_timeout", "28800", {"wait_timeout": "600"}, False),
        ("binlog_row_value_options", "", {}, True),
        ("optimizer_switch", "index_merge=on", {}, False),
    ],
)
def test_variable_that_a_session_set_for_itself_still_has_its_default(
    name: str, value: str, options: dict[str, str], expected: bool
) -> None:
    """MySQL marks it as set: 8.0.15 and 9.7.4 name ``wait_timeout`` after a probe."""
    [found] = run_time_settings_from([row(name, value)], MYSQL)
    assert outlasts_restart(found, options) is expected


@pytest.mark.parametrize(
    ("setting", "options", "expected"),
    [
        (RunTimeSetting("slave_exec_mode", "STRICT", "STRICT"), {}, True),
        (RunTimeSetting("slave_exec_mode", "IDEMPOTENT", "STRICT"), {}, False),
        (RunTimeSetting("slave_exec_mode", "IDEMPOTENT", "STRICT"), {"slave_exec_mode": "idempotent"}, True),
        (RunTimeSetting("slave_exec_mode", "STRICT", "STRICT"), {"slave_exec_mode": "IDEMPOTENT"}, False),
        (RunTimeSetting("replica_net_timeout", "9"), {"slave_net_timeout": "9"}, True),
        (RunTimeSetting("max_connections", "9"), {}, False),
        (RunTimeSetting("max_connections", "9", persisted="9"), {"max_connections": "8"}, True),
        (RunTimeSetting("max_connections", "8", persisted="9"), {"max_connections": "8"}, False),
    ],
)
def test_persisted_value_wins_over_the_option_file_and_that_over_the_default(
    setting: RunTimeSetting, options: Mapping[str, str], expected: bool
) -> None:
    assert outlasts_restart(setting, options) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("16M", "16777216", True),
        ("1", "ON", True),
        ("ALL_LOSSY,ALL_NON_LOSSY", "all_non_lossy,all_lossy", True),
        ("", "", True),
        ("", "OFF", False),
        ("M", "0", False),
        ("10", "1", False),
    ],
)
def test_values_are_equal_in_any_way_of_writing(one: str, other: str, expected: bool) -> None:
    assert same_setting(one, other) == expected
    assert same_setting(other, one) == expected


def test_value_is_written_as_a_number_or_as_text() -> None:
    assert set_run_time("slave_net_timeout", "60") == "SET GLOBAL slave_net_timeout = 60"
    assert set_run_time("slave_type_conversions", "") == "SET GLOBAL slave_type_conversions = ''"
    assert set_run_time("slave_exec_mode", "x' OR 1") == "SET GLOBAL slave_exec_mode = 'x'' OR 1'"


def test_only_settings_of_replication_are_restored() -> None:
    assert is_of_replication("rpl_semi_sync_slave_enabled")
    assert is_of_replication("event_scheduler")
    assert not is_of_replication("sync_binlog")
    assert not is_of_replication("sql_slave_skip_counter")


def test_server_that_does_not_tell_is_not_asked() -> None:
    assert show_run_time_settings(flavor_for("5.7.44", "MySQL Community Server")) == ""
