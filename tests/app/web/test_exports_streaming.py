"""Long files are sent as they are made."""

from collections.abc import Iterator
from typing import Any

from asgiref.sync import async_to_sync
from django.test import AsyncRequestFactory, RequestFactory

from dbops.web.exports.streaming import LINES, streamed


def counted(made: list[int], most: int) -> Iterator[str]:
    for number in range(most):
        made.append(number)
        yield f"{number}\n"


def test_streamed_sends_before_all_lines_are_made() -> None:
    made: list[int] = []

    async def read() -> tuple[bytes, int, bytes]:
        answer = streamed(AsyncRequestFactory().get("/"), counted(made, 3 * LINES), "text/plain")
        parts: Any = answer.__aiter__()
        first = await anext(parts)
        so_far = len(made)
        return first, so_far, first + b"".join([part async for part in parts])

    first, so_far, whole = async_to_sync(read)()
    assert so_far == LINES
    assert first.startswith(b"0\n1\n")
    assert whole.decode().split() == [str(number) for number in range(3 * LINES)]


def test_streamed_is_lazy_without_asgi() -> None:
    made: list[int] = []
    answer = streamed(RequestFactory().get("/"), counted(made, 3), "text/plain")
    assert not answer.is_async
    assert b"".join(answer) == b"0\n1\n2\n"  # type: ignore[arg-type]
