"""The load generator: the arguments of sysbench, and the file with its statements.

The script is ``hosts/scripts/load_tests/load.lua``. It times each statement itself, because sysbench 1.0.20 times events, leaves the wait
in its queue out, and gives one whole-numbered percentile (read in its source, ``src/sysbench.c`` and ``src/sb_timer.c``).
"""

import re
from dataclasses import dataclass

from dbops.engine.errors import Refused
from dbops.engine.load_tests.digests import digest_lines
from dbops.engine.load_tests.request import MOST_TABLES
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.sql import why_no_tables, why_not_sent, without_end
from dbops.engine.load_tests.workload import OF_SYSBENCH, Profile, Workload
from dbops.engine.phrases import phrase

PROGRAM = "sysbench"
#: The schema of the tables of all profiles but rotating schemas.
LOAD_SCHEMA = "dbops_load"
#: Names of the copies of a schema; as in ``load.lua`` and ``copies.sh``.
COPY_NAME = "dbops_copy_{:04d}"
#: The script, and the file that ``run_round`` gives to it on standard input.
SCRIPT, INPUT = "load.lua", "load.input"
MOST_STATEMENTS, MOST_INPUT_BYTES = 100_000, 64 * 1024**2
#: More schemas than this have names that the script does not make.
MOST_SCHEMAS, MOST_THREADS = 9_999, 4_096
_TABLE = re.compile(
    r"\A\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:(?:`(?:[^`]|``)+`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)+`|[\w$]+)",
    re.IGNORECASE,
)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where the generator runs: ``directory`` has its script, ``socket`` is the scratch server's, without a password.

    ``host`` and ``port``: of a TiDB node instead; its password is in the input (``input_text``).
    """

    directory: str
    socket: str
    user: str = "root"
    host: str = ""
    port: int = 0

    def file(self, name: str) -> str:
        return f"{self.directory.rstrip('/')}/{name}"


def run_arguments(workload: Workload, one: Round, place: Place) -> tuple[str, ...]:
    """Return the command line of one round, beginning with the program. No part of it is from a person or a server but numbers.

    Raises:
        Refused: the round has more schemas or threads than the script can serve (``load_test.limits``).
    """
    must_fit(one)
    seconds = one.warm_up_seconds + one.seconds
    schema = COPY_NAME.format(1) if workload.profile is Profile.ROTATING else LOAD_SCHEMA
    return (
        *_connection(place, schema, one.threads),
        "--mysql-ignore-errors=all",  # the script decides which errors end a round
        *("--events=0", f"--time={seconds}", "--report-interval=1"),
        f"--profile={workload.profile}",
        *_tables(workload),
        *(f"--warm-up={one.warm_up_seconds}", f"--load-seconds={seconds}", f"--wanted-rate={one.rate}"),
        *(f"--schemas={one.schemas}", f"--seconds-on-schema={workload.seconds_on_schema:.6f}"),
        *(() if workload.profile in OF_SYSBENCH else ("--input=-",)),
        *(place.file(SCRIPT), "run"),
    )


def prepare_arguments(workload: Workload, place: Place, *, threads: int = 4) -> tuple[str, ...]:
    """Return the command line that makes the tables of sysbench's profiles, ``threads`` at a time."""
    threads = max(1, min(threads, workload.tables))
    return (*_connection(place, LOAD_SCHEMA, threads), *_tables(workload), place.file(SCRIPT), "prepare")


def cleanup_arguments(workload: Workload, place: Place) -> tuple[str, ...]:
    """Return the command line that drops the tables of sysbench's profiles."""
    return (*_connection(place, LOAD_SCHEMA, 1), *_tables(workload), place.file(SCRIPT), "cleanup")


def must_fit(one: Round) -> None:
    """Refuse a round with more than the script can serve.

    Raises:
        Refused: ``load_test.limits``.
    """
    if one.schemas > MOST_SCHEMAS or not 1 <= one.threads <= MOST_THREADS or one.seconds < 1 or one.warm_up_seconds < 0:
        limits = phrase(
            "at most {schemas} schemas, 1 to {threads} threads and at least 1 s",
            schemas=MOST_SCHEMAS,
            threads=MOST_THREADS,
        )
        raise Refused(
            "load_test.limits",
            phrase("Planning round {number}", number=one.number),
            cause=phrase("a round has {limits}", limits=limits),
        )


