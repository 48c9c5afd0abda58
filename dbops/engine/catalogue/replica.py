"""Errors between the copy and a running replica: resume, roll back, prepare, start, replicate, verify."""

from dbops.engine.catalogue.entries import UNCHANGED, CatalogueSection, cancelled, host, operator

_UNUSABLE = "The copy is unusable. The outcome says where the old data is."
_KEPT = "The target runs on the new data, read-only, and replicates. The old data is not removed. The outcome says where it is."
_NEW_DATA = "The target runs on the new data. The outcome says where the old data is."

_RESUME = (
    operator(
        "old.not_found",
        "The old data can't be rolled back: its directory is missing or is another one.",
        "This attempt changed nothing.",
        "Check the host. If the old data is gone, rebuild again.",
    ),
    operator(
        "resume.changed",
        "The rebuild can't be resumed: copy, target, source or primary have changed since it failed.",
        "This attempt changed nothing.",
        "Review the differences. Then plan a new rebuild or roll back to the old data.",
    ),
)

_START = (
    host(
        "prepare.no_backup",
        "The directory to prepare contains no complete backup.",
        _UNUSABLE,
        "Rebuild again.",
    ),
    host(
        "prepare.not_completed",
        "The backup tool could not apply the redo log.",
        _UNUSABLE,
        "Read the log of the step. Usual causes are too little memory and a full disk. Then rebuild again.",
    ),
    host(
        "prepare.state",
        "The copy is not marked as prepared.",
        _UNUSABLE,
        "Rebuild again. If the error persists, install the backup tool of the source's version on the target.",
    ),
    host(
        "start.timeout",
        "The start command did not return in time.",
        "The new data is complete and prepared. The outcome says where the old data is.",
        "Check the server's error log on the host. Then resume the rebuild, or rebuild again.",
    ),
    host(
        "start.identity",
        "The server at the target's address has another server ID or port than the target's option file.",
        "A server is running, on the new data or elsewhere. The outcome shows the current state.",
        "Check which server answers at this address. Correct address, port and `defaults_file` in the inventory.",
    ),
    host(
        "start.uuid",
        "The started server has the source's UUID.",
        "The target runs on the new data and does not replicate. The outcome says where the old data is.",
        "Stop the server, remove `auto.cnf` from the data directory, and rebuild again.",
    ),
    host(
        "target.server_died",
        "The target's host answers, but its server has not been running for a minute.",
        "The copy is in place. The outcome shows the current state.",
        "Check the server's error log. Then resume the rebuild, or roll back to the old data.",
    ),
    host(
        "copy.worthless",
        "The server or host stopped while durability settings were relaxed. The copy may lack data.",
        "The copy must not be used, even if a server runs on it. The outcome says where the old data is.",
        "Rebuild again, or roll back. This copy can't be resumed. `DBOPS_RELAX_DURABILITY=0` turns relaxed settings off. "
        "See catch-up.md.",
    ),
    host(
        "quiet.not_back",
        "A setting that kept the copy quiet could not be restored to its earlier value.",
        "The target replicates from the primary and is still quiet. Its old data is kept.",
        "Set the variable that the message names, or restart the target's server. Then resume the rebuild.",
    ),
    host(
        "relaxed.not_back",
        "A setting that dbops relaxed could not be restored to its earlier value.",
        "The target runs on the new data with relaxed settings. The clean-up tries again.",
        "Restart the target's server, or set the variable manually.",
    ),
)

