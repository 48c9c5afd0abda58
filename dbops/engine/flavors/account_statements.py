"""Statements that create the accounts of a cluster with the least privileges, by flavor and version.

``docs/how-to/accounts.md`` is written from them. The tests run them on real servers, do there all that dbops does, and take each privilege
away.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dbops.engine.flavors.base import Flavor
from dbops.engine.flavors.versions import parse_version

MARIADB = """\
-- dashboard: reads facts, compares data, attaches the new replica to the primary
CREATE USER 'dbops'@'DASHBOARD' IDENTIFIED BY '...';
CREATE USER 'dbops'@'localhost' IDENTIFIED BY '...';
GRANT SELECT, PROCESS, RELOAD, SUPER, BINLOG MONITOR, SLAVE MONITOR, REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN,
      READ_ONLY ADMIN, CONNECTION ADMIN, BINLOG ADMIN ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for dumps, and for views, triggers and events in the certificate
GRANT SHOW VIEW, TRIGGER, EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for events that the target ran before: dbops enables them again
GRANT EVENT, SET USER ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';

-- backup tool on the source, over the local socket: the minimum for --slave-info
CREATE USER 'backup'@'localhost' IDENTIFIED BY '...';
GRANT RELOAD, PROCESS, BINLOG MONITOR, SLAVE MONITOR ON *.* TO 'backup'@'localhost';

-- replication, from every instance of the cluster
CREATE USER 'repl'@'%' IDENTIFIED BY '...';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
"""

OLD_MARIADB = """\
-- dashboard: reads facts, compares data, attaches the new replica to the primary
CREATE USER 'dbops'@'DASHBOARD' IDENTIFIED BY '...';
CREATE USER 'dbops'@'localhost' IDENTIFIED BY '...';
GRANT SELECT, PROCESS, RELOAD, SUPER, REPLICATION CLIENT, REPLICATION SLAVE
      ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for dumps, and for views, triggers and events in the certificate
GRANT SHOW VIEW, TRIGGER, EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for events that the target ran before: dbops enables them again
GRANT EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';

-- backup tool on the source, over the local socket
CREATE USER 'backup'@'localhost' IDENTIFIED BY '...';
GRANT RELOAD, PROCESS, LOCK TABLES, REPLICATION CLIENT ON *.* TO 'backup'@'localhost';

-- replication, from every instance of the cluster
CREATE USER 'repl'@'%' IDENTIFIED BY '...';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
"""

MYSQL = """\
-- dashboard: reads facts, compares data, attaches the new replica to the primary
CREATE USER 'dbops'@'DASHBOARD' IDENTIFIED BY '...';
CREATE USER 'dbops'@'localhost' IDENTIFIED BY '...';
GRANT SELECT, PROCESS, RELOAD, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
GRANT REPLICATION_SLAVE_ADMIN, SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for dumps, and for views, triggers and events in the certificate
GRANT SHOW VIEW, TRIGGER, EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for events that the target ran before: dbops enables them again
GRANT EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
GRANT SET_USER_ID ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';      -- before 8.2.0
GRANT SET_ANY_DEFINER ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';  -- from 8.2.0 on

-- backup tool on the source, over the local socket
CREATE USER 'backup'@'localhost' IDENTIFIED BY '...';
GRANT PROCESS, RELOAD, LOCK TABLES, REPLICATION CLIENT ON *.* TO 'backup'@'localhost';
GRANT BACKUP_ADMIN ON *.* TO 'backup'@'localhost';
GRANT SELECT ON performance_schema.log_status TO 'backup'@'localhost';
GRANT SELECT ON performance_schema.replication_group_members TO 'backup'@'localhost';
GRANT SELECT ON performance_schema.keyring_component_status TO 'backup'@'localhost';  -- from 8.0.24 on
-- only with MyISAM tables
GRANT SELECT ON *.* TO 'backup'@'localhost';