def input_text(workload: Workload, password: str = "") -> str:
    """Return the content of the file ``INPUT``: one item a line, fields separated by tabs, with backslash escapes. Empty without need.

    Args:
        workload: the load.
        password: of the account of the load, if it needs one. Arguments and environment of a process can be read by others.

    Raises:
        Refused: a statement is not one that a load may send, or there are too many (``load_test.statement``); the table's
            DDL or a range of keys cannot be read (``load_test.table``).
    """
    lines: list[tuple[str, ...]] = []
    if workload.profile is Profile.ROTATING:
        if workload.digests:
            lines = list(digest_lines(workload.digests))
        else:
            lines = [("statement", text) for text in _checked(workload.statements)]
        if workload.table_ddl.strip():
            tables_text(workload)
    elif workload.profile is Profile.INSERT:
        tables_text(workload)
        lines = [("table", table_name(workload.table_ddl)), *_keys(workload)]
    if password:
        lines.append(("password", password))
    text = "".join("\t".join(field.translate(_ESCAPES) for field in line) + "\n" for line in lines)
    if len(text.encode()) > MOST_INPUT_BYTES:
        raise _bad_statement(
            phrase(
                "the statements have more than {most_input_bytes} MiB together",
                most_input_bytes=MOST_INPUT_BYTES // 1024**2,
            )
        )
    return text


def table_name(ddl: str) -> str:
    """Return the name in a ``CREATE TABLE`` statement, without its schema and quotes.

    Raises:
        Refused: it is another statement (``load_test.table``).
    """
    if not (found := _TABLE.match(ddl)):
        raise _bad_table(phrase("the statement does not begin with CREATE TABLE and a name"))
    name = found.group(1)
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def names_schema(ddl: str) -> bool:
    """Return whether the name in a ``CREATE TABLE`` statement has a schema."""
    found = _TABLE.match(ddl)
    return bool(found and "." in ddl[: found.start(1)])


def _connection(place: Place, schema: str, threads: int) -> tuple[str, ...]:
    server = (
        (f"--mysql-host={place.host}", f"--mysql-port={place.port}")
        if place.host
        else (f"--mysql-socket={place.socket}",)
    )
    return (
        *(PROGRAM, "--db-driver=mysql", *server, f"--mysql-user={place.user}"),
        *(f"--mysql-db={schema}", f"--threads={threads}"),
    )


def _tables(workload: Workload) -> tuple[str, ...]:
    return (
        (f"--tables={workload.tables}", f"--table-rows={workload.table_rows}")
        if workload.profile in OF_SYSBENCH
        else ()
    )


def _checked(statements: tuple[str, ...]) -> tuple[str, ...]:
    if not statements:
        raise _bad_statement(phrase("there are none"))
    if len(statements) > MOST_STATEMENTS:
        raise _bad_statement(phrase("there are more than {most}", most=MOST_STATEMENTS))
    known: dict[str, str] = {}  # proportions repeat statements
    for number, text in enumerate(statements, 1):
        if text in known:
            continue
        if reason := why_not_sent(text):
            raise _bad_statement(phrase("statement {number} {reason}", number=number, reason=reason))
        known[text] = without_end(text)
    return tuple(known[text] for text in statements)


def tables_text(workload: Workload) -> str:
    """Return the statements that make the tables of inserts, or those of the schema that is copied on an empty server.

    Raises:
        Refused: they are not CREATE TABLE, or have files or rows elsewhere (``load_test.table``).
    """
    most = 1 if workload.profile is Profile.INSERT else MOST_TABLES
    if reason := why_no_tables(workload.table_ddl, most=most):
        raise _bad_table(phrase("the text {reason}", reason=reason))
    return workload.table_ddl.strip().rstrip(";")


def _keys(workload: Workload) -> list[tuple[str, ...]]:
    for name, low, high in workload.key_ranges:
        if not (-(2**63) <= low <= high < 2**64) or (low < 0 and high >= 2**63):
            raise _bad_table(
                phrase(
                    "the range {low} to {high} of {name} is not one of 64-bit integers", low=low, high=high, name=name
                )
            )
    return [("key", name, str(low), str(high)) for name, low, high in workload.key_ranges]


def _bad_statement(cause: str) -> Refused:
    return Refused.unchanged("load_test.statement", phrase("Reading the statements of a load test"), cause)


def _bad_table(cause: str) -> Refused:
    return Refused.unchanged("load_test.table", phrase("Reading the table of a load test"), cause)
