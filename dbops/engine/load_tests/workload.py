"""What a load test does to its scratch server."""

from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.load_tests.digest_facts import SourceDigests


class Profile(StrEnum):
    """The kind of statements. The first four are those of sysbench, on tables that it makes."""

    READ_ONLY = "read-only"
    WRITE_ONLY = "write-only"
    READ_WRITE = "read-write"
    POINT_SELECT = "point-select"
    ROTATING = "rotating-schemas"
    INSERT = "insert"


#: Profiles that use tables of sysbench.
OF_SYSBENCH = frozenset({Profile.READ_ONLY, Profile.WRITE_ONLY, Profile.READ_WRITE, Profile.POINT_SELECT})


@dataclass(frozen=True, slots=True)
class Workload:
    """The load of a test.

    Attributes:
        profile: the kind of statements.
        tables, table_rows: of sysbench's own tables.
        schema, row_share: for ``ROTATING``: the restored schema whose copies are used, and the share (0 to 1) of its rows in each copy.
        seconds_on_schema: for ``ROTATING``: how long a thread stays on a schema before it takes the next one.
        statements: for ``ROTATING``: the statements with placeholders filled, each without a schema name; picked at random.
        digests: for ``ROTATING``, instead of statements: the top statements of the source, with values sampled from the restored data.
        table_ddl: for ``INSERT``: the ``CREATE TABLE`` statement. For ``ROTATING`` on an empty server: those of the schema.
        key_ranges: for ``INSERT``: name, lowest and highest value of each column with random integers.
    """

    profile: Profile
    tables: int = 4
    table_rows: int = 100_000
    schema: str = ""
    row_share: float = 0.0
    seconds_on_schema: float = 5.0
    statements: tuple[str, ...] = ()
    digests: SourceDigests | None = None
    table_ddl: str = ""
    key_ranges: tuple[tuple[str, int, int], ...] = ()
