"""Sentences that pages can show in another language.

The engine makes English sentences of values. ``phrase`` does it so that the pattern and the values are still known when a page shows
the sentence. Everywhere else, also in records and JSON, a phrase is its English text. A row that keeps the text can keep the phrase
beside it, as plain data (``packed``).
"""

from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any, Self

#: Phrases within phrases that ``unpacked`` follows; stored data can be of anybody.
DEEPEST = 20


class Phrase(str):
    """An English text with its pattern and values.

    ``plural`` is the pattern for other numbers than 1, empty where there is none; ``number`` decides.
    """

    pattern: str
    plural: str
    number: int
    values: Mapping[str, Any]

    def __new__(cls, pattern: str, values: Mapping[str, Any], plural: str = "", number: int = 1) -> Self:
        chosen = plural if plural and number != 1 else pattern
        made = super().__new__(cls, chosen.format(**values) if values else chosen)
        made.pattern, made.plural, made.number = pattern, plural, number
        made.values = {name: part if isinstance(part, Phrase) else str(part) for name, part in values.items()}
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy is made of."""
        return self.pattern, self.values, self.plural, self.number


def phrase(pattern: str, /, **values: Any) -> Phrase:
    """Return the pattern with its values. The pattern is a literal, so that ``script/translate`` finds it.

    Args:
        pattern: English text with names in braces, as of ``str.format``.
        values: the values; phrases among them are translated, too.
    """
    return Phrase(pattern, values)


def capitalised(text: str) -> str:
    """Return a text with a capital first letter; of a phrase, the phrase whose pattern has one."""
    if isinstance(text, Phrase):
        pattern, plural = (one[:1].upper() + one[1:] for one in (text.pattern, text.plural))
        return Phrase(pattern, text.values, plural, text.number)
    return text[:1].upper() + text[1:]


def phrases(one: str, many: str, number: int, /, **values: Any) -> Phrase:
    """Return the pattern for a number with its values: ``one`` for 1, else ``many``. Both are literals and may name ``{number}``.

    Args:
        one, many: as the pattern of ``phrase``.
        number: the count that decides.
        values: the values; phrases among them are translated, too.
    """
    return Phrase(one, {"number": number, **values}, many, number)


def joined(parts: Iterable[str], separator: str = " ") -> Phrase:
    """Return sentences or list items as one text, in which each phrase stays translatable."""
    values = {f"part{number}": part for number, part in enumerate(parts)}
    return Phrase(separator.join(f"{{{name}}}" for name in values), values)


def said(error: Exception) -> str:
    """Return the text of an error; the phrase, if it was made of one. ``str`` would lose that."""
    return next((one for one in error.args if isinstance(one, Phrase)), str(error))


def changed(text: str, change: Callable[[str], str]) -> str:
    """Return the changed text. A phrase stays one if it gives this text with its changed values."""
    wanted = change(text)
    if isinstance(text, Phrase):
        values = {name: changed(part, change) for name, part in text.values.items()}
        made = Phrase(text.pattern, values, text.plural, text.number)
        return made if made == wanted else wanted
    return wanted


def packed(text: str) -> list[Any] | None:
    """Return a phrase as plain data for JSON, ``None`` for other text."""
    if not isinstance(text, Phrase):
        return None
    values = {name: packed(part) or part for name, part in text.values.items()}
    return [text.pattern, values, text.plural, text.number] if text.plural else [text.pattern, values]


def unpacked(data: Any, text: str) -> str:
    """Return the phrase of ``packed`` data if it gives exactly this text; else the text.

    Args:
        data: anything: the row can be old, or edited by hand.
        text: the English text that was stored with the data.
    """
    try:
        made = _unpacked(data, DEEPEST)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return text
    return made if made == text else text


def _unpacked(data: Any, depth: int) -> Phrase:
    pattern, values, *rest = data
    plural, number = rest or ("", 1)
    if not depth or [*map(type, (pattern, values, plural, number))] != [str, dict, str, int]:
        raise ValueError
    for one in (pattern, plural) if values else ():
        # Only plain names: a wide field costs memory, and an attribute of a value is none of a reader's business.
        if any(spec or kind or name not in {None, *values} for _, name, spec, kind in Formatter().parse(one)):
            raise ValueError
    parts = {str(name): part if isinstance(part, str) else _unpacked(part, depth - 1) for name, part in values.items()}
    return Phrase(pattern, parts, plural, number)
