"""Which digests a load test sends, how often, and what the scratch server's host needs to make statements of them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.engine.load_tests.digest_template import Bind, Template, template_of
from dbops.engine.phrases import said

#: How many statements are made, in proportion to the counts, each used digest at least once.
STATEMENTS = 10_000
#: A plan warns if the used digests are a smaller share of the source's statements.
GOOD_SHARE = 0.8
#: Sampled of a table: rows, out of so many first ones, the characters of a value, and the seconds.
SAMPLED_ROWS, READ_ROWS, VALUE_CHARACTERS, SAMPLE_SECONDS = 1_000, 100_000, 1_000, 60
#: All sampled rows together, about: texts of one byte a character, in hexadecimal.
SAMPLE_BYTES = 32 * 1024**2
#: Largest whole number that the generator makes exactly.
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class ChosenDigest:
    """A digest with its template and the number of its statements, or why it is left out (``reason``)."""

    digest: Digest
    template: Template | None = None
    statements: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlannedDigest:
    """A digest as a plan shows it. ``share``: of the source's statements, 0 to 1."""

    text: str
    count: int
    share: float
    statements: int
    reason: str = ""

    @property
    def percent(self) -> float:
        return 100 * self.share


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """The digests of a plan. ``sha256``: of the whole reading, structure of the tables included; empty without digests."""

    sha256: str = ""
    schemas: int = 0
    since: str = ""
    total: int = 0
    lost: int = 0
    digests: tuple[PlannedDigest, ...] = ()

    @property
    def used(self) -> tuple[PlannedDigest, ...]:
        return tuple(one for one in self.digests if not one.reason)

    @property
    def left_out(self) -> tuple[PlannedDigest, ...]:
        return tuple(one for one in self.digests if one.reason)

    @property
    def share(self) -> float:
        """Return the share of the source's statements that the used digests are."""
        return sum(one.share for one in self.used)

    @property
    def percent(self) -> float:
        return 100 * self.share

    @property
    def beyond(self) -> int:
        """Return how many statements of the source are of no digest that was read."""
        return max(0, self.total - sum(one.count for one in self.digests))


@lru_cache(maxsize=16)
def chosen_of(reading: SourceDigests) -> tuple[ChosenDigest, ...]:
    """Return the digests of a reading, most frequent first, with the statements of each."""
    found = [_chosen(digest, reading) for digest in reading.digests]
    numbers = iter(proportions([one.digest.count for one in found if one.template], STATEMENTS))
    return tuple(ChosenDigest(one.digest, one.template, next(numbers)) if one.template else one for one in found)


def _chosen(digest: Digest, reading: SourceDigests) -> ChosenDigest:
    try:
        return ChosenDigest(digest, template_of(digest, reading.tables, digest_bytes=reading.digest_bytes))
    except ValueError as error:
        return ChosenDigest(digest, reason=said(error))


def proportions(counts: list[int], total: int) -> list[int]:
    """Divide ``total`` in proportion to the counts by the largest remainder, at least 1 for each."""
    if not counts:
        return []
    rest = max(0, total - len(counts))
    exact = [max(0.0, total * count / max(1, sum(counts)) - 1) for count in counts]
    scale = rest / sum(exact) if sum(exact) else 0.0
    shares = [one * scale for one in exact]
    found = [int(one) for one in shares]
    order = sorted(range(len(counts)), key=lambda at: (found[at] - shares[at], at))
    for at in order[: max(0, rest - sum(found)) if sum(exact) else 0]:
        found[at] += 1
    return [1 + one for one in found]


def digest_plan(reading: SourceDigests | None) -> DigestPlan:
    """Return what a plan shows of a reading."""
    if reading is None:
        return DigestPlan()
    total = max(1, reading.total)
    text = json.dumps(to_record(reading), sort_keys=True)
    return DigestPlan(
        hashlib.sha256(text.encode()).hexdigest(),
        reading.schemas,
        reading.since,
        reading.total,
        reading.lost,
        tuple(
            PlannedDigest(one.digest.text, one.digest.count, one.digest.count / total, one.statements, one.reason)
            for one in chosen_of(reading)
        ),
    )


