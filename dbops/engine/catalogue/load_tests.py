"""Errors of load tests."""

from dbops.engine.catalogue.entries import NOT_WRITTEN, SAY_WHY, UNCHANGED, CatalogueSection, cancelled, host, operator

_REMOVED = "The scratch server and all files of the load test are removed. No serving server was touched."

#: Of the load and its measurement.
_MEASURING = (
    operator(
        "load_test.statement",
        "A statement of the load is not one that a load test may send, or there are none or too many.",
        UNCHANGED,
        "Use SELECT, INSERT, UPDATE, DELETE, REPLACE and WITH statements that read and write no files.",
    ),
    operator(
        "load_test.table",
        "The table for inserts, or a range of its keys, is not usable.",
        UNCHANGED,
        "Enter one CREATE TABLE statement, and ranges of 64-bit integers.",
    ),
    operator(
        "load_test.digests",
        "The statements of the test are a small share of those that the source ran.",
        UNCHANGED,
        "See which digests are left out, and why. The test does not show what those cost.",
    ),
    operator(
        "load_test.limits",
        "A round has too many schemas or threads, or too little time.",
        UNCHANGED,
        "Choose smaller numbers or more seconds.",
    ),
    host(
        "load_test.generator",
        "The load generator failed, was killed, or did not end in time.",
        _REMOVED,
        "Read its last lines in the message, then run the load test again.",
    ),
    host(
        "load_test.connections",
        "The scratch server refused connections of the load generator.",
        _REMOVED,
        "Use fewer threads, or raise max_connections of the test.",
    ),
    host(
        "load_test.statements_fail",
        "An error of the scratch server ended the load, or nearly all statements failed.",
        _REMOVED,
        "Check that the statements fit the schema, and that the schema is in the backup.",
    ),
    host(
        "load_test.server_ended",
        "The scratch server ended while it was measured.",
        _REMOVED,
        "Read the server's last lines in the message. A server that runs out of memory needs a smaller buffer pool.",
    ),
    host(
        "load_test.full",
        "The scratch server had no space or memory left during a round.",
        _REMOVED,
        "Free space on the host, or choose fewer schemas or rows.",
    ),
    host(
        "load_test.unreadable",
        "The result of a round is incomplete.",
        _REMOVED,
        "Run the load test again.",
    ),
)

_AGAIN = "Fix the problem on the host, then run the load test again."

