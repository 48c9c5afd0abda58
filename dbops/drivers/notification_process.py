"""The process that sends one notification, and nothing else. ``notifications.send`` starts it and reads its result.

It is a process of its own for two reasons. A service that hangs is ended with it. And a hook of Python, which no library can remove,
looks at each address right before the connection: whatever a name resolves to then, a private address gets no connection.

Run it by its path: it gets a job as JSON on standard input, and prints a result as JSON.
"""

import http.client
import json
import os
import signal
import smtplib
import socket
import ssl
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import apprise
import requests

from dbops.engine.notifications.addresses import is_allowed

CONNECT_SECONDS = 5
#: What no service needs. A write to a file is denied, too.
DENIED = (
    *("socket.sendto", "socket.sendmsg", "socket.bind", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
    *("os.fork", "os.forkpty", "os.startfile", "pty.spawn"),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class _Seen:
    """What happened on the way, because Apprise returns only yes or no."""

    denied = False
    connected = False
    http_status = 0
    smtp_code = 0


def main() -> None:
    """Run the job of standard input."""
    job = json.load(sys.stdin)
    signal.alarm(job["seconds"])  # also ends it when its parent was killed
    if job["ca"] and job["do"] == "message":
        os.environ["SSL_CERT_FILE"] = os.environ["REQUESTS_CA_BUNDLE"] = _file_in_memory(job["ca"])
    _watch()
    _deny_all_but(job["networks"])
    print(json.dumps({"problem": _result(job)}))


def _file_in_memory(content: str) -> str:
    """Return the name of a file with this content, which libraries want. Nothing of it is left, however the process ends."""
    descriptor = os.memfd_create("dbops")
    os.write(descriptor, content.encode())
    return f"/proc/self/fd/{descriptor}"


def _result(job: dict[str, Any]) -> list[str]:
    """Return nothing if it was sent, else the problem's name and its cause."""
    try:
        is_sent = _notify(job) if job["do"] == "message" else _request(job)
    except ssl.SSLCertVerificationError as error:
        return ["certificate", error.verify_message]
    except (OSError, http.client.HTTPException, ValueError, TypeError, AttributeError) as error:
        return _problem(type(error).__name__)
    return [] if is_sent else _problem("the service did not take the message")


def _problem(cause: str) -> list[str]:
    if _Seen.denied:
        return ["address", "the address is private, and DBOPS_NOTIFICATION_NETWORKS does not contain it"]
    if _Seen.http_status:
        is_final = 300 <= _Seen.http_status < 500 and _Seen.http_status not in (408, 425, 429)
        return ["rejected" if is_final else "unavailable", f"the receiver answered HTTP {_Seen.http_status}"]
    if _Seen.smtp_code >= 400:
        return ["rejected" if _Seen.smtp_code >= 500 else "unavailable", f"the mail server answered {_Seen.smtp_code}"]
    return ["unavailable", cause if _Seen.connected else "no connection"]


def _notify(job: dict[str, Any]) -> bool:
    """Send a message with Apprise."""
    asset = apprise.AppriseAsset(
        app_id="dbops",
        app_desc="dbops",
        app_url="",
        http_redirects=False,
        secure_logging=True,
        plugin_paths=[],
        storage_mode="memory",
    )
    service = apprise.Apprise.instantiate(job["address"], asset=asset)
    if not isinstance(service, apprise.NotifyBase):
        return False
    is_html = bool(job["html"]) and job["address"].startswith("mailto")
    sender = apprise.Apprise()
    sender.add(service)
    return bool(
        sender.notify(
            title=job["title"],
            body=job["html"] if is_html else job["text"],
            notify_type=job["type"],
            body_format="html" if is_html else "text",
        )
    )


def _request(job: dict[str, Any]) -> bool:
    """Send a request, and read only the status of the answer. No redirect is followed."""
    parts = urlsplit(job["address"])
    host, path = parts.hostname or "", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "https":
        context = ssl.create_default_context(cadata=job["ca"] or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        link: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=CONNECT_SECONDS, context=context
        )
    else:
        link = http.client.HTTPConnection(host, parts.port, timeout=CONNECT_SECONDS)
    link.request(job["method"], path, body=job["body"].encode() or None, headers=job["headers"])
    _Seen.http_status = link.getresponse().status
    return 200 <= _Seen.http_status < 300


def _watch() -> None:
    """Note connections and answers."""
    connect, send, reply = socket.socket.connect, requests.Session.send, smtplib.SMTP.getreply

    def connecting(link: socket.socket, address: Any) -> None:
        connect(link, address)
        _Seen.connected = True

    def sending(session: requests.Session, *args: Any, **kwargs: Any) -> requests.Response:
        answer = send(session, *args, **kwargs)
        _Seen.http_status = answer.status_code
        return answer

    def replying(server: smtplib.SMTP) -> tuple[int, bytes]:
        answer = reply(server)
        _Seen.smtp_code = max(_Seen.smtp_code, answer[0])
        return answer

    for owner, name, watched in (
        (socket.socket, "connect", connecting),
        (requests.Session, "send", sending),
        (smtplib.SMTP, "getreply", replying),
    ):
        setattr(owner, name, watched)


def _deny_all_but(networks: list[str]) -> None:
    """Allow connections to public addresses and ``networks``, and none of ``DENIED``."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            link, address = args
            is_ip = link.family in (socket.AF_INET, socket.AF_INET6)
            if not is_ip or not is_allowed(str(address[0]), networks):
                _Seen.denied = True
                raise PermissionError("the address is not allowed")
        elif event in DENIED or (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
            raise PermissionError(f"{event} is not allowed")

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
