"""The web process's entry point."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
pages = get_asgi_application()

#: What the address of an event stream ends in.
STREAM_ENDING = "/events/"
#: The threads in which streams are begun: each reads the session and the table for some milliseconds, and then never again.
_threads = cycle([ThreadPoolExecutor(1, thread_name_prefix=f"streams-{number}") for number in range(4)])


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request; those for event streams share a few threads.

    Django gives each request a thread that lives as long as the request does. A stream is open for minutes and needs one for
    milliseconds: a thousand of them were a thousand idle threads (measured: 230 of 320 kB a connection).
    """
    if scope["type"] == "http" and scope["path"].endswith(STREAM_ENDING):
        async with ThreadSensitiveContext(executor=next(_threads)):
            await pages(scope, receive, send)
    else:
        await pages(scope, receive, send)


# What was loaded until here lives as long as the process: a collection while a large page is made need not go through it.
gc.freeze()
