"""Global variables that a person set at run time: a copy starts a new server, which reads its option file only.

Which variable was set by a statement, the server itself says: MariaDB in ``information_schema.SYSTEM_VARIABLES``, MySQL 8.0 and newer
in ``performance_schema.variables_info`` (measured with 10.11.19, 11.8.9, 8.0.15 and 9.7.4). Earlier MySQL does not say it. MySQL also
names variables that only a session set (``mysql_defaults``).
"""

import re
from collections.abc import Iterable, Mapping

from dbops.engine.facts.instance import RunTimeSetting
from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.mysql_defaults import OF_SESSIONS
from dbops.engine.flavors.sql_text import sql_text

#: Settings of replication itself. Filters belong to a connection (``connection_options``), positions to the data.
_OF_REPLICATION = re.compile(
    r"(slave|replica|rpl_semi_sync|sync_relay_log|sync_master|sync_source)_[a-z0-9_]+"
    r"|event_scheduler|gtid_ignore_duplicates|gtid_strict_mode|relay_log_purge|super_read_only|sync_relay_log"
)
#: State, not settings; and what a rebuild sets anyway.
_STATE = re.compile(
    r"gtid_(slave_pos|binlog_state|purged|executed|next)|sql_(slave|replica)_skip_counter|replicate_[a-z_]+|read_only|timestamp"
)
_NAME = re.compile(r"[a-z][a-z0-9_]{1,63}")
#: Defaults of MySQL's variables that count as set at run time from then on: a session set them for itself, or dbops put them back.
_MYSQL_DEFAULTS = {
    **OF_SESSIONS,
    **{"event_scheduler": "ON", "super_read_only": "OFF", "offline_mode": "OFF", "innodb_doublewrite": "ON"},
    **{"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "replica_parallel_workers": "4"},
}
#: Old name of MySQL, its name from 8.0.26 on. A server shows both.
_RENAMED = (("slave_", "replica_"), ("_slave_", "_replica_"), ("master_", "source_"), ("_master_", "_source_"))
_TRUTH = {"ON": "1", "TRUE": "1", "YES": "1", "OFF": "0", "FALSE": "0", "NO": "0", "DETECT_AND_RECOVER": "1"}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
#: The most variables that are read of one server.
MAXIMUM = 200


def show_run_time_settings(flavor: Flavor) -> str:
    """Return the statement with the columns ``name``, ``value``, ``ordinary`` and ``persisted``; ``""`` if the server cannot say it."""
    if flavor.name == "mariadb":
        return (
            "SELECT LOWER(VARIABLE_NAME) AS name, GLOBAL_VALUE AS value, DEFAULT_VALUE AS ordinary, NULL AS persisted"  # noqa: S608
            " FROM information_schema.SYSTEM_VARIABLES WHERE GLOBAL_VALUE_ORIGIN = 'SQL' AND READ_ONLY = 'NO'"
            f" ORDER BY VARIABLE_NAME LIMIT {MAXIMUM}"
        )
    if flavor.version < (8, 0, 0):
        return ""
    return (
        "SELECT VARIABLE_NAME AS name, g.VARIABLE_VALUE AS value, NULL AS ordinary, p.VARIABLE_VALUE AS persisted"  # noqa: S608
        " FROM performance_schema.variables_info JOIN performance_schema.global_variables g USING (VARIABLE_NAME)"
        " LEFT JOIN performance_schema.persisted_variables p USING (VARIABLE_NAME)"
        f" WHERE VARIABLE_SOURCE = 'DYNAMIC' AND SET_USER IS NOT NULL ORDER BY VARIABLE_NAME LIMIT {MAXIMUM}"
    )


def run_time_settings_from(rows: Iterable[Mapping[str, object]], flavor: Flavor) -> tuple[RunTimeSetting, ...]:
    """Return the settings of the rows, without state and without the old names of MySQL."""
    found = {}
    for row in rows:
        name = str(row["name"]).lower()
        if _NAME.fullmatch(name) and not _STATE.fullmatch(name) and row["value"] is not None:
            ordinary = row["ordinary"] if flavor.name == "mariadb" else _MYSQL_DEFAULTS.get(name)
            found[name] = RunTimeSetting(name, str(row["value"]), *map(_text, (ordinary, row["persisted"])))
    if flavor.name == "mysql":
        names = {name: new for name in found for old, to in _RENAMED if (new := name.replace(old, to)) != name}
        return tuple(one for name, one in found.items() if names.get(name) not in found)
    return tuple(found.values())


def after_restart(setting: RunTimeSetting, options: Mapping[str, str]) -> str | None:
    """Return the value that a new server process has, ``None`` if it is a default that the server does not tell.

    Args:
        options: of the option file.
    """
    if setting.persisted is not None:
        return setting.persisted
    names = [setting.name, *(setting.name.replace(new, old) for old, new in _RENAMED if new in setting.name)]
    written = next((options[name] for name in names if name in options), None)
    return setting.ordinary if written is None else written


def outlasts_restart(setting: RunTimeSetting, options: Mapping[str, str]) -> bool:
    """Return whether a new server process has the same value."""
    value = after_restart(setting, options)
    return value is not None and same_setting(value, setting.value)


def is_of_replication(name: str) -> bool:
    return bool(_OF_REPLICATION.fullmatch(name))


def same_setting(one: str, other: str) -> bool:
    """Compare values of a variable in any way of writing: ``16M`` is 16777216, ``1`` is ``ON``, and a list has no order."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> list[str]:
    text = value.strip().upper()
    if (factor := _UNITS.get(text[-1:])) and text[:-1].isdigit():
        return [str(int(text[:-1]) * factor)]
    return sorted(_TRUTH.get(item, item) for item in text.split(","))


def set_run_time(name: str, value: str) -> str:
    """Return the statement. A number is never quoted: the server refuses that."""
    return f"SET GLOBAL {name} = {value if re.fullmatch(r'-?[0-9]+([.][0-9]+)?', value) else sql_text(value)}"


def show_variables(names: Iterable[str]) -> str:
    """Return the statement that shows these variables. ``names`` come from ``run_time_settings_from``."""
    return f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(sql_text(name) for name in names)})"


def _text(value: object) -> str | None:
    return None if value is None else str(value)
