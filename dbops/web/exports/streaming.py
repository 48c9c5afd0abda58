"""Long files, sent as they are made: nobody holds a log of a million entries in memory."""

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

#: So many lines are made before the event loop is asked to send them: each hop to the thread costs a fraction of a millisecond.
LINES = 500


def streamed(request: HttpRequest, lines: Iterable[str], content_type: str) -> StreamingHttpResponse:
    """Return an answer that sends lines as they are made.

    Under ASGI Django would read a synchronous iterator to its end before the first byte is sent. Here a few lines at a time are made in the
    request's own thread, which is the one that its database connection belongs to.
    """
    content = _in_pieces(iter(lines)) if isinstance(request, ASGIRequest) else lines
    return StreamingHttpResponse(content, content_type=content_type)


async def _in_pieces(lines: Iterator[str]) -> AsyncIterator[str]:
    while piece := await sync_to_async(_take)(lines):
        yield "".join(piece)


def _take(lines: Iterator[str]) -> list[str]:
    return list(islice(lines, LINES))
