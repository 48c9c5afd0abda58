"""Decide whether replication on the source must be paused during the copy."""

from dbops.engine.facts.instance import ServerFacts
from dbops.engine.flavors.versions import parse_version
from dbops.engine.flavors.write_lock import when_writes_wait
from dbops.engine.phrases import phrase


def needs_pause(server: ServerFacts) -> tuple[bool, str]:
    """Return whether the source's applier must be paused during the copy, and the reason as a sentence.

    Consistency never needs a pause: redo and a short lock at the end ensure it. A pause is needed if the copy lacks state of the
    applier. Temporary tables of statement-based replication are in no copied file (XtraBackup's option reference,
    --safe-slave-backup). With parallel appliers without GTID MySQL's executed position is only a low-water mark, so XtraBackup
    refuses --slave-info. MariaDB commits in order without GTID, and from 10.5 on takes its position under BACKUP STAGE
    BLOCK_COMMIT. A pause does not close temporary tables: wait until none is open.
    """
    if not server.replication:
        return False, phrase("The source does not replicate, so there is no applier to pause.")
    temporary = sum(link.open_temp_tables for link in server.replication)
    if temporary:
        return True, phrase(
            "The applier holds {temporary} temporary tables open; no copy contains them, and later statements "
            "need them.",
            temporary=temporary,
        )
    if server.binlog_format.upper() == "STATEMENT":
        return True, phrase(
            "Replication is statement-based: temporary tables that the applier holds open would be missing in the copy."
        )
    if server.parallel_workers and not server.gtid_enabled and not _commits_in_order(server):
        return True, phrase(
            "{parallel_workers} parallel appliers without GTID: while they run, the source has no single position.",
            parallel_workers=server.parallel_workers,
        )
    if server.flavor == "mariadb":
        return False, phrase(
            "The backup takes its position in a short lock at its end (BACKUP STAGE); replication continues."
        )
    if not server.gtid_enabled:
        return False, phrase(
            "One applier, and no temporary tables: a short lock at the end gives the position; replication continues."
        )
    if sum(server.foreign_engines.values()):
        return False, phrase(
            "Positions are kept by GTID; tables that are not InnoDB hold the applier up for a short lock at the end."
        )
    if when_writes_wait(server)[0]:
        return False, phrase(
            "Positions are kept by GTID; the tool's global read lock holds the applier up at the end of each run."
        )
    return False, phrase("Positions are kept by GTID and the tables are InnoDB; replication continues.")


def _commits_in_order(server: ServerFacts) -> bool:
    return server.flavor == "mariadb" and parse_version(server.version) >= (10, 5, 0)