-- replication, from every instance of the cluster
CREATE USER 'repl'@'%' IDENTIFIED BY '...';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
"""

OLD_MYSQL = """\
-- dashboard: reads facts, compares data, attaches the new replica to the primary
CREATE USER 'dbops'@'DASHBOARD' IDENTIFIED BY '...';
CREATE USER 'dbops'@'localhost' IDENTIFIED BY '...';
GRANT SELECT, PROCESS, RELOAD, SUPER, REPLICATION SLAVE ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for dumps, and for views, triggers and events in the certificate
GRANT SHOW VIEW, TRIGGER, EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
-- only for dumps by MariaDB's program, which also reads the schema sys
GRANT EXECUTE ON sys.* TO 'dbops'@'localhost';
-- only for events that the target ran before: dbops enables them again
GRANT EVENT ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';

-- backup tool on the source, over the local socket
CREATE USER 'backup'@'localhost' IDENTIFIED BY '...';
GRANT RELOAD, PROCESS, REPLICATION CLIENT ON *.* TO 'backup'@'localhost';
-- only on Percona Server
GRANT LOCK TABLES ON *.* TO 'backup'@'localhost';

-- replication, from every instance of the cluster
CREATE USER 'repl'@'%' IDENTIFIED BY '...';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
"""

CLONE = """\
GRANT CREATE USER ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';
GRANT BACKUP_ADMIN ON *.* TO 'dbops'@'DASHBOARD', 'dbops'@'localhost' WITH GRANT OPTION;
GRANT INSERT, DELETE ON mysql.plugin TO 'dbops'@'DASHBOARD', 'dbops'@'localhost';   -- where the plugin is not installed permanently
"""

_STATEMENT = re.compile(r"((?:CREATE|GRANT)[^;]+);(?:[ ]*-- ([^\n]*))?")
#: What a line that begins with ``-- only`` says, by a short name.
OPTIONS = {
    "dumps": "for dumps, and for views, triggers and events in the certificate",
    "events": "for events that the target ran before: dbops enables them again",
    "myisam": "with MyISAM tables",
    "percona": "on Percona Server",
    "mariadb-dump": "for dumps by MariaDB's program, which also reads the schema sys",
    "clone": "for the method clone",
}


@dataclass(frozen=True, slots=True)
class AccountStatement:
    """One statement. ``option``: a key of ``OPTIONS`` that alone needs it; ``""``: every cluster does."""

    sql: str
    option: str = ""


def account_statements(flavor: Flavor, options: Collection[str] = ()) -> list[AccountStatement]:
    """Return the statements for a server, for its cluster's primary.

    ``DASHBOARD`` is a placeholder for the dashboard's address, ``'...'`` for a password.

    Args:
        options: keys of ``OPTIONS``. Statements of others are left out, and those that this flavor does not have.
    """
    found = list(_parsed(_block(flavor), flavor))
    if flavor.name == "mysql" and flavor.version >= (8, 0, 0):
        found += [AccountStatement(one.sql, "clone") for one in _parsed(CLONE, flavor)]
    return [one for one in found if not one.option or one.option in options]


def options_of(flavor: Flavor) -> list[str]:
    """Return the options that have statements on a server."""
    used = {one.option for one in account_statements(flavor, OPTIONS)}
    return [name for name in OPTIONS if name in used]


def _block(flavor: Flavor) -> str:
    if flavor.name == "mysql":
        return MYSQL if flavor.version >= (8, 0, 0) else OLD_MYSQL
    return MARIADB if flavor.version >= (10, 5, 0) else OLD_MARIADB


def _parsed(block: str, flavor: Flavor) -> Iterator[AccountStatement]:
    names, option = {text: name for name, text in OPTIONS.items()}, ""
    for line in re.split(r"\n(?=--|CREATE|GRANT|\n)", f"\n{block}"):
        found = _STATEMENT.match(line.strip())
        if comment := re.match(r"\s*-- (.*)", line):
            option = names[comment[1].removeprefix("only ")] if comment[1].startswith("only ") else ""
        elif found and _has(flavor, found[2] or ""):
            yield AccountStatement(" ".join(found[1].split()), option)


def _has(flavor: Flavor, note: str) -> bool:
    """Return whether a version has the statement with this note behind it."""
    if found := re.match(r"(from|before) (\d+\.\d+\.\d+)", note):
        return (flavor.version >= parse_version(found[2])) is (found[1] == "from")
    return True
