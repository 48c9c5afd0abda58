"""Entry point of the web process."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
pages = get_asgi_application()

#: Suffixes of the paths of event streams: of pages, and of the API.
STREAM_ENDINGS = ("/events/", "/events")
#: Threads that start streams: each start reads session and table for some milliseconds.
_threads = cycle([ThreadPoolExecutor(1, thread_name_prefix=f"streams-{number}") for number in range(4)])


def with_prefix(path: str, prefix: str) -> str:
    """Return the path as a browser has it, also from a proxy that removes the prefix, and from a health check on loopback."""
    return path if path == prefix or path.startswith(f"{prefix}/") else prefix + path


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request; event streams share a few threads.

    Django gives each request its own thread. A stream is open for minutes but needs its thread for milliseconds, so a
    thousand streams would mean a thousand idle threads (measured: 230 of 320 kB per connection).
    """
    if scope["type"] == "http":
        scope = {**scope, "path": with_prefix(scope["path"], settings.URL_PREFIX)}
    if scope["type"] == "http" and scope["path"].endswith(STREAM_ENDINGS):
        async with ThreadSensitiveContext(executor=next(_threads)):
            await pages(scope, receive, send)
    else:
        await pages(scope, receive, send)


# Objects loaded so far live as long as the process: exclude them from garbage collection.
gc.freeze()
