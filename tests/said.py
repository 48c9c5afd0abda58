"""What a sentence names, for tests that must not hold its words."""

import re

#: A number of its own: not one in a name ("backup-1"), a version or an address.
_NUMBER = re.compile(r"(?<![\w.:/-])\d+(?![\w-]|[.:]\d)")


def numbers(text: str) -> list[int]:
    """Return the numbers of a sentence, in their order."""
    return [int(found) for found in _NUMBER.findall(text)]


def names(text: str, *wanted: object) -> bool:
    """Whether a sentence has each of these as a word of its own."""
    return all(re.search(rf"(?<![\w-]){re.escape(str(one))}(?![\w-])", text) for one in wanted)
