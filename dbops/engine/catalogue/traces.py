"""Errors of sending traces."""

from dbops.engine.catalogue.entries import CatalogueSection, host

_KEPT = "The rebuild is not affected. Its trace was not sent."

_ENTRIES = (
    host(
        "trace.not_sent",
        "The collector of traces can't be reached, did not answer in time, or refused the traces.",
        _KEPT,
        "Check `DBOPS_TRACES_URL`, and that the collector runs. dbops tries every 30 s, for a day.",
    ),
    host(
        "trace.package",
        "The package of OpenTelemetry is not installed where the worker runs.",
        _KEPT,
        "Run `pip install -r requirements-traces.txt` on every machine with a worker.",
    ),
)

SECTIONS = (CatalogueSection("Traces", _ENTRIES),)
