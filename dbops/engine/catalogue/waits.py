"""Errors of readings of wait events."""

from dbops.engine.catalogue.entries import NOT_SENT, UNCHANGED, CatalogueSection, host, operator

_WAITS = (
    operator("waits.seconds", "A reading takes 5 to 60 seconds.", NOT_SENT, "Choose a length on the page."),
    host(
        "waits.denied",
        "The dashboard's account can't read `performance_schema`.",
        UNCHANGED,
        "Grant it `SELECT` on `performance_schema.*` and `PROCESS` on `*.*` (see accounts.md). Then read again.",
    ),
    host(
        "waits.too_long",
        "One reading took longer than 5 seconds, so the server ended it.",
        UNCHANGED,
        "Read again when the server has fewer connections or less load.",
    ),
    host(
        "waits.unreadable",
        "The server's answer is incomplete.",
        UNCHANGED,
        "Check with a client that `performance_schema` can be read. Then read again.",
    ),
    host(
        "waits.unknown",
        "The result is unknown: the worker was stopped, or no worker started the reading in time.",
        UNCHANGED,
        "Read again. If it fails again, check that a worker is running.",
    ),
)

SECTIONS = (CatalogueSection("Waits", _WAITS),)
