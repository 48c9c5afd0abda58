"""How a copy is made quiet before its first start: nothing in its data replicates or runs on its own."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.optionfile import NOT_PERSISTED, option_words
from dbops.engine.flavors.sql_text import sql_name

#: The list of a grant of all schemas; names of schemas and accounts, which may contain any word, are never in it.
_GLOBAL_PRIVILEGES = re.compile(r"GRANT ([A-Z_, ]+) ON \*\.\* TO ")


@dataclass(frozen=True, slots=True)
class QuietSetting:
    """One variable and its value while a copy is not verified.

    ``loud`` are the values (upper case) that are changed. ``locks_out``: accounts without ``CONNECTION_ADMIN`` or ``SUPER`` are
    disconnected, which must not be dbops' own.
    """

    variable: str
    value: str
    loud: frozenset[str]
    locks_out: bool = False

    def is_loud(self, now: str) -> bool:
        return now.upper() in self.loud


def quiet_settings(flavor: Flavor) -> tuple[QuietSetting, ...]:
    """Return what is changed on a started copy. MariaDB has no ``super_read_only`` and no way to keep clients alone out."""
    scheduler = QuietSetting("event_scheduler", "OFF", frozenset({"ON", "1"}))
    if flavor.name == "mariadb":
        return (scheduler,)
    off = frozenset({"OFF", "0"})
    return (
        scheduler,
        QuietSetting("super_read_only", "ON", off),
        QuietSetting("offline_mode", "ON", off, locks_out=True),
    )


def may_be_offline(grants: Iterable[str]) -> bool:
    """Return whether an account with these grants can log in while ``offline_mode`` is ON."""
    found = (_GLOBAL_PRIVILEGES.match(grant) for grant in grants)
    names = {name.strip() for match in found if match for name in match[1].split(",")}
    return not names.isdisjoint(("SUPER", "CONNECTION_ADMIN", "ALL PRIVILEGES"))


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
    skip = "--skip-replica-start" if flavor.version >= (8, 0, 26) else "--skip-slave-start"
    own = [
        NOT_PERSISTED,
        skip,
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
