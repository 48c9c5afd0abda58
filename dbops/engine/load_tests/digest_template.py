"""Make a digest a template: each ``?`` gets a column whose values take its place, or a fixed number.

A list whose length a digest does not tell gets ``LIST_LENGTH`` values, and rows of one INSERT as many as it changed on average.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, TableColumns
from dbops.engine.load_tests.digest_text import (
    ONE,
    ONES,
    ROW,
    ROWS,
    VALUES,
    TableReference,
    is_cut,
    name_of,
    references_of,
    scopes_of,
    tokens_of,
)
from dbops.engine.load_tests.sql import why_not_sent
from dbops.engine.phrases import phrase

LIST_LENGTH, MOST_ROWS, LIMIT = 5, 200, "100"
_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "LIKE", "RLIKE", "REGEXP"})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "DIV", "MOD", "INTERVAL", "THEN", "ELSE", "SELECT", "DISTINCT"})
_COUNTING = frozenset({"count", "sum", "avg", "length", "char_length"})
_NO_SAMPLE = phrase("has a column whose type cannot be sampled")
_NO_COLUMN = phrase("has a value that belongs to no column")


@dataclass(frozen=True, slots=True)
class Bind:
    """What takes the place of a ``?``: ``fixed`` if there is one, else a value of a column.

    Attributes:
        table, column: names.
        row: values of one table with the same number are of one row.
        is_fresh: a new value, because another row has each sampled one.
        is_stored: the value is written to a column, so it can be NULL. To a comparison with NULL no row answers.
    """

    table: str = ""
    column: str = ""
    row: int = 0
    is_fresh: bool = False
    is_stored: bool = False
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A statement in parts; ``binds`` has what is between them, one fewer."""

    parts: tuple[str, ...]
    binds: tuple[Bind, ...]

    @property
    def example(self) -> str:
        """Return the statement with a number for each value."""
        return "1".join(self.parts)


def template_of(digest: Digest, tables: tuple[TableColumns, ...], *, digest_bytes: int) -> Template:
    """Return the template of a digest.

    Args:
        digest: its text without the name of the schema.
        tables: of the schema.
        digest_bytes: the server's limit of a digest.

    Raises:
        ValueError: why the digest cannot be used.
    """
    tokens = tokens_of(digest.text)
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in digest.text.strip()):
        raise ValueError(phrase("has a control character"))
    if reason := why_not_sent("1".join(_as_text(tokens).split("?"))):
        raise ValueError(reason)
    if is_cut(tokens, digest_bytes):
        raise ValueError(
            phrase("may be cut: it is near the server’s limit of {most} bytes (max_digest_length)", most=digest_bytes)
        )
    references = references_of(tokens, {one.name.lower(): one for one in tables})
    if not references:
        raise ValueError(phrase("uses no table of the schema"))
    binder = _Binder(tokens, references, rows=_rows(digest))
    pieces = list(binder.pieces())
    template = _joined(pieces)
    if reason := why_not_sent(template.example):
        raise ValueError(reason)
    return template


def _rows(digest: Digest) -> int:
    return max(2, min(MOST_ROWS, round(digest.rows_affected / max(1, digest.count))))


def _as_text(tokens: list[str]) -> str:
    plain = {VALUES: "?", ROW: "(?)", ROWS: "(?)", ONES: "(?)"}
    return " ".join(plain.get(word, word) for word in tokens)


def _joined(pieces: list[str | Bind]) -> Template:
    parts, binds = [""], []
    for piece in pieces:
        if isinstance(piece, Bind):
            binds.append(piece)
            parts.append("")
        else:
            parts[-1] += piece
    return Template(tuple(parts), tuple(binds))


