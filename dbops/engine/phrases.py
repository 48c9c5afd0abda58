"""Sentences that pages can show in another language.

The engine makes English sentences of values. ``phrase`` does it so that the pattern and the values are still known when a page shows
the sentence. Everywhere else, also in records and JSON, a phrase is its English text.
"""

from collections.abc import Mapping
from typing import Any


class Phrase(str):
    """An English text with its pattern and values."""

    pattern: str
    values: Mapping[str, Any]


def phrase(pattern: str, /, **values: Any) -> Phrase:
    """Return the pattern with its values. The pattern is a literal, so that ``script/translate`` finds it.

    Args:
        pattern: English text with names in braces, as of ``str.format``.
        values: the values; phrases among them are translated, too.
    """
    made = Phrase(pattern.format(**values) if values else pattern)
    made.pattern, made.values = pattern, values
    return made
