"""What a page marks for machines: ``data-blocker="maintenance"`` and the like, whatever its words are."""

import html
import re
from typing import Any


def text_of(answer: Any) -> str:
    """Return a page as text, each run of white space as one blank."""
    return " ".join(answer.content.decode().split())


def marks(page: str, name: str) -> list[str]:
    """Return the values of an attribute ``data-<name>`` in the order of the page."""
    return [html.unescape(value) for value in re.findall(rf'\sdata-{name}="([^"]*)"', page)]


def part(page: str, mark: str, end: str) -> str:
    """Return what follows the only place of a mark, up to the next ``end``."""
    before, found, after = page.partition(mark)
    assert found, mark
    assert mark not in after, mark
    return after.partition(end)[0]
