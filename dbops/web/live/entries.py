"""Read the entries of the Redis stream. Anyone who reaches Redis can write them."""

from typing import Any

LONGEST_NUMBER = 19


def entries(answer: Any) -> list[tuple[str, dict[str, str]]]:
    """Return the entries of an XREAD answer: a list of pairs in RESP2, a mapping in RESP3."""
    if not answer:
        return []
    streams = answer.items() if isinstance(answer, dict) else answer
    found: list[tuple[str, dict[str, str]]] = []
    for _, added in streams:
        for entry in added:
            # RESP3 wraps the entries of one stream in one more list.
            found += entry if isinstance(entry, list) else [entry]
    return found


def number(entry: dict[str, str], name: str) -> int:
    """Return a number of an entry; 0 for anything else."""
    text = entry.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER else 0
