"""MariaDB 10.6 or newer, with GTID replication: installed, or 11.8 unpacked into a folder (``lab.unpacked``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lab.checks import current_user, need_programs
from lab.errors import LabError
from lab.flavors.base import (
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
from lab.unpacked import MARIADB_11_8

#: Privileges of the dashboard: read everything, control replication, set variables, end sessions, read and restore a
#: dump; no GRANT OPTION.
ADMIN_GRANT = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, "
    "ALTER ROUTINE, EXECUTE, TRIGGER, EVENT, LOCK TABLES, CREATE TEMPORARY TABLES, SHOW DATABASES, RELOAD, SHUTDOWN, "
    "PROCESS, SUPER, BINLOG MONITOR, BINLOG ADMIN, BINLOG REPLAY, SLAVE MONITOR, REPLICATION SLAVE, "
    "REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, READ_ONLY ADMIN, CONNECTION ADMIN, SET USER ON *.*"
)
#: Minimum for mariadb-backup with --slave-info, found by removing one privilege at a time: without SLAVE MONITOR the
#: backup fails only at the end. https://mariadb.com/kb/en/mariadb-backup-overview/
BACKUP_GRANT = "RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR, SLAVE MONITOR ON *.*"


class MariaDB(Flavor):
    name = "mariadb"
    server_programs: ClassVar[dict[str, str]] = {
        "mariadbd": "mariadb-server-core",
        "mariadb-install-db": "mariadb-server-core",
        "mariadb": "mariadb-client-core",
        "mariadb-admin": "mariadb-client",
        "mariadb-backup": "mariadb-backup",
        "mbstream": "mariadb-backup",
    }
    fill_options = (
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-log-file-size=64M",
    )
    show_replication = "SHOW ALL SLAVES STATUS"
    gtid_query = "SELECT @@global.gtid_current_pos"
    gtid_wait = "SELECT MASTER_GTID_WAIT(%s, %s)"

    @property
    def server(self) -> str:
        return self.programs["mariadbd"]

    @property
    def admin(self) -> str:
        return self.programs["mariadb-admin"]

    def config(self, plan: ServerPlan) -> str:
        options: dict[str, str | int | Path | None] = {"user": plan.user} if plan.as_root else {}
        options |= {
            "server-id": plan.server_id,
            "bind-address": plan.address,
            "port": plan.port,
            "socket": plan.socket,
            "pid-file": plan.pid_file,
            "datadir": plan.data_dir,
            # a starting server removes every temporary table in its directory, including those of other servers
            "tmpdir": plan.tmp_dir,
            "log-error": plan.error_log,
            "skip-name-resolve": None,
            "performance-schema": "OFF",
            "read-only": "OFF" if plan.role == "primary" else "ON",
            # replication
            "log-bin": "binlog",
            "log-slave-updates": "ON",
            "binlog-format": "ROW",
            "max-binlog-size": "128M",
            "binlog-expire-logs-seconds": 86400,
            "gtid-domain-id": 0,
            # a wrong write on a replica stops replication immediately, not weeks later
            "gtid-strict-mode": "ON",
            "relay-log": "relay",
            "report-host": plan.address,
            "report-port": plan.port,
            "slave-net-timeout": 10,
            "slave-parallel-threads": plan.parallel_appliers,
            # a lab's data is disposable, and all hosts share one disk
            "sync-binlog": 0,
            "innodb-flush-log-at-trx-commit": 2,
            "innodb-buffer-pool-size": "128M",
            "innodb-log-file-size": plan.redo_bytes,
        }
        return config_text(options | self.own_options(), plan.socket)

    def own_options(self) -> dict[str, str | int | Path | None]:
        """Return the ``my.cnf`` options of a server that is not installed."""
        return {}

    def initialise(self, plan: ServerPlan) -> None:
        # without --auth-root-socket-user, the user who runs the lab becomes the superuser
        owner = [f"--user={plan.user}"] if plan.as_root else [f"--auth-root-socket-user={current_user()}"]
        run(
            [
                self.programs["mariadb-install-db"],
                f"--defaults-file={plan.config_file}",
                *owner,
                "--auth-root-authentication-method=socket",
                "--skip-test-db",
                "--skip-name-resolve",
            ]
        )

    def superuser_client(self, plan: ServerPlan) -> list[str]:
        return [self.programs["mariadb"], "--no-defaults", f"--socket={plan.socket}", f"--user={current_user()}"]

    def account_statements(self, accounts: Mapping[str, Account]) -> list[str]:
        return create_accounts(
            accounts,
            {
                "owner": ("ALL PRIVILEGES ON *.*",),
                "admin": (ADMIN_GRANT,),
                "replication": ("REPLICATION SLAVE ON *.*",),
                "backup": (BACKUP_GRANT,),
                "load": (f"ALL PRIVILEGES ON {SCHEMA}.*",),
            },
        )

    def replicate_statements(self, address: str, port: int, account: Account) -> list[tuple[str, tuple[Any, ...]]]:
        change = (
            "CHANGE MASTER TO MASTER_HOST=%s, MASTER_PORT=%s, MASTER_USER=%s, MASTER_PASSWORD=%s, "
            "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=2"
        )
        return [(change, (address, port, account.user, account.password)), ("START SLAVE", ())]

    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationStatus:
        return ReplicationStatus(
            source=f"{row['Master_Host']}:{row['Master_Port']}",
            io_running=row["Slave_IO_Running"] == "Yes",
            sql_running=row["Slave_SQL_Running"] == "Yes",
            lag_seconds=row["Seconds_Behind_Master"],
            error=row["Last_SQL_Error"] or row["Last_IO_Error"] or "",
        )


class MariaDB118(MariaDB):
    """MariaDB 11.8 in its own folder, beside the machine's MariaDB; its programs come first on the host's ``PATH``."""

    name = "mariadb-11.8"

    def __init__(self) -> None:
        folder = MARIADB_11_8.folder()
        if folder is None:
            raise LabError(f"--flavor {self.name}: {MARIADB_11_8.why_not()}")
        self.prefix = folder
        self.programs = need_programs(COMMON_PROGRAMS) | MARIADB_11_8.programs(folder)

    @property
    def host_programs(self) -> dict[str, str]:
        return MARIADB_11_8.programs(self.prefix)

    def own_options(self) -> dict[str, str | int | Path | None]:
        return {
            "basedir": self.prefix / "usr",
            "lc-messages-dir": self.prefix / "usr/share/mariadb",
            "character-sets-dir": self.prefix / "usr/share/mariadb/charsets",
        }
