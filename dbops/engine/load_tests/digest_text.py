"""Read a digest text: the tokens that a server has written, with a space between them and lists of values collapsed.

No parser of SQL is used: a server has cut the text into tokens already, and a parser would not know the collapsed lists. MariaDB writes
a name that is also a word of SQL in upper case and without quotes.
"""

import re
from dataclasses import dataclass

from dbops.engine.load_tests.digest_facts import TableColumns
from dbops.engine.phrases import phrase

#: Collapsed lists: values, a row, rows.
VALUES, ROW, ONE, ROWS, ONES = "?, ...", "(...)", "(?)", "(...) /* , ... */", "(?) /* , ... */"
_TOKEN = re.compile(
    r"`(?:[^`]|``)*`|\((?:\?|\.\.\.)\)(?: /\* , \.\.\. \*/)?|\?, \.\.\.|\?|<=>|<=|>=|<>|!=|:=|->>|->|<<|>>|&&|\|\|"
    r"|[\w$\x80-\U0010ffff]+|\S"
)
_GENERATED = re.compile(r" (?:\( ?unknown ?\) )?`?parse_gcol_expr`? \(", re.IGNORECASE)
#: A word of SQL takes two bytes of a digest, one of a name four and its bytes. The next name can have been too long for what is left.
_WORD_BYTES, _NAME_BYTES, _LONGEST_NAME_BYTES = 2, 4, 200
_MODIFIERS = frozenset({"LOW_PRIORITY", "IGNORE", "DELAYED", "HIGH_PRIORITY", "QUICK", "INTO", "ONLY", "LATERAL"})
_BEFORE_TABLE = _MODIFIERS | {"FROM", "JOIN", "STRAIGHT_JOIN", "UPDATE", "INSERT", "REPLACE", ","}
_AFTER_TABLE = frozenset(
    {
        "WHERE",
        "SET",
        "ON",
        "USING",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "CROSS",
        "NATURAL",
        "STRAIGHT_JOIN",
        "GROUP",
        "ORDER",
    }
    | {
        "LIMIT",
        "HAVING",
        "UNION",
        "VALUES",
        "VALUE",
        "SELECT",
        "FOR",
        "FORCE",
        "USE",
        "IGNORE",
        "PARTITION",
        "WINDOW",
        "LOCK",
    }
    | {"OUTER", "EXCEPT", "INTERSECT", "PROCEDURE", "RETURNING", "OFFSET", "FETCH", "INTO", "AND", "OR", "FROM"}
)


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table in a statement: the name it is used by (lower case), its place, and the selects that it is inside of."""

    alias: str
    table: TableColumns
    place: int
    scope: tuple[int, ...]


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a digest text, without what MySQL adds when it opens a table with generated columns."""
    return _TOKEN.findall(_GENERATED.split(text, maxsplit=1)[0].strip())


def is_cut(tokens: list[str], most_bytes: int) -> bool:
    """Return whether a server may have cut the text for its limit in bytes: it leaves no sign."""
    used = sum(_NAME_BYTES + len(one.encode()) - 2 if one[0] == "`" else _WORD_BYTES for one in tokens)
    return used + _LONGEST_NAME_BYTES > most_bytes


def name_of(word: str) -> str:
    """Return the name in a token, lower case; empty if it is none."""
    if word.startswith("`"):
        return word[1:-1].replace("``", "`").lower()
    return word.lower() if re.fullmatch(r"[\w$\x80-\U0010ffff]+", word) else ""


def without_schema(tokens: list[str], schema: str) -> list[str]:
    """Return the tokens without the name of the schema before tables, and before tables with a column."""
    own, found = schema.lower(), list(tokens)
    for place in range(len(tokens) - 2, -1, -1):
        if found[place + 1 : place + 2] != ["."] or name_of(found[place]) != own or found[place - 1 : place] == ["."]:
            continue
        before = tokens[place - 1] if place else ""
        if found[place + 3 : place + 4] == ["."] or before in _BEFORE_TABLE:
            del found[place : place + 2]
    return found


def scopes_of(tokens: list[str]) -> list[tuple[int, ...]]:
    """Return for each token the places of the open parentheses of the selects around it."""
    open_, found = list[int](), list[tuple[int, ...]]()
    for place, word in enumerate(tokens):
        if word == ")" and open_:
            open_.pop()
        found.append(tuple(one for one in open_ if tokens[one + 1 : one + 2] == ["SELECT"]))
        if word == "(":
            open_.append(place)
    return found


def references_of(tokens: list[str], tables: dict[str, TableColumns]) -> list[TableReference]:
    """Return the tables of a statement. ``tables``: those of the schema, by their names in lower case.

    Raises:
        ValueError: a table is not of the schema.
    """
    scopes, found = scopes_of(tokens), []
    derived = {name_of(tokens[at]) for at in range(len(tokens) - 2) if tokens[at + 1 : at + 3] == ["AS", "("]}
    for begin in _beginnings(tokens):
        place: int | None = begin
        while place is not None:
            name = name_of(tokens[place]) if place < len(tokens) else ""
            if not name:  # a derived table, whose own tables follow
                break
            if tokens[place + 1 : place + 2] == ["."]:
                raise ValueError(phrase("names another schema"))
            if name not in tables and name not in derived:
                raise ValueError(phrase("uses a table that the schema does not have"))
            after = place + 1
            alias = name
            after += after < len(tokens) and tokens[after] == "AS"
            if after < len(tokens) and tokens[after] not in _AFTER_TABLE and name_of(tokens[after]):
                alias = name_of(tokens[after])
                after += 1
            if name in tables:
                found.append(TableReference(alias, tables[name], place, scopes[place]))
            place = after + 1 if tokens[after : after + 1] == [","] and tokens[begin - 1] != "INTO" else None
    return found


def _beginnings(tokens: list[str]) -> list[int]:
    """Return the places after FROM, JOIN, UPDATE, INSERT and REPLACE, at the name of a table."""
    found = []
    for place, word in enumerate(tokens):
        before = tokens[place - 1] if place else ""
        starts = word in ("FROM", "JOIN", "STRAIGHT_JOIN") or (
            word in ("UPDATE", "INSERT", "REPLACE")
            and before not in ("FOR", "KEY")
            and tokens[place + 1 : place + 2] != ["("]
        )
        if starts:
            at = place + 1
            while at < len(tokens) and tokens[at] in _MODIFIERS:
                at += 1
            if at < len(tokens):
                found.append(at)
    return found
