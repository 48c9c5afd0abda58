"""Sends the audit log's head out of the machine: a tail that was cut off with its head cannot be seen from inside."""

import json
import logging
import os
import urllib.request
from datetime import datetime
from logging.handlers import SysLogHandler

from django.conf import settings
from django.utils import timezone

from dbops.audit.log import current_head
from dbops.engine.audit.chain import Head, moment

PATIENCE_SECONDS = 10
SYSLOG_PORT = 514
log = logging.getLogger(__name__)


def send_head() -> list[str]:
    """Send the head every way that is set. Return the names of those that failed; each is in the worker's log."""
    head, now = current_head(), timezone.now()
    ways = {
        "file": settings.AUDIT_HEAD_FILE,
        "syslog": settings.AUDIT_HEAD_SYSLOG,
        "webhook": settings.AUDIT_HEAD_WEBHOOK,
    }
    failed = []
    for name, where in ways.items():
        try:
            if where:
                {"file": _append, "syslog": _syslog, "webhook": _post}[name](where, head, now)
        except (OSError, ValueError) as error:
            # The address may hold a secret of its receiver: it is not repeated here.
            log.warning("the audit log's head %d was not sent by %s: %s", head.sequence, name, type(error).__name__)
            failed.append(name)
    return failed


def _append(path: str, head: Head, now: datetime) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    with os.fdopen(descriptor, "a") as file:
        file.write(f"{moment(now)} {head}\n")
        file.flush()
        os.fsync(descriptor)


def _syslog(where: str, head: Head, now: datetime) -> None:
    host, _, port = where.rpartition(":")
    address = where if where.startswith("/") else (host or where, int(port) if host else SYSLOG_PORT)
    handler = SysLogHandler(address, facility=SysLogHandler.LOG_AUTHPRIV)
    # Called for what it does, not through a logger: that would swallow what goes wrong.
    handler.handleError = _raise  # type: ignore[method-assign]
    try:
        handler.emit(
            logging.LogRecord("dbops", logging.INFO, "", 0, f"dbops: audit head {moment(now)} {head}", None, None)
        )
    finally:
        handler.close()


def _raise(record: logging.LogRecord) -> None:
    raise  # noqa: PLE0704 - called within the handler's own except


def _post(where: str, head: Head, now: datetime) -> None:
    if not where.startswith(("https://", "http://")):
        raise ValueError("neither http nor https")
    body = json.dumps({"sequence": head.sequence, "hash": head.hash, "at": moment(now)}).encode()
    request = urllib.request.Request(where, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):  # noqa: S310 - checked above
        pass
