"""What a reading of an instance's statements found: digest texts, without any value, and the tables that they are about."""

from dataclasses import dataclass
from enum import StrEnum


class ColumnKind(StrEnum):
    """How values of a column are sampled and written. ``OTHER``: not at all."""

    NUMBER = "n"
    BYTES = "b"
    TEXT = "t"
    OTHER = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``is_unique``: in a unique key; ``is_counter``: AUTO_INCREMENT; ``is_generated``: a statement gives it no value.

    ``most``: the largest whole number, or the most characters.
    """

    name: str
    kind: ColumnKind
    most: int = 0
    is_unique: bool = False
    is_counter: bool = False
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table of the schema, with its columns in their order."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Digest:
    """A statement with ``?`` for its values: its text, how often it ran, and how many rows it changed together."""

    text: str
    count: int
    rows_affected: int = 0


@dataclass(frozen=True, slots=True)
class SourceDigests:
    """The most frequent statements of a schema and of its sister schemas, which have the same table names.

    Attributes:
        schema: the chosen one.
        schemas: how many schemas the counts are of.
        since: when the first of them ran, as the server says it.
        total: how often statements of these schemas ran.
        lost: statements of all schemas that the server's full table of digests did not tell apart.
        digest_bytes: the server's limit of a digest; longer texts are cut without a sign.
        digests: most frequent first.
        tables: of the chosen schema.
    """

    schema: str
    schemas: int = 0
    since: str = ""
    total: int = 0
    lost: int = 0
    digest_bytes: int = 1024
    digests: tuple[Digest, ...] = ()
    tables: tuple[TableColumns, ...] = ()