# --- for the host ---------------------------------------------------------------------------------------------------------
def sampled_tables(reading: SourceDigests) -> list[tuple[TableColumns, list[Column]]]:
    """Return the tables with the columns whose values are needed, in their order."""
    needed: dict[str, set[str]] = {}
    for one in chosen_of(reading):
        for bind in one.template.binds if one.template else ():
            if not bind.fixed:
                needed.setdefault(bind.table, set()).add(bind.column)
    return [
        (table, [column for column in table.columns if column.name in needed[table.name]])
        for table in reading.tables
        if table.name in needed
    ]


def names_of_tables(reading: SourceDigests | None, numbers: str) -> tuple[str, ...]:
    """Return the names of sampled tables by their numbers, separated by commas, as the host tells those without rows."""
    tables = sampled_tables(reading) if reading else []
    found = (int(one) for one in numbers.split(",") if one.isdecimal())
    return tuple(tables[at - 1][0].name for at in found if 1 <= at <= len(tables))


def digest_lines(reading: SourceDigests) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the generator's input: number of statements, then parts and binds in turn.

    A bind is ``=TEXT``, or kind, table, column, row and what ``_code`` adds, separated by spaces. Rows follow on the host.
    """
    tables = sampled_tables(reading)
    places = {
        (table.name, column.name): (at + 1, number + 1, column)
        for at, (table, columns) in enumerate(tables)
        for number, column in enumerate(columns)
    }
    for one in chosen_of(reading):
        if one.template:
            binds = (
                f"={bind.fixed}" if bind.fixed else _code(bind, *places[bind.table, bind.column])
                for bind in one.template.binds
            )
            first, *parts = one.template.parts
            yield (
                "digest",
                str(one.statements),
                first,
                *(text for pair in zip(binds, parts, strict=True) for text in pair),
            )


def _code(bind: Bind, table: int, number: int, column: Column) -> str:
    kind = "fresh" if bind.is_fresh else "stored" if bind.is_stored else "found"
    most = min(column.most or _EXACT, _EXACT) if column.kind is ColumnKind.NUMBER else min(column.most or 32, 64)
    return f"{kind} {table} {number} {bind.row} {column.kind} {most}"


def sample_sql(reading: SourceDigests, flavor: str, *, of_copy: str) -> str:
    """Return statements for a client on the host of the scratch server, whose batch output are the generator's lines of rows.

    Values that are no numbers are hexadecimal: no value can end a text or a line.

    Args:
        reading: the digests.
        flavor: of the scratch server.
        of_copy: the schema that is sampled.
    """
    limit = (
        f"max_statement_time = {SAMPLE_SECONDS}"
        if flavor == "mariadb"
        else f"max_execution_time = {SAMPLE_SECONDS * 1000}"
    )
    lines = [f"SET SESSION {limit}, sql_mode = ''", f"USE {_quoted(of_copy)}"]
    tables = sampled_tables(reading)
    for at, (table, columns) in enumerate(tables, 1):
        names = ", ".join(_quoted(one.name) for one in columns)
        values = ", ".join(_value(one) for one in columns)
        lines.append(
            f"SELECT 'row', {at}, {values} FROM (SELECT {names} FROM {_quoted(table.name)} LIMIT {READ_ROWS}) AS sampled"  # noqa: S608 - names are quoted
            f" ORDER BY RAND() LIMIT {_rows(columns, len(tables))}"
        )
    return "".join(f"{line};\n" for line in lines)


def _rows(columns: list[Column], tables: int) -> int:
    """Return how many rows of a table are sampled: fewer of wide ones, so that all tables together stay small."""
    sizes = (
        2 * min(one.most or VALUE_CHARACTERS, VALUE_CHARACTERS) if one.kind is ColumnKind.BYTES else 40
        for one in columns
    )
    return max(20, min(SAMPLED_ROWS, SAMPLE_BYTES // (tables * sum(sizes))))


def _value(column: Column) -> str:
    name = _quoted(column.name)
    match column.kind:
        case ColumnKind.NUMBER:
            value = f"CONCAT('n', {name})"
        case ColumnKind.BYTES:
            value = f"CONCAT('b', HEX(LEFT({name}, {VALUE_CHARACTERS})))"
        case _:
            text = f"CAST({name} AS CHAR)"  # a part of it can be no value of its type
            value = f"IF(CHAR_LENGTH({text}) > {VALUE_CHARACTERS}, NULL, CONCAT('t', HEX({text})))"
    return f"COALESCE({value}, 'N')"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
