"""Write logs as lines of JSON, with what the process was busy with."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

#: Attribute of a request with its id.
REQUEST_ID = "dbops_request_id"


def json_formatter() -> structlog.stdlib.ProcessorFormatter:
    """Return the formatter of ``DBOPS_LOG_FORMAT=json``: one object on one line for each record, also those of libraries."""
    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _add_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    after: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        # Local variables can be secrets.
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(ensure_ascii=True),
    ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=after)


def _add_request(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the id of the request that Django names in a record: it logs errors after the middleware."""
    request = getattr(event.get("_record"), "request", None)
    if (found := getattr(request, REQUEST_ID, None)) is not None:
        event.setdefault("request_id", found)
    return event


@contextmanager
def busy_with(**names: object) -> Iterator[None]:
    """Add names to each line that this thread or request logs in the block, such as ``rebuild_id=7``."""
    with structlog.contextvars.bound_contextvars(**names):
        yield