_REPLICATION = (
    host(
        "replication.error",
        "Replication stopped with an error, or is not set up.",
        "The target runs on the new data, read-only, and does not replicate. The outcome says where the old data is.",
        "Fix the error, then resume or rebuild again. 1236: keep binary logs longer. 1045: correct the replication account. "
        "1062 or 1032 right after a copy: please report it.",
    ),
    host(
        "replication.account",
        "The replication account can't log in from the target the way replication will.",
        UNCHANGED,
        "Correct the account, its host, its password or its TLS. `REQUIRE SSL`: set `replication_tls` of the instance. "
        "A plugin that can't be loaded: install it in the server's `plugin_dir` on the target.",
    ),
    host(
        "replication.changed",
        "The copy no longer follows the server to which dbops attached it, and without GTID its position there is unknown.",
        "The target runs on the new data, read-only. The outcome says where the old data is.",
        "Find out who repointed the target. Then rebuild again or roll back: attaching it once more would apply transactions twice.",
    ),
    host(
        "replication.not_kept",
        "The target does not replicate with the settings that the plan names.",
        "The target runs on the new data, read-only. The old data is not removed. The outcome says where it is.",
        "Compare the settings with the plan. Set what differs on the target, then resume. Or roll back to the old data.",
    ),
    host(
        "repoint.not_primary",
        "The planned primary is no longer the primary. This usually follows a failover.",
        "The target serves and replicates from the source.",
        "Correct the roles in the inventory and wait for a probe. Then resume the rebuild: it uses the current primary.",
    ),
    host(
        "repoint.no_common_point",
        "Target and source did not reach a common position while the source was paused, in ten tries.",
        "The target serves and replicates from the source, which replicates as before.",
        "Check why the target falls behind, or what writes to the source or rotates its binary log. Then resume the rebuild.",
    ),
    host(
        "repoint.errant",
        "The copy contains transactions that the primary does not have. The message says which server wrote them.",
        "The target serves, read-only, and replicates from the source. The outcome says where the old data is.",
        "Find out what wrote them on the server that the message names. If it is the source, rebuild the source as well.",
    ),
    host(
        "verify.lag",
        "The replica did not stay within the lag limit.",
        "The replica serves and replicates from the primary. Its old data is kept.",
        "Find out why the replica falls behind. The copy is complete, so nothing needs to be copied again.",
    ),
    host(
        "verify.identity",
        "At the end, the target had another server ID than planned, or accepted writes.",
        _NEW_DATA,
        "Find out what changed it. Correct it manually (`SET GLOBAL read_only = 1`), or rebuild again.",
    ),
)

_CERTIFICATE = (
    host(
        "certificate.differs",
        "Objects of the copy differ from the compared server: schemas, tables, columns, indexes, routines, accounts and others.",
        _KEPT,
        "Find out what is missing or changed: the message and the rebuild's page name it. If the compared server is right, rebuild "
        "again or roll back. If the copy is right, correct the other server and resume. See certificate.md.",
    ),
    host(
        "certificate.unreadable",
        "Tables of the copy cannot be read, and the compared server can read them.",
        _KEPT,
        "Read the server's error in the message. Usual causes are a missing encryption key, a file outside the data directory, and "
        "a damaged page. Correct the cause and resume, or roll back.",
    ),
    host(
        "certificate.rows_differ",
        "Rows of the copy differ from the compared server.",
        _KEPT,
        "Compare the named tables on the primary, the source and the target. If the source differs from the primary, rebuild the "
        "source as well. Then rebuild again, or roll back.",
    ),
)

_SERVES = "The replica serves and replicates. The rebuild stays succeeded."

_COMPARISON = (
    host(
        "comparison.differs",
        "Rows of the copy differ from the compared server. The comparison that continued after the rebuild found them.",
        _SERVES + " The old data is removed.",
        "Compare the named tables on the primary, the source and the target. If the source differs from the primary, rebuild the "
        "source first. Then rebuild this replica again.",
    ),
    host(
        "comparison.not_possible",
        "The rest of the rows could not be compared.",
        _SERVES,
        "The message says why. To compare all rows, correct it and rebuild again with the full certificate.",
    ),
    host(
        "comparison.replication",
        "The replica replicates from another server than after its rebuild, or no longer.",
        _SERVES.partition(".")[2].strip() + " The comparison has ended.",
        "No action is needed if a person or a failover changed it. Rebuild again to compare all rows.",
    ),
    host(
        "comparison.other_server",
        "Another server than after the rebuild answers at an address.",
        "Nothing was changed there. The comparison has ended.",
        "Check addresses and ports in the inventory, and which server listens there.",
    ),
    cancelled(
        "comparison.superseded",
        "The comparison ended before it was complete: a rebuild of the same instance started.",
        "What was compared until then is on the page of the earlier rebuild.",
        "No action is needed. The new rebuild has its own certificate.",
    ),
    cancelled(
        "comparison.cancelled",
        "A user ended the comparison of all rows.",
        _SERVES,
        "Rebuild again with the full certificate if you need it.",
    ),
    operator(
        "comparison.ended",
        "The comparison has ended, or its end was requested.",
        UNCHANGED,
        "No action is needed.",
    ),
)

SECTIONS = (
    CatalogueSection("Resume and roll back", _RESUME),
    CatalogueSection("Prepare and start", _START),
    CatalogueSection("Replication", _REPLICATION),
    CatalogueSection("Certificate", _CERTIFICATE),
    CatalogueSection("Comparison after the rebuild", _COMPARISON),
)
