"""List settings that can be relaxed while a copy catches up, by flavor and version.

All of them are set with ``SET GLOBAL``, never persisted and never written into an option file: they end with the server process.
Settings that need a start option are left out: ``innodb_doublewrite`` of MySQL before 8.0.30 and of MariaDB before 11.0.6 (error
1238), ``OFF`` on any MySQL (error 1210), ``skip-log-bin``. ``ALTER INSTANCE DISABLE INNODB REDO_LOG`` is left out because any
crash of the server then loses the whole copy.
"""

import re
from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor, Version

_WORD = re.compile(r"[A-Za-z_]{1,32}")
#: MDEV-33545: the first release of each series in which MariaDB takes ``innodb_doublewrite`` at run time; of later ones 11.4.2
_DOUBLEWRITE_SINCE: dict[tuple[int, int], Version] = {(11, 0): (11, 0, 6), (11, 1): (11, 1, 5), (11, 2): (11, 2, 4)}


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One variable and its value while the copy is rolled forward.

    ``from_values`` are the values (upper case) from which the variable is relaxed, empty for every value but ``value``; with
    ``is_minimum`` a number is only raised. ``durability`` is the cost of a crash during that time: ``""`` none, ``host`` only if
    the machine goes down, ``server`` also if the server process is killed. ``needs`` are variables that must have a value (upper
    case) for an effect. ``stops_applier``: the change needs a stopped applier.
    """

    variable: str
    value: str
    durability: str = ""
    from_values: frozenset[str] = frozenset()
    is_minimum: bool = False
    needs: tuple[tuple[str, str], ...] = ()
    stops_applier: bool = False

    def is_worth_it(self, now: str) -> bool:
        """Return whether a variable with the value ``now`` should be changed."""
        if self.is_minimum:
            return now.isdigit() and int(now) < int(self.value)
        if self.from_values:
            return now.upper() in self.from_values
        return not same_value(now, self.value)


def relaxations(flavor: Flavor, *, appliers: int, gtid: bool) -> tuple[Relaxation, ...]:
    """Return the settings to relax on a server of this flavor.

    ``innodb_flush_log_at_trx_commit = 2`` and not 0: each commit still reaches the kernel, so a killed server process loses
    nothing, and only a crash of the machine does. The same holds for ``sync_binlog = 0``.

    Args:
        flavor: of the server that rolls the copy forward.
        appliers: the least number of parallel appliers; 0 changes nothing.
        gtid: whether replication uses GTID. Without it the position of parallel appliers is exact only while they are stopped.
    """
    found = [
        Relaxation("innodb_flush_log_at_trx_commit", "2", "host", frozenset({"1", "3"})),
        Relaxation("sync_binlog", "0", "host"),
    ]
    if doublewrite := _doublewrite(flavor):
        found.append(doublewrite)
    if appliers and gtid and (parallel := _appliers(flavor, appliers)):
        found.append(parallel)
    return tuple(found)


def _doublewrite(flavor: Flavor) -> Relaxation | None:
    """Return the relaxation of doublewrite, or ``None``. A killed server then loses the copy as well.

    MySQL's manual names "unexpected mysqld process exit in the middle of a page write" besides crashes of the machine: the kernel
    checks for a fatal signal between the blocks of one buffered write.
    """
    if not doublewrite_changes_at_run_time(flavor):
        return None
    if flavor.name == "mariadb":
        return Relaxation("innodb_doublewrite", "OFF", "server", frozenset({"ON", "1", "FAST"}))
    values = frozenset({"ON", "TRUE", "1", "DETECT_AND_RECOVER"})
    return Relaxation("innodb_doublewrite", "DETECT_ONLY", "server", values)


def doublewrite_changes_at_run_time(flavor: Flavor) -> bool:
    """Whether ``SET GLOBAL innodb_doublewrite`` works: MariaDB to any value, MySQL among ``ON`` and ``DETECT_*`` only."""
    if flavor.name == "mariadb":
        return flavor.version >= _DOUBLEWRITE_SINCE.get(flavor.version[:2], (11, 4, 2))
    return flavor.version >= (8, 0, 30)


def _appliers(flavor: Flavor, appliers: int) -> Relaxation | None:
    """Return the setting that raises the number of parallel appliers, or ``None``.

    MariaDB refuses the change while its applier runs (error 1198); MySQL applies it at the next start of the applier. MySQL only
    if appliers commit in the order of the source (the default from 8.0.27 on; before, they work by schema).
    """
    if flavor.name == "mariadb":
        return Relaxation("slave_parallel_threads", str(appliers), is_minimum=True, stops_applier=True)
    if flavor.version >= (8, 0, 27):
        needs = (("replica_preserve_commit_order", "ON"),)
        return Relaxation("replica_parallel_workers", str(appliers), is_minimum=True, needs=needs, stops_applier=True)
    return None


def set_global(variable: str, value: str) -> str:
    """Return the statement. ``value`` is a number or word as the server reports it (``is_settable``)."""
    return f"SET GLOBAL {variable} = {value}" if value.isdigit() else f"SET GLOBAL {variable} = '{value}'"


def is_settable(value: str) -> bool:
    """Return whether a read value may appear in a statement. A value that cannot be restored is not changed."""
    return value.isdigit() or bool(_WORD.fullmatch(value))


def same_value(one: str, other: str) -> bool:
    """Return whether two values are the same: MySQL reports ``DETECT_AND_RECOVER`` after ``ON`` was set."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    return {"DETECT_AND_RECOVER": "ON", "TRUE": "ON", "FALSE": "OFF"}.get(value.upper(), value.upper())