@dataclass(slots=True)
class _Binder:
    tokens: list[str]
    references: list[TableReference]
    rows: int
    scopes: list[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.scopes = scopes_of(self.tokens)

    @property
    def is_insert(self) -> bool:
        return self.tokens[0] in ("INSERT", "REPLACE")

    @property
    def keeps_keys(self) -> bool:
        """Return whether an existing key is no error."""
        return self.tokens[0] == "REPLACE" or self.tokens[1:2] == ["IGNORE"] or "DUPLICATE" in self.tokens

    def pieces(self) -> Iterator[str | Bind]:
        """Yield texts and binds in their order. Before a parenthesis is no space: a function’s name must not have one."""
        names = {one.place: "`" + one.table.name.replace("`", "``") + "`" for one in self.references}
        rows_from, place = self._values_place(), 0
        while place < len(self.tokens):
            word = self.tokens[place]
            if place and word[0] != "(":
                yield " "
            if place == rows_from:
                yield from self._insert_rows(place)
                place = self._end_of_rows(place)
                continue
            yield from self._piece(place, names.get(place, word))
            place += 1

    def _piece(self, place: int, word: str) -> Iterator[str | Bind]:
        match word:
            case "?":
                yield self._bind(place)
            case "(?)" | "(...)" if self.tokens[place - 1] == "IN":
                bind = self._column_bind(self._left_of(place - 1), place)
                yield from _listed(
                    [bind] if word == ONE else [replace(bind, row=bind.row + at) for at in range(LIST_LENGTH)]
                )
            case "?, ..." if self.tokens[place - 1] == "LIMIT":
                yield f"0, {LIMIT}"
            case "?, ..." if self.tokens[place - 1] == "SELECT":
                yield "1, 1"
            case "(?)" if name_of(self.tokens[place - 1]) in (
                "now",
                "current_timestamp",
                "sysdate",
                "utc_timestamp",
                "sleep",
            ):
                yield "(0)"
            case "(?)" | "(...)" | "?, ..." | "(...) /* , ... */" | "(?) /* , ... */":
                raise ValueError(_NO_COLUMN)
            case _:
                yield word

    # --- single values ------------------------------------------------------------------------------------------------
    def _bind(self, place: int) -> Bind:
        tokens, at = self.tokens, place - 1
        before = tokens[at]
        is_signed = before in ("-", "+") and tokens[at - 1] in _COMPARISONS | {"(", ",", "BETWEEN", "AND"}
        if is_signed:
            at, before = at - 1, tokens[at - 1]
        if before in ("LIMIT", "OFFSET"):
            return Bind(fixed=LIMIT if before == "LIMIT" else "0")
        if before in _COMPARISONS:
            return self._compared(at, place)
        if before == "BETWEEN":
            return self._column_bind(self._left_of(at), place)
        if before == "AND" and "BETWEEN" in (tokens[at - 2], tokens[at - 3]):
            between = at - 2 if tokens[at - 2] == "BETWEEN" else at - 3
            return self._column_bind(self._left_of(between), place)
        if before in _ARITHMETIC:
            return Bind(fixed="1")
        if before == "(" and at > 2 and name_of(tokens[at - 1]) and tokens[at - 2] in _COMPARISONS:  # d < DATE_ADD(?, …
            return self._compared(at - 2, place)
        if tokens[place + 1 : place + 2] and tokens[place + 1] in _COMPARISONS:
            return self._column_bind(self._right_of(place + 1), place)
        raise ValueError(_NO_COLUMN)

    def _compared(self, at: int, place: int) -> Bind:
        left = self._left_of(at)
        if isinstance(left, str):
            return Bind(fixed="1")
        bind = self._column_bind(left, place)
        if self.tokens[at] != "=" or not self._is_assigned(left[1]):
            return bind
        is_fresh = left[0].is_unique and not self.keeps_keys
        if self.is_insert and left[0].is_counter:
            return Bind(fixed="NULL")
        # a row of its own: with the values of the row that it finds, an UPDATE changes nothing
        return Bind(bind.table, bind.column, bind.row + 1, is_fresh, is_stored=True)

    def _is_assigned(self, start: int) -> bool:
        """Return whether the column at this place is one that SET or ON DUPLICATE KEY UPDATE changes."""
        depth = 0
        for word in reversed(self.tokens[:start]):
            depth += (word == ")") - (word == "(")
            if depth < 0 or (depth == 0 and word in ("WHERE", "ON", "HAVING", "SELECT")):
                return False
            if depth == 0 and word in ("SET", "UPDATE"):
                return True
        return False

    def _column_bind(self, found: tuple[Column, int, TableReference] | str, place: int) -> Bind:
        if isinstance(found, str):
            raise ValueError(_NO_COLUMN)
        column, _, reference = found
        if column.kind is ColumnKind.OTHER:
            raise ValueError(_NO_SAMPLE)
        # a table that is used twice has two rows
        return Bind(reference.table.name, column.name, 10_000 * self.references.index(reference))

    def _left_of(self, at: int) -> tuple[Column, int, TableReference] | str:
        """Return the column before an operator with its first place and its table, or the name of a function that counts."""
        end = at - 1
        if self.tokens[end] == "NOT":
            end -= 1
        if self.tokens[end] != ")":
            return self._column_at(end, is_end=True)
        start, depth = end, 0
        while start >= 0:
            depth += (self.tokens[start] == ")") - (self.tokens[start] == "(")
            if depth == 0:
                break
            start -= 1
        if name_of(self.tokens[start - 1]) in _COUNTING:
            return self.tokens[start - 1]
        inside = self.tokens[start + 1 : end]
        if inside[:1] == ["SELECT"] or "," in inside[:-1] and not name_of(self.tokens[start - 1]):
            raise ValueError(_NO_COLUMN)
        for place in range(end - 1, start, -1):
            try:
                return self._column_at(place, is_end=True)
            except ValueError:
                continue
        raise ValueError(_NO_COLUMN)

    def _right_of(self, at: int) -> tuple[Column, int, TableReference] | str:
        end = at + 1
        while self.tokens[end + 1 : end + 2] == ["."]:
            end += 2
        return self._column_at(end, is_end=True)

    def _column_at(self, end: int, *, is_end: bool) -> tuple[Column, int, TableReference]:
        name = name_of(self.tokens[end]) if 0 <= end < len(self.tokens) else ""
        if not name:
            raise ValueError(_NO_COLUMN)
        alias = name_of(self.tokens[end - 2]) if end > 1 and self.tokens[end - 1] == "." else ""
        scope = self.scopes[end]
        candidates = [
            (column, end - 2 if alias else end, one)
            for one in self.references
            if one.scope == scope[: len(one.scope)] and alias in ("", one.alias)
            for column in one.table.columns
            if column.name.lower() == name
        ]
        depth = max((len(one.scope) for _, _, one in candidates), default=0)
        nearest = [found for found in candidates if len(found[2].scope) == depth]
        if len(nearest) != 1:
            raise ValueError(phrase("has a column that is in several of its tables") if nearest else _NO_COLUMN)
        return nearest[0]

    # --- INSERT … VALUES ------------------------------------------------------------------------------------------------
    def _values_place(self) -> int:
        """Return the place of the first row after VALUES of an INSERT or REPLACE; -1 without."""
        if not self.is_insert:
            return -1
        at = next((at for at, word in enumerate(self.tokens) if word in ("VALUES", "VALUE")), -2)
        return at + 1

    def _end_of_rows(self, place: int) -> int:
        if self.tokens[place] != "(":
            return place + 1
        depth = 0
        while place < len(self.tokens):
            depth += (self.tokens[place] == "(") - (self.tokens[place] == ")")
            place += 1
            if depth == 0:
                break
        return place

    def _insert_columns(self, place: int) -> list[Column]:
        table = self.references[0].table
        if self.tokens[place - 2] != ")":
            return [one for one in table.columns if not one.is_generated]
        start = max(at for at in range(place - 2) if self.tokens[at] == "(")
        names = [name_of(word) for word in self.tokens[start + 1 : place - 2] if word != ","]
        known = {one.name.lower(): one for one in table.columns}
        if not all(name in known for name in names):
            raise ValueError(_NO_COLUMN)
        return [known[name] for name in names]

    def _insert_rows(self, place: int) -> Iterator[str | Bind]:
        columns, word = self._insert_columns(place), self.tokens[place]
        if word in (ROW, ONE, ROWS, ONES):
            count = self.rows if word in (ROWS, ONES) else 1
            for row in range(count):
                yield ", " if row else ""
                yield from _listed([self._inserted(column, row) for column in columns])
        elif word == "(":
            yield from self._mixed_row(place, columns)
        else:
            raise ValueError(_NO_COLUMN)

    def _mixed_row(self, place: int, columns: list[Column]) -> Iterator[str | Bind]:
        """Yield a row of values and expressions. One list in it has as many values as are missing."""
        items = _items(self.tokens[place + 1 : self._end_of_rows(place) - 1])
        lists = sum(item == [VALUES] for item in items)
        length = len(columns) - (len(items) - lists)
        if lists > 1 or (lists and length < 2) or (not lists and length):
            raise ValueError(phrase("has several lists of values in a row"))
        at, found = 0, list[str | Bind]()
        for item in items:
            count = length if item == [VALUES] else 1
            for column in columns[at : at + count]:
                found.append(", " if found else "(")
                found += [self._inserted(column, 0)] if item in (["?"], [VALUES]) else [_expression(item)]
            at += count
        yield from (*found, ")")

    def _inserted(self, column: Column, row: int) -> Bind:
        if column.is_counter:
            return Bind(fixed="NULL")
        if column.kind is ColumnKind.OTHER:
            raise ValueError(_NO_SAMPLE)
        return Bind(
            self.references[0].table.name, column.name, row, column.is_unique and not self.keeps_keys, is_stored=True
        )


def _items(tokens: list[str]) -> list[list[str]]:
    """Split a row at the commas outside of parentheses."""
    items, depth = [list[str]()], 0
    for word in tokens:
        depth += (word == "(") - (word == ")")
        if word == "," and depth == 0:
            items.append([])
        else:
            items[-1].append(word)
    return items


def _expression(item: list[str]) -> str:
    if any(word in ("?", VALUES, ROW, ROWS, ONES) for word in item):
        raise ValueError(_NO_COLUMN)
    return " ".join(item).replace(" (", "(").replace(ONE, "(0)")


def _listed(binds: list[Bind]) -> Iterator[str | Bind]:
    for at, bind in enumerate(binds):
        yield ", " if at else "("
        yield bind
    yield ")"
