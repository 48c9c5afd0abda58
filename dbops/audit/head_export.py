"""Export the head of the audit log to a file and to syslog. Only an exported head reveals a truncated log."""

import logging
import os
from datetime import datetime
from logging.handlers import SysLogHandler

from django.conf import settings

from dbops.audit.log import current_head
from dbops.database import clock
from dbops.engine.audit.chain import ChainHead, moment

SYSLOG_PORT = 514
log = logging.getLogger(__name__)


def send_head() -> list[str]:
    """Send the head to each configured destination.

    Return the names of failed ones; the worker's log has the reasons.
    """
    head, now = current_head(), clock.now()
    failed = []
    for name, destination, send in (
        ("file", settings.AUDIT_HEAD_FILE, _append),
        ("syslog", settings.AUDIT_HEAD_SYSLOG, _syslog),
    ):
        try:
            if destination:
                send(destination, head, now)
        except (OSError, ValueError) as error:
            log.warning("audit head %d was not exported to %s: %s", head.sequence, name, type(error).__name__)
            failed.append(name)
    return failed


def _append(path: str, head: ChainHead, now: datetime) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    with os.fdopen(descriptor, "a") as file:
        file.write(f"{moment(now)} {head}\n")
        file.flush()
        os.fsync(descriptor)


def _syslog(where: str, head: ChainHead, now: datetime) -> None:
    host, _, port = where.rpartition(":")
    address = where if where.startswith("/") else (host or where, int(port) if host else SYSLOG_PORT)
    handler = SysLogHandler(address, facility=SysLogHandler.LOG_AUTHPRIV)
    # Called directly: a logger would hide errors.
    handler.handleError = _raise  # type: ignore[method-assign]
    try:
        handler.emit(
            logging.LogRecord("dbops", logging.INFO, "", 0, f"dbops: audit head {moment(now)} {head}", None, None)
        )
    finally:
        handler.close()


def _raise(record: logging.LogRecord) -> None:
    raise  # noqa: PLE0704 - called within the handler's own except
