"""MySQL 8.0.30 or newer, installed or unpacked into a folder (``lab.unpacked``). Tested with 9.7.4.

Percona XtraBackup is used if installed; without it, replicas are rebuilt by clone or dump.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lab.checks import current_user, need_programs, server_user
from lab.errors import LabError
from lab.flavors.base import (
    ANY_LAB_HOST,
    COMMON_PROGRAMS,
    SCHEMA,
    Account,
    Flavor,
    ReplicationStatus,
    ServerPlan,
    config_text,
    create_accounts,
)
from lab.processes import run
from lab.unpacked import HOW, MYSQL, installed_mysql

#: Like MariaDB's privileges; CLONE_ADMIN and BACKUP_ADMIN for the clone plugin.
ADMIN_GRANTS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, "
    "ALTER ROUTINE, EXECUTE, TRIGGER, EVENT, LOCK TABLES, CREATE TEMPORARY TABLES, SHOW DATABASES, RELOAD, SHUTDOWN, "
    "PROCESS, REPLICATION CLIENT, REPLICATION SLAVE, CREATE USER ON *.*",
    "REPLICATION_SLAVE_ADMIN, SYSTEM_VARIABLES_ADMIN, SESSION_VARIABLES_ADMIN, BINLOG_ADMIN, CONNECTION_ADMIN, "
    "BACKUP_ADMIN, CLONE_ADMIN ON *.*",
)
#: https://docs.percona.com/percona-xtrabackup/8.4/privileges.html; SELECT on log_status is required
BACKUP_GRANTS = (
    "BACKUP_ADMIN, PROCESS, RELOAD, LOCK TABLES, REPLICATION CLIENT ON *.*",
    "SELECT ON performance_schema.log_status",
    "SELECT ON performance_schema.keyring_component_status",
    "SELECT ON performance_schema.replication_group_members",
)


class MySQL(Flavor):
    name = "mysql"
    server_programs: ClassVar[dict[str, str]] = {
        "mysqld": "mysql-server-core",
        "mysql": "mysql-client-core",
        "mysqladmin": "mysql-client",
    }
    #: folder of the unpacked programs, ``None`` if they are installed
    prefix: Path | None = None
    fill_options: tuple[str, ...] = (
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=OFF",
        "--innodb-redo-log-capacity=64M",
    )
    by_socket: ClassVar[tuple[str, ...]] = ("admin", "backup")
    show_replication = "SHOW REPLICA STATUS"
    gtid_query = "SELECT REPLACE(@@global.gtid_executed, '\\n', '')"
    gtid_wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"

    def __init__(self) -> None:
        self.prefix = None if installed_mysql() else MYSQL.folder()
        if self.prefix:
            self.programs = need_programs(COMMON_PROGRAMS)
            self.programs |= MYSQL.programs(self.prefix)
        elif installed_mysql():
            super().__init__()
        else:  # MariaDB's packages also install a mysqld
            raise LabError(f"--flavor mysql needs MySQL's own programs: {HOW}")

    @property
    def server(self) -> str:
        return self.programs["mysqld"]

    @property
    def admin(self) -> str:
        return self.programs["mysqladmin"]

    @property
    def host_programs(self) -> dict[str, str]:
        return MYSQL.programs(self.prefix) if self.prefix else {}

    def config(self, plan: ServerPlan) -> str:
        options: dict[str, str | int | Path | None] = {"user": plan.user} if plan.as_root else {}
        options |= {
            "server-id": plan.server_id,
            "bind-address": plan.address,
            "port": plan.port,
            "socket": plan.socket,
            "pid-file": plan.pid_file,
            "datadir": plan.data_dir,
            "tmpdir": plan.tmp_dir,
            "log-error": plan.error_log,
            "secure-file-priv": "",
            "skip-name-resolve": "ON",
            "read-only": "OFF" if plan.role == "primary" else "ON",
            "log-bin": "binlog",
            "gtid-mode": "ON",
            "enforce-gtid-consistency": "ON",
            "max-binlog-size": "128M",
            "relay-log": "relay",
            "report-host": plan.address,
            "report-port": plan.port,
            "sync-binlog": 0,
            "innodb-flush-log-at-trx-commit": 2,
            "innodb-buffer-pool-size": "128M",
            # performance_schema takes memory for as many as there can be: 540 MB with the defaults of 9.7, 430 MB with these
            "max-connections": 100,
            "table-open-cache": 400,
            "table-definition-cache": 400,
            # each server would take 2,600 of the machine's requests (fs.aio-max-nr): too few for several labs
            "innodb-use-native-aio": "OFF",
        }
        return config_text(options | self.options_of_series(plan), plan.socket)

    def options_of_series(self, plan: ServerPlan) -> dict[str, str | int | Path | None]:
        """Return the options whose names or defaults differ between series."""
        options: dict[str, str | int | Path | None] = {
            "mysqlx": "OFF",
            "log-replica-updates": "ON",
            "binlog-expire-logs-seconds": 86400,
            # a copied data directory contains the source's replication settings and would use them
            "skip-replica-start": "ON",
            "replica-net-timeout": 10,
            "plugin-load-add": "auth_socket.so",
            "replica-parallel-workers": max(1, plan.parallel_appliers),
            "innodb-redo-log-capacity": plan.redo_bytes,
        }
        if self.prefix:
            options |= {
                "basedir": self.prefix / "usr",
                "lc-messages-dir": self.prefix / "usr/share/mysql",
                "character-sets-dir": self.prefix / "usr/share/mysql/charsets",
                "plugin-dir": self.prefix / "usr/lib/mysql/plugin",
            }
        return options

    def initialise(self, plan: ServerPlan) -> None:
        run([self.server, f"--defaults-file={plan.config_file}", "--initialize-insecure"], timeout_seconds=300)

    def superuser_client(self, plan: ServerPlan) -> list[str]:
        return [self.programs["mysql"], "--no-defaults", f"--socket={plan.socket}", "--user=root"]

    def account_statements(self, accounts: Mapping[str, Account]) -> list[str]:
        statements = create_accounts(
            accounts,
            {
                "owner": ("ALL PRIVILEGES ON *.*",),
                "admin": ADMIN_GRANTS,
                "replication": ("REPLICATION SLAVE ON *.*",),
                "backup": BACKUP_GRANTS,
                "load": (f"ALL PRIVILEGES ON {SCHEMA}.*",),
            },
        )
        # for the account of a clone on its donor
        admin = accounts["admin"].user
        names = [f"'{admin}'@'{host}'" for host in ("localhost", ANY_LAB_HOST)]
        statements += [
            f"ALTER USER '{accounts[key].user}'@'localhost' IDENTIFIED WITH auth_socket AS '{system_account}'"
            for key, system_account in zip(self.by_socket, (current_user(), server_user()), strict=True)
        ]
        return [*statements, *(f"GRANT BACKUP_ADMIN ON *.* TO {name} WITH GRANT OPTION" for name in names)]

    def replicate_statements(self, address: str, port: int, account: Account) -> list[tuple[str, tuple[Any, ...]]]:
        change = (
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST=%s, SOURCE_PORT=%s, SOURCE_USER=%s, SOURCE_PASSWORD=%s, "
            "SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=2"
        )
        return [(change, (address, port, account.user, account.password)), ("START REPLICA", ())]

    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationStatus:
        return ReplicationStatus(
            source=f"{row['Source_Host']}:{row['Source_Port']}",
            io_running=row["Replica_IO_Running"] == "Yes",
            sql_running=row["Replica_SQL_Running"] == "Yes",
            lag_seconds=row["Seconds_Behind_Source"],
            error=row["Last_SQL_Error"] or row["Last_IO_Error"] or "",
        )

    def resume_statements(self) -> list[str]:
        return ["START REPLICA"]

    def own_files(self, data_dir: Path) -> list[Path]:
        return [data_dir / "auto.cnf"]


class MySQL97(MySQL):
    """MySQL 9.7, also where another MySQL is installed."""

    name = "mysql-9.7"

    def __init__(self) -> None:
        self.prefix = MYSQL.folder()
        if self.prefix is None:
            raise LabError(MYSQL.why_not())
        self.programs = need_programs(COMMON_PROGRAMS) | MYSQL.programs(self.prefix)