#: Of the request and the plan.
_PLANNING = (
    operator(
        "load_test.request",
        "The requested load test is not possible.",
        UNCHANGED,
        "Change what the message names.",
    ),
    operator(
        "load_test.not_found", "The source or the host is not in the inventory.", UNCHANGED, "Choose another one."
    ),
    operator(
        "load_test.source",
        "The type and version of the source’s server are unknown.",
        UNCHANGED,
        "Wait for a probe that reaches the source, or choose a backup.",
    ),
    operator(
        "load_test.name",
        "The typed name is not the name of the host, or of the TiDB cluster.",
        UNCHANGED,
        "Type the name of the host that runs the test, or of the cluster that takes the inserts.",
    ),
    operator("load_test.reason", "A reason is required.", UNCHANGED, SAY_WHY),
    operator("load_test.refused", "The plan of the load test has refusals.", UNCHANGED, "Solve what the plan names."),
    operator(
        "load_test.stale", "The plan changed after it was shown.", UNCHANGED, "Look at the plan again, then confirm it."
    ),
    operator(
        "load_test.ended", "The load test has ended, or is already being stopped.", UNCHANGED, "No action is needed."
    ),
    operator(
        "load_test.host",
        "The host cannot run a load test: a primary runs there, dbops cannot probe it, or its host key was never accepted.",
        NOT_WRITTEN,
        "Choose another host. `DBOPS_LOAD_TEST_ON_PRIMARY_HOSTS` allows hosts of primaries.",
    ),
    operator(
        "load_test.backup",
        "The backup does not exist any more, has no file, failed its restore test, or is none of this source.",
        NOT_WRITTEN,
        "Choose a newer physical backup.",
    ),
    operator(
        "load_test.tool",
        "The host lacks a program: sysbench, the server, its client, or the backup tool.",
        NOT_WRITTEN,
        "Install the program that the message names.",
    ),
    operator(
        "load_test.memory",
        "The host has too little free memory for a load test, or its buffer pool is too large.",
        NOT_WRITTEN,
        "Choose a smaller buffer pool, or free memory on the host.",
    ),
    operator(
        "load_test.version",
        "The host’s server program is of another version than the plan’s, or this release of MySQL crashes with so many tables.",
        NOT_WRITTEN,
        "Install the planned version on the host. Against the crash, choose fewer schemas or another release.",
    ),
    operator(
        "load_test.not_as_planned",
        "The host is another machine, or the file is missing or is not this backup.",
        NOT_WRITTEN,
        _AGAIN,
    ),
)
#: Of a test whose target is a TiDB cluster.
_TIDB = (
    operator(
        "load_test.tidb",
        "Of load tests, a TiDB cluster can have only inserts into one table, without a backup and without options.",
        UNCHANGED,
        "Choose inserts. To compare two definitions, run a test of each, then compare the tests.",
    ),
    operator(
        "load_test.account",
        "The cluster has no account for the load, or that account may not make and fill the schema dbops_load.",
        NOT_WRITTEN,
        "Run the statements of the message on the cluster, and enter the account as `load` in the inventory.",
    ),
    operator(
        "load_test.cluster_nodes",
        "The nodes of the TiDB cluster are not those of the inventory or the plan. Or one sends changes to other systems.",
        "Nothing was written, or the test has ended and its schema is dropped.",
        "Add each TiDB node to the inventory, wait for a probe, and plan again.",
    ),
    operator(
        "load_test.cluster_in_use",
        "The TiDB cluster has schemas, tables or sessions of others, or dbops cannot see whether it has.",
        "Nothing was written, or the test has ended and its schema is dropped. Other schemas were not touched.",
        "Load tests are for a cluster that is empty and serves nothing. Use one made for the test.",
    ),
    operator(
        "load_test.claimed",
        "The schema dbops_load exists on the TiDB cluster, or is no longer that of this test.",
        "The schema was not touched.",
        "If another load test runs there, wait for its end. If none does: look at the schema, then `DROP DATABASE dbops_load`.",
    ),
    host(
        "load_test.unwatched",
        "The load ended because dbops did not look at the TiDB cluster for three minutes.",
        "The load generator has ended. dbops drops the schema dbops_load as soon as a worker runs.",
        "Check that a worker runs and reaches the load generator’s host, then run the load test again.",
    ),
)
#: What a plan warns of.
_WARNINGS = (
    operator(
        "load_test.shared_host",
        "A server of the inventory runs on this host and shares CPU and disk with the load test.",
        UNCHANGED,
        "Choose a host without servers, or a time with little load.",
    ),
    operator(
        "load_test.tunnel",
        "The load generator runs on another host: each statement passes an SSH connection, whose cost is part of its latency.",
        UNCHANGED,
        "Compare only tests with the same two hosts. load-measurements.md has the cost.",
    ),
    operator("load_test.busy", "dbops uses this host now.", UNCHANGED, "No action is needed: the load test waits."),
    operator(
        "load_test.schemas",
        "Rounds of rotating schemas are too short to use each schema once: their results will not be valid.",
        UNCHANGED,
        "Measure longer, stay shorter on each schema, or use more threads.",
    ),
    operator(
        "load_test.cores",
        "Server and load generator share their cores.",
        UNCHANGED,
        "Choose a host with more cores, or compare only tests of the same host.",
    ),
)
#: Of the job.
_RUNNING = (
    cancelled(
        "load_test.cancelled", "A user stopped the load test.", _REMOVED, "Run the load test again if you need it."
    ),
    host(
        "load_test.space",
        "The disk has too little free space, became full, or the scratch directory could not be created.",
        _REMOVED,
        "Free space on the host, or set `DBOPS_LOAD_TEST_DIRECTORY`. Then run the load test again.",
    ),
    host(
        "load_test.time",
        "The load test did not end within its time.",
        _REMOVED,
        "Plan fewer or shorter rounds, or raise `DBOPS_LOAD_TEST_MAX_SECONDS`.",
    ),
    host(
        "load_test.out_of_memory",
        "The scratch server needed more memory than its limit.",
        _REMOVED,
        "Choose a smaller buffer pool, fewer threads, or smaller caches.",
    ),
    host("load_test.copies", "The schema could not be copied.", _REMOVED, "Choose a schema that is in the backup."),
    host(
        "load_test.table_fails",
        "The statement that makes the table of inserts failed.",
        _REMOVED,
        "Correct the statement.",
    ),
    host(
        "load_test.killed",
        "A program was killed or found no memory.",
        _REMOVED,
        "Check the host's system log and memory.",
    ),
    host(
        "load_test.transport",
        "The backup could not be fetched from its host.",
        _REMOVED,
        "Check the network between the two hosts.",
    ),
    host(
        "load_test.connection",
        "The scratch server’s host cannot connect to the load generator’s host, or the connection was lost.",
        _REMOVED,
        "Check network, SSH server and host key of the load generator’s host, then run the load test again.",
    ),
    host(
        "load_test.backup_unusable",
        "The backup is damaged, or could not be unpacked or prepared.",
        "The backup file was not changed. " + _REMOVED,
        "Run a restore test of this backup, and make a new one.",
    ),
    host("load_test.initialise", "No empty data directory could be made.", _REMOVED, _AGAIN),
    host(
        "load_test.start",
        "The scratch server did not start with the planned options.",
        _REMOVED,
        "Read the server's messages. Leave out an option that its version does not know.",
    ),
    host(
        "load_test.fill",
        "The tables for the load could not be filled.",
        _REMOVED,
        "Read the last lines in the message.",
    ),
    host(
        "load_test.server",
        "The scratch server ended before or between rounds.",
        _REMOVED,
        "Read the server's last lines in the message.",
    ),
    host("load_test.failed", "The load test failed for an unknown reason.", _REMOVED, "Read the job's last messages."),
    host(
        "load_test.vanished",
        "The job ended without an exit status: it was killed, or the host restarted.",
        _REMOVED,
        "Check the host's system log, then run the load test again.",
    ),
    host(
        "load_test.stalled",
        "The load test made no progress until the timeout.",
        _REMOVED,
        "Check the host for a hung disk. Timeout: `DBOPS_STALL_PREPARE_SECONDS`.",
    ),
    host(
        "load_test.not_ended",
        "Processes of the load test did not exit after SIGKILL.",
        "The load test stays open, and no other one starts on this host.",
        "Check the host's disks. dbops checks again until the processes are gone.",
    ),
    host(
        "load_test.not_removed",
        "Files of a load test, or its schema in a TiDB cluster, could not be removed.",
        "`.dbops-load-test-ID` in the scratch directory or `/tmp/dbops-load-test-ID` remains on the host."
        " Or `/tmp/dbops-load-generator-ID` or the test’s key remains on that of the load generator, or the schema `dbops_load` in the"
        " cluster.",
        "Check the directory on the host. dbops tries again every minute, and before the next load test.",
    ),
)

SECTIONS = (
    CatalogueSection(
        "Load tests",
        (*_PLANNING, *_TIDB, *_WARNINGS, *_MEASURING, *_RUNNING),
        "load-tests.md describes load tests and what they touch.",
    ),
)
