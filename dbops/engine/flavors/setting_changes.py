"""How an operator changes a setting, by product and version: statement, option-file line, restart, and the way back.

What is dynamic was tried on MySQL 5.7.22, 8.0.15, 9.7.4 and MariaDB 10.11.19, 11.8.9: ``tests/drivers/test_advice_statements.py``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dbops.engine.flavors.base import Version

_ALWAYS: Final = (
    *("table_open_cache", "table_definition_cache", "innodb_buffer_pool_size", "max_connections"),
    "innodb_redo_log_capacity",
)
#: First MariaDB version that changes it at run time; MySQL never does.
_MARIADB: Final[Mapping[str, Version]] = {"innodb_log_file_size": (10, 9, 0), "innodb_purge_threads": (10, 5, 2)}
#: First MySQL version with ``innodb_redo_log_capacity``; and with a function for a limit that is no dynamic variable.
REDO_CAPACITY: Final = (8, 0, 30)
OPEN_FILES_FUNCTION: Final = (8, 0, 28)


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One changed setting. ``statement`` and ``undo``: for the running server, empty if it must restart with ``line``."""

    name: str
    old: str
    new: str
    line: str
    undo_line: str
    statement: str = ""
    undo: str = ""

    @property
    def needs_restart(self) -> bool:
        return not self.statement


def change_of(flavor: str, version: Version, name: str, *, old: str, new: str) -> SettingChange:
    """Return how to change a setting. MySQL from 8.0 on keeps a statement's value over a restart, so the line is only for its file.

    Args:
        flavor: ``mysql`` or ``mariadb``.
        old, new: as the server and its option file write them.
    """
    change = SettingChange(name, old, new, f"{name} = {new}", f"{name} = {old}")
    if name == "innodb_open_files" and flavor == "mysql" and version >= OPEN_FILES_FUNCTION:
        return _with(change, *(f"SELECT innodb_set_open_files_limit({value})" for value in (new, old)))
    if not is_dynamic(flavor, version, name):
        return change
    verb = "SET PERSIST" if flavor == "mysql" and version >= (8, 0, 0) else "SET GLOBAL"
    return _with(change, *(f"{verb} {name} = {value}" for value in (new, old)))


def together(changes: Iterable[SettingChange]) -> tuple[SettingChange, ...]:
    """Return changes that must not take effect one before the other: if one needs a restart, all wait for it.

    A table cache that grows before ``open_files_limit`` runs the server out of files.
    """
    found = tuple(changes)
    if not any(one.needs_restart for one in found):
        return found
    return tuple(replace(one, statement="", undo="") for one in found)


def is_dynamic(flavor: str, version: Version, name: str) -> bool:
    """Return whether ``SET`` changes it at run time."""
    if name in _ALWAYS:
        return True
    return flavor == "mariadb" and name in _MARIADB and version >= _MARIADB[name]


def redo_setting(flavor: str, version: Version) -> str:
    """Return the setting of the redo log's size."""
    return "innodb_redo_log_capacity" if flavor == "mysql" and version >= REDO_CAPACITY else "innodb_log_file_size"


def _with(change: SettingChange, statement: str, undo: str) -> SettingChange:
    return SettingChange(change.name, change.old, change.new, change.line, change.undo_line, statement, undo)
