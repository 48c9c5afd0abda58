"""Send one notification in a process of its own: a message with Apprise, a webhook, or a heartbeat."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.notifications.channels import with_incident
from dbops.engine.notifications.events import EventSeverity, EventState
from dbops.engine.notifications.messages import Message
from dbops.engine.phrases import phrase

PROGRAM = Path(__file__).with_name("notification_process.py")
#: Longest time of a delivery.
SECONDS = 15
#: Variables that the process gets: no proxy, which would connect for it, and no secret.
KEPT = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
#: Types of Apprise, from which services take a color or an icon.
_TYPES = {EventSeverity.INFO: "info", EventSeverity.WARNING: "warning", EventSeverity.CRITICAL: "failure"}


def send_message(address: str, message: Message, *, ca: str = "", networks: Sequence[str] = ()) -> None:
    """Send a message to a service of ``channels.SERVICES``. Arguments and errors as of ``send_request``."""
    kind = "success" if message.state is EventState.RESOLVED else _TYPES[message.severity]
    _run(
        {
            "do": "message",
            "address": with_incident(address, message.incident),
            "title": message.title,
            "text": message.text,
            "html": message.html,
            "type": kind,
            "ca": ca,
            "networks": [*networks],
        }
    )


def send_request(
    address: str,
    *,
    method: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    ca: str = "",
    networks: Sequence[str] = (),
) -> None:
    """Send a request, and return when the receiver has answered 2xx.

    Args:
        ca: certificates of the authority as PEM; empty for those of the system.
        networks: private networks that it may reach.

    Raises:
        Unreachable: no connection, no answer in time, or one that asks for a retry (``notification.unavailable``).
        RemoteFailure: its name leads to a private address (``notification.address``), its certificate is wrong
            (``notification.certificate``), or it refused the message (``notification.rejected``).
    """
    _run(
        {
            "do": "request",
            "address": address,
            "method": method,
            "body": body.decode(),
            "headers": {"User-Agent": "dbops", "Connection": "close", **(headers or {})},
            "ca": ca,
            "networks": [*networks],
        }
    )


def _run(job: dict[str, Any]) -> None:
    operation = phrase("Sending a notification")
    words = [sys.executable, "-I", "-B", "-W", "ignore", str(PROGRAM)]
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    try:
        ended = subprocess.run(
            words,
            input=json.dumps({**job, "seconds": SECONDS}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries log can contain parts of the address
            env=env,
            timeout=SECONDS + 5,
            check=False,
            start_new_session=True,
        )
        problem = json.loads(ended.stdout.splitlines()[-1])["problem"]
    except (subprocess.TimeoutExpired, ValueError, LookupError) as error:
        cause = phrase("no answer within {seconds} s", seconds=SECONDS)
        raise Unreachable("notification.unavailable", operation, cause=cause) from error
    if not problem:
        return
    name, cause = problem
    if name == "address":
        raise RemoteFailure("notification.address", operation, cause=cause)
    if name == "certificate":
        raise RemoteFailure("notification.certificate", operation, cause=cause)
    if name == "rejected":
        raise RemoteFailure("notification.rejected", operation, cause=cause)
    raise Unreachable("notification.unavailable", operation, cause=cause)
