"""MySQL 5.7 and 8.0, unpacked into folders (``lab.unpacked``): ``mysqld`` alone, without clients and plugins.

Without ``auth_socket``, each host has accounts of its own. Percona XtraBackup 2.4 is used with 5.7 if it is here.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lab.checks import find_program, need_programs
from lab.errors import LabError
from lab.flavors.base import (
    COMMON_PROGRAMS,
    SCHEMA,
    Account,
    ReplicationStatus,
    ServerPlan,
    create_accounts,
    host_accounts,
)
from lab.flavors.mysql import MySQL
from lab.secrets import HOSTS_WITH_ACCOUNTS
from lab.unpacked import MYSQL, MYSQL_5_7, MYSQL_8_0, Unpacked

#: Environment variable with the folder of the programs of Percona XtraBackup 2.4, instead of PATH.
XTRABACKUP_VARIABLE = "DBOPS_TEST_XTRABACKUP_2_4"
#: Environment variable with the folder of MySQL 5.7's own clients, where a machine has them.
CLIENTS_VARIABLE = "DBOPS_TEST_MYSQL_5_7_CLIENTS"
#: Everything that the dashboard does on a replica and a dump reads; of no version's dynamic privileges.
_STATIC = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, "
    "ALTER ROUTINE, EXECUTE, TRIGGER, EVENT, LOCK TABLES, CREATE TEMPORARY TABLES, SHOW DATABASES, RELOAD, SHUTDOWN, "
    "PROCESS, REPLICATION CLIENT, REPLICATION SLAVE, CREATE USER"
)


class OldMySQL(MySQL):
    """What 5.7 and 8.0 before 8.0.22 share: the old words of replication."""

    unpacked: ClassVar[Unpacked]
    admin_grants: ClassVar[tuple[str, ...]]
    backup_grants: ClassVar[tuple[str, ...]]
    own_accounts = True
    by_socket = ()
    fill_options = ("--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite")
    show_replication = "SHOW SLAVE STATUS"

    def __init__(self) -> None:
        self.folder = self.unpacked.folder()
        if self.folder is None:
            raise LabError(self.unpacked.why_not())
        self.programs = need_programs(COMMON_PROGRAMS | self.client_packages) | self.host_programs

    #: Client programs of the machine that serve this series, with their Debian packages.
    client_packages: ClassVar[dict[str, str]] = {}

    @property
    def host_programs(self) -> dict[str, str]:
        if self.folder is None:
            raise LabError(self.unpacked.why_not())
        return self.unpacked.programs(self.folder)

    def options_of_series(self, plan: ServerPlan) -> dict[str, str | int | Path | None]:
        if self.folder is None:
            raise LabError(self.unpacked.why_not())
        return {
            "log-slave-updates": "ON",
            # a copied data directory contains the source's replication settings and would use them
            "skip-slave-start": "ON",
            "slave-net-timeout": 10,
            "slave-parallel-type": "LOGICAL_CLOCK",
            "slave-parallel-workers": plan.parallel_appliers,
            "master-info-repository": "TABLE",
            "relay-log-info-repository": "TABLE",
            "innodb-log-file-size": max(plan.redo_bytes // 2, 8 * 1024**2),
            "basedir": self.folder,
            "lc-messages-dir": self.folder / "share",
            "character-sets-dir": self.folder / "share/charsets",
        }

    def account_statements(self, accounts: Mapping[str, Account]) -> list[str]:
        grants: dict[str, tuple[str, ...]] = {
            "owner": ("ALL PRIVILEGES ON *.*",),
            "admin": self.admin_grants,
            "replication": ("REPLICATION SLAVE ON *.*",),
            "backup": self.backup_grants,
            "load": (f"ALL PRIVILEGES ON {SCHEMA}.*",),
        }
        statements = create_accounts(accounts, grants)
        for number in HOSTS_WITH_ACCOUNTS:
            own = host_accounts(accounts, number)
            for key, granted in (("local", self.admin_grants), ("backup", self.backup_grants)):
                name = f"'{own[key].user}'@'localhost'"
                statements.append(f"CREATE USER {name} IDENTIFIED BY '{own[key].password}'")
                statements += [f"GRANT {grant} TO {name}" for grant in granted]
        return statements

    def replicate_statements(self, address: str, port: int, account: Account) -> list[tuple[str, tuple[Any, ...]]]:
        change = (
            "CHANGE MASTER TO MASTER_HOST=%s, MASTER_PORT=%s, MASTER_USER=%s, MASTER_PASSWORD=%s, "
            f"MASTER_AUTO_POSITION=1, {self.replication_words}MASTER_CONNECT_RETRY=2"
        )
        return [(change, (address, port, account.user, account.password)), ("START SLAVE", ())]

    #: Further words of the statement, each with a comma at its end.
    replication_words: ClassVar[str] = ""

    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationStatus:
        return ReplicationStatus(
            source=f"{row['Master_Host']}:{row['Master_Port']}",
            io_running=row["Slave_IO_Running"] == "Yes",
            sql_running=row["Slave_SQL_Running"] == "Yes",
            lag_seconds=row["Seconds_Behind_Master"],
            error=row["Last_SQL_Error"] or row["Last_IO_Error"] or "",
        )

    def resume_statements(self) -> list[str]:
        return ["START SLAVE"]


class MySQL57(OldMySQL):
    """MySQL 5.7 with MariaDB's clients, as on a host with Debian's ``default-mysql-client``."""

    name = "mysql-5.7"
    unpacked = MYSQL_5_7
    client_packages: ClassVar[dict[str, str]] = {
        "mysql": "mariadb-client",
        "mysqladmin": "mariadb-client",
        "mysqldump": "mariadb-client",
        "my_print_defaults": "mariadb-client",
    }
    admin_grants = (f"{_STATIC}, SUPER ON *.*",)
    backup_grants = ("RELOAD, LOCK TABLES, PROCESS, REPLICATION CLIENT ON *.*",)

    @property
    def host_programs(self) -> dict[str, str]:
        return super().host_programs | own_clients() | xtrabackup_programs()

    def options_of_series(self, plan: ServerPlan) -> dict[str, str | int | Path | None]:
        return super().options_of_series(plan) | {"expire-logs-days": 1}


class MySQL80(OldMySQL):
    """MySQL 8.0.15 with the clients of 9.7."""

    name = "mysql-8.0"
    unpacked = MYSQL_8_0
    admin_grants = (
        f"{_STATIC} ON *.*",
        "REPLICATION_SLAVE_ADMIN, SYSTEM_VARIABLES_ADMIN, SESSION_VARIABLES_ADMIN, BINLOG_ADMIN, CONNECTION_ADMIN, "
        "BACKUP_ADMIN ON *.*",
    )
    backup_grants = (
        "BACKUP_ADMIN, PROCESS, RELOAD, LOCK TABLES, REPLICATION CLIENT ON *.*",
        "SELECT ON performance_schema.log_status",
        "SELECT ON performance_schema.replication_group_members",
    )
    replication_words = "MASTER_SSL=1, "

    @property
    def host_programs(self) -> dict[str, str]:
        clients = MYSQL.folder()
        if clients is None:
            raise LabError(MYSQL.why_not())
        return MYSQL.programs(clients) | super().host_programs

    def options_of_series(self, plan: ServerPlan) -> dict[str, str | int | Path | None]:
        return super().options_of_series(plan) | {"mysqlx": "OFF", "binlog-expire-logs-seconds": 86400}


def own_clients() -> dict[str, str]:
    """Return the clients of MySQL 5.7; empty if they are not here."""
    folder = os.environ.get(CLIENTS_VARIABLE)
    return {path.name: str(path) for path in sorted(Path(folder).iterdir())} if folder else {}


def xtrabackup_programs() -> dict[str, str]:
    """Return the programs of XtraBackup 2.4; empty if they are not here."""
    folder = os.environ.get(XTRABACKUP_VARIABLE)
    places = {name: str(Path(folder, name)) if folder else find_program(name) for name in ("xtrabackup", "xbstream")}
    found = {name: path for name, path in places.items() if path and Path(path).is_file()}
    return found if len(found) == len(places) else {}
