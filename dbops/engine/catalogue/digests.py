"""Errors of readings of top statements."""

from dbops.engine.catalogue.entries import NOT_SENT, UNCHANGED, CatalogueSection, host, operator

_DIGESTS = (
    operator("digests.schema", "A reading needs the name of a schema.", NOT_SENT, "Enter the schema, then read again."),
    operator(
        "digests.not_found",
        "There is no such reading of this cluster, or it has no result.",
        UNCHANGED,
        "Read the source's top statements again.",
    ),
    host(
        "digests.off",
        "`performance_schema` is off on the server, so it counts no statements.",
        UNCHANGED,
        "Read another instance of the cluster, or set `performance_schema=ON` and restart the server when that is possible.",
    ),
    host(
        "digests.denied",
        "The dashboard's account can't read `performance_schema`.",
        UNCHANGED,
        "Grant it `SELECT` on `*.*` (see accounts.md). Then read again.",
    ),
    host(
        "digests.too_long",
        "One statement of the reading took longer than 10 seconds, so the server ended it.",
        UNCHANGED,
        "Read again when the server has less load.",
    ),
    host(
        "digests.no_schema",
        "The server has no schema of this name with tables.",
        UNCHANGED,
        "Check the name of the schema and the instance.",
    ),
    host(
        "digests.unknown",
        "The result is unknown: the worker was stopped, or no worker started the reading in time.",
        UNCHANGED,
        "Read again. If it fails again, check that a worker is running.",
    ),
)

SECTIONS = (CatalogueSection("Top statements", _DIGESTS),)
