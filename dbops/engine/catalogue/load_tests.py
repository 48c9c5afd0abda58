"""Errors of load tests."""

from dbops.engine.catalogue.entries import UNCHANGED, Section, host, operator

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

SECTIONS = (Section("Load tests", _MEASURING),)
