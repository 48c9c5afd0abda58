"""A plan and the traces of good runs, of both methods."""

import base64
from datetime import UTC, datetime
from typing import Any

from dbops.engine.backups.plan import BackupPlan, BackupSettings, plan_backup
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.ports import JobState
from dbops.engine.states import BackupMethod
from tests.engine import builders
from tests.fakes import ended

SHA = "ab" * 32
STARTED = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
RUN_DIRECTORY = "/var/lib/dbops/rebuilds/0123456789abcdef"
STAGES = {
    BackupMethod.PHYSICAL: ("tool", "compress", "write", "sum"),
    BackupMethod.DUMP: ("tool", "see", "compress", "write", "sum"),
}
INFO = (
    "uuid = 1\ntool_version = 10.11.19\n"
    "binlog_pos = filename 'binlog.000004', position '4711', GTID of the last change '0-1-99'\n"
)


def asked(method: BackupMethod = BackupMethod.PHYSICAL, **values: Any) -> BackupSettings:
    given: dict[str, Any] = {
        "run_id": "0123456789abcdef",
        "instance": "backup-1",
        "schedule": "nightly",
        "method": method,
        "directory": "/backups",
        "defaults_file": "/etc/mysql/my.cnf",
    }
    return BackupSettings(**(given | values))


def plan(method: BackupMethod = BackupMethod.PHYSICAL, facts: InstanceFacts | None = None, **values: Any) -> BackupPlan:
    return plan_backup(
        asked(method, **values), facts or builders.facts(12), started_at=STARTED, run_directory=RUN_DIRECTORY
    )


def files(method: BackupMethod = BackupMethod.PHYSICAL, **values: str | None) -> str:
    """Return what the job leaves in ``log.files``; ``None`` leaves one out."""
    found: dict[str, str | None] = {
        "facts": f"bytes=1000\nidentity=8:77\nsha256={SHA}\ntool=mariadb-backup 10.11.19\nprogram=/usr/bin/mariadb-backup"
    }
    if method is BackupMethod.PHYSICAL:
        found |= {
            "log": "[00] 2026-03-29 01:30:00 Backup created\n[00] 2026-03-29 01:31:00 completed OK!",
            "xtrabackup_info": INFO,
            "xtrabackup_checkpoints": "backup_type = full-backuped\nto_lsn = 10\nlast_lsn = 12\n",
        }
    else:
        found |= {
            "log": "",
            "end": "-- Dump completed on 2026-03-29 01:31:00",
            "position": "-- CHANGE MASTER TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=743;\n"
            "-- SET GLOBAL gtid_slave_pos='0-7-3';\n",
        }
    found |= {name.replace("_OR_", "."): value for name, value in values.items()}
    return "".join(
        f"{name} {base64.b64encode(text.encode()).decode()}\n" for name, text in found.items() if text is not None
    )


def state(method: BackupMethod = BackupMethod.PHYSICAL, **stages: int) -> JobState:
    """Return the state of a job whose stages ended with status 0 but for those given."""
    statuses = dict.fromkeys(STAGES[method], 0) | stages
    return ended(1 if any(statuses.values()) else 0, stages=statuses)
