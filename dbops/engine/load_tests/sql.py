"""Whether a load may send a statement: read as a server reads it, because the generator sends several statements in one text.

A server reads backslashes in quotes by its ``sql_mode``. What is accepted has the same meaning in all modes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dbops.engine.flavors.engines import ELSEWHERE
from dbops.engine.phrases import phrase, said

#: Statements that a load may send. Others, such as LOAD DATA LOCAL, read files of the generator or change more than rows.
FIRST_WORDS = frozenset({"select", "insert", "update", "delete", "replace", "with"})
#: Quotes in which a backslash escapes the next character: usual, ANSI_QUOTES, NO_BACKSLASH_ESCAPES.
_READINGS = ("'\"", "'", "")
_CONTROL = frozenset(map(chr, (*range(32), 127)))


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A word in lower case, a quoted text with its quote, or a sign. ``start``: its place in the text."""

    text: str
    start: int
    quote: str = ""

    @property
    def name(self) -> str:
        """Return the word or the quoted name."""
        return self.text.strip(self.quote).lower() if self.quote else self.text


def why_not_sent(text: str) -> str:
    """Say why a load may not send this text; empty if it is one statement that it may."""
    return _first_reason(text, _of_statement)


def why_no_tables(text: str, *, most: int = 1) -> str:
    """Say why this text is not CREATE TABLE with files in the data directory; empty if it is.

    A schema (``most`` statements, more than one) can have several, and INSERT for their rows.
    """
    return _first_reason(text, lambda tokens: _of_tables(tokens, most))


def without_end(text: str) -> str:
    """Return an accepted statement without its semicolon and what follows it."""
    ends = [token.start for token in _tokens(text, _READINGS[0]) if token.text == ";"]
    return text[: ends[-1]].strip() if ends else text.strip()


def first_word(text: str) -> str:
    """Return the first word of an accepted statement, lower case."""
    return next((token.text for token in _tokens(text, _READINGS[0])), "")


def _first_reason(text: str, judge: Callable[[list[SqlToken]], str]) -> str:
    for escaping in _READINGS if "\\" in text else _READINGS[:1]:
        try:
            tokens = list(_tokens(text, escaping))
        except ValueError as error:
            return said(error)
        if reason := judge(tokens) or _of_any(tokens):
            return reason
    return ""


def _pattern(escaping: str) -> re.Pattern[str]:
    quoted = "|".join(
        rf"{quote}(?:[^{quote}\\]|{quote}{quote}|\\.)*+{quote}"
        if quote in escaping
        else rf"{quote}(?:[^{quote}]|{quote}{quote})*+{quote}"
        for quote in "'\"`"
    )
    comments = r"[ \t\r\n]+|--(?=[ \t\r\n]|\Z)[^\n]*|\#[^\n]*|/\*(?!!|[Mm]!|\+).*?\*/|/\*\+[^'\"`]*?\*/"
    return re.compile(
        rf"(?P<space>{comments})|(?P<quoted>{quoted})|(?P<word>[A-Za-z0-9_$\x80-\U0010ffff]+)|(?P<sign>.)", re.DOTALL
    )


_PATTERNS = {escaping: _pattern(escaping) for escaping in _READINGS}


def _tokens(text: str, escaping: str) -> Iterator[SqlToken]:
    """Read the text.

    Raises:
        ValueError: a quote or comment does not end, a server would run a comment, or a sign is none of SQL.
    """
    for found in _PATTERNS[escaping].finditer(text):
        if found["space"]:
            if not _CONTROL.isdisjoint(found[0].translate({9: None, 10: None, 13: None})):
                raise ValueError(phrase("has a control character in a comment"))
        elif found["quoted"]:
            yield SqlToken(found[0], found.start(), found[0][0])
        elif found["word"]:
            yield SqlToken(found[0].lower(), found.start())
        else:
            _check_sign(text, found.start())
            yield SqlToken(found[0], found.start())


def _check_sign(text: str, start: int) -> None:
    sign = text[start]
    if sign in "'\"`":
        raise ValueError(phrase("has a quote that does not end in each sql_mode: write two quotes for one in a text"))
    if text.startswith("/*", start):
        raise ValueError(phrase("has a comment that a server runs, that does not end, or a hint with quotes"))
    if sign == "\\" or sign in _CONTROL:
        raise ValueError(phrase("has a backslash or control character outside of quotes"))


def _of_any(tokens: list[SqlToken]) -> str:
    for token, after in zip(tokens, [*tokens[1:], SqlToken("", 0)], strict=True):
        is_file = token.name == "load_file" and after.text == "("
        if is_file or token.text in ("outfile", "dumpfile"):
            return phrase("reads or writes a file")
    return ""


def _statements(tokens: list[SqlToken]) -> list[list[SqlToken]]:
    found: list[list[SqlToken]] = [[]]
    for token in tokens:
        if token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return found


def _of_statement(tokens: list[SqlToken]) -> str:
    first, *others = _statements(tokens)
    word = next((token.text for token in first if token.text != "("), "")
    if word not in FIRST_WORDS:
        return phrase("does not begin with {first_words}", first_words=", ".join(sorted(FIRST_WORDS)).upper())
    return phrase("is more than one statement") if len(others) > 1 or any(others) else ""


def _makes_table(statement: list[SqlToken]) -> bool:
    return [token.text for token in statement[:2]] == ["create", "table"]


def _of_tables(tokens: list[SqlToken], most: int) -> str:
    found = [one for one in _statements(tokens) if one]
    if not found or not all(_makes_table(one) or (most > 1 and one[0].text == "insert") for one in found):
        return phrase("is not CREATE TABLE")
    if len(found) > most:
        return (
            phrase("is more than one statement") if most == 1 else phrase("has more than {most} statements", most=most)
        )
    for token, after, third in zip(
        tokens, [*tokens[1:], tokens[-1]], [*tokens[2:], tokens[-1], tokens[-1]], strict=True
    ):
        # a number with an exponent ends without a space: 1e1DATA
        if token.text.endswith(("data", "index")) and after.text == "directory":
            return phrase("names a directory for its files")
        if token.text.endswith("engine") and (third if after.text == "=" else after).name.upper() in ELSEWHERE:
            return phrase("has its rows outside of the server")
        if token.text.endswith("delimiter"):  # the client would take it as its own command
            return phrase("has the word DELIMITER outside of quotes")
    return ""
