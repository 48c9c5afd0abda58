"""How a copy is made quiet before its first start: nothing in its data replicates or runs on its own."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.optionfile import NOT_PERSISTED, option_words
from dbops.engine.flavors.privileges import ALL, global_privileges
from dbops.engine.flavors.sql_text import sql_name, sql_text

#: The longest value that comes back: ``SHOW VARIABLES`` cuts longer ones.
LONGEST = 1000
#: The most client connections that are ended.
CLIENTS_MAXIMUM = 500
NO_CLIENTS = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'This copy is not verified yet'"


@dataclass(frozen=True, slots=True)
class QuietSetting:
    """One variable and its value while a copy is not verified.

    ``loud`` are the values (upper case) that are changed, empty for every value but ``value``. ``locks_out``: clients without the
    privilege of ``gets_in`` no longer get in, which must not be dbops itself.
    """

    variable: str
    value: str
    loud: frozenset[str] = frozenset()
    locks_out: bool = False

    def is_loud(self, now: str) -> bool:
        return now.upper() in self.loud if self.loud else now != self.value

    def statement(self, value: str) -> str:
        """Return the statement that sets a value: its own, or one that was read and ``can_come_back``."""
        return f"SET GLOBAL {self.variable} = {value if value.isdigit() else sql_text(value)}"


def can_come_back(value: str) -> bool:
    """Return whether a value that was read can be set again. A long one may have been cut, and a backslash depends on the SQL mode."""
    return len(value) <= LONGEST and not re.search(r"[\\\n\r\0]", value)


def quiet_settings(flavor: Flavor) -> tuple[QuietSetting, ...]:
    """Return what is changed on a started copy. MariaDB has neither ``super_read_only`` nor ``offline_mode``.

    There the first statement of a client fails instead, with the connection (measured with 10.11.19 and 11.8.9): replication, the dashboard
    and administrators do not run ``init_connect``.
    """
    scheduler = QuietSetting("event_scheduler", "OFF", frozenset({"ON", "1"}))
    if flavor.name == "mariadb":
        return (scheduler, QuietSetting("init_connect", NO_CLIENTS, locks_out=True))
    off = frozenset({"OFF", "0"})
    return (
        scheduler,
        QuietSetting("super_read_only", "ON", off),
        QuietSetting("offline_mode", "ON", off, locks_out=True),
    )


def gets_in(flavor: Flavor, grants: Iterable[str]) -> bool:
    """Return whether an account with these grants works on a server that keeps clients out."""
    names = global_privileges(grants)
    if flavor.name == "mariadb":
        return not names.isdisjoint((_privilege(flavor), ALL))
    return not names.isdisjoint(("SUPER", "CONNECTION_ADMIN", ALL))


def _privilege(flavor: Flavor) -> str:
    """Return the privilege of MariaDB whose accounts do not run ``init_connect``."""
    return "CONNECTION ADMIN" if flavor.version >= (10, 5, 2) else "SUPER"


def clients(flavor: Flavor) -> str:
    """Return the statement with the ids of connections of accounts that no longer get in; ``""`` if the server ends them itself.

    A connection shows its user alone: it stays if any account of this user gets in.
    """
    if flavor.name != "mariadb":
        return ""
    return (
        "SELECT ID AS id FROM information_schema.PROCESSLIST p"  # noqa: S608 - constants
        " WHERE COMMAND NOT IN ('Binlog Dump', 'Daemon') AND NOT EXISTS ("
        "SELECT 1 FROM information_schema.USER_PRIVILEGES"
        f" WHERE PRIVILEGE_TYPE = '{_privilege(flavor)}'"
        " AND LEFT(GRANTEE, CHAR_LENGTH(p.USER) + 3) = CONCAT('''', p.USER, '''@'))"
        " AND USER NOT IN ('', 'system user', 'event_scheduler', 'unauthenticated user', SUBSTRING_INDEX(USER(), '@', 1))"
        f" LIMIT {CLIENTS_MAXIMUM}"
    )


def enabled_events(flavor: Flavor) -> str:
    """Return the statement that lists enabled events; MariaDB's table can be read without the privilege for events."""
    if flavor.name == "mariadb":
        return "SELECT db, name FROM mysql.event WHERE status = 'ENABLED' ORDER BY db, name"
    return "SELECT EVENT_SCHEMA AS db, EVENT_NAME AS name FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'"


def enable_event(schema: str, name: str, definer: str) -> str:
    """Return the statement. Without its definer an event would become that of the account that alters it."""
    user, _, host = definer.rpartition("@")
    words = [sql_name(word) for word in (user, host, schema, name)]
    return "ALTER DEFINER = {}@{} EVENT {}.{} ENABLE".format(*words)


def quiet_server_options(flavor: Flavor) -> list[str]:
    """Return the options of the server that only changes the copy's own tables, before the operator's start command runs.

    It is out of reach, starts nothing and reads no persisted settings, which would win over these. It keeps the binary log's options:
    MySQL decides prepared transactions of the copy from it.
    """
    words = ["--skip-networking", "--event-scheduler=OFF", "--read-only=OFF", "--init-file="]
    if flavor.name == "mariadb":
        return [*words, "--skip-slave-start"]
    own = [
        NOT_PERSISTED,
        flavor.variable_name("--skip-replica-start"),
        "--super-read-only=OFF",
        "--loose-mysqlx=OFF",
        "--loose-group-replication-start-on-boot=OFF",
    ]
    return [*words, *own]


def forget_links(flavor: Flavor) -> str:
    """Return the statements that forget every link in MySQL's tables; MariaDB has them in files, which are removed."""
    return "" if flavor.name == "mariadb" else "; ".join(flavor.forget_replication())


def disabled_on(flavor: Flavor) -> str:
    """Return the word after ``DISABLE ON`` for an event that only its source runs (``REPLICA`` from 8.2 on)."""
    return "REPLICA" if flavor.version >= (8, 2, 0) and flavor.name == "mysql" else "SLAVE"


def quiet_words(flavor: Flavor, *, client: str, server: str, defaults_file: str, group_suffix: str = "") -> list[str]:
    """Return the arguments of ``start.sh`` for a copy that starts for the first time."""
    command = [server, *option_words(defaults_file, group_suffix), *quiet_server_options(flavor)]
    return [flavor.name, client, forget_links(flavor), disabled_on(flavor), str(len(command)), *command]


def quiet_commands(flavor: Flavor, *, server: str, defaults_file: str, group_suffix: str = "") -> list[str]:
    """Return what makes a copy quiet, for the plan page."""
    command = shlex.join([server, *option_words(defaults_file, group_suffix), *quiet_server_options(flavor)])
    if flavor.name == "mariadb":
        disable = "UPDATE mysql.event SET status = 'SLAVESIDE_DISABLED' WHERE status = 'ENABLED'"
        return [f"{command} --bootstrap   # if events exist: {disable}"]
    statements = f"{forget_links(flavor)}; ALTER EVENT ... DISABLE ON {disabled_on(flavor)}"
    return [f"{command}   # once before the start, without network: {statements}"]


#: The same for data that has run before.
NOT_QUIET = ["", "", "", "", "0"]
