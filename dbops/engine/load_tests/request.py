"""What a person asks of a load test, and what of it is not possible."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dbops.engine.flavors.prepare import MIB
from dbops.engine.load_tests.allowed_options import why_not_set
from dbops.engine.load_tests.digest_facts import SourceDigests
from dbops.engine.load_tests.digests import chosen_of
from dbops.engine.load_tests.sql import why_no_tables, why_not_sent
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.phrases import phrase


class Raised(StrEnum):
    """What is raised from step to step. ``NOTHING``: an A/B test, which compares two sets of server options."""

    SCHEMAS = "schemas"
    RATE = "rate"
    THREADS = "threads"
    NOTHING = "nothing"


#: Bounds of a request. A test of longer rounds or more of them is not a test but an operation of its own.
MOST_STEPS, MOST_REPEATS, MOST_THREADS, MOST_SCHEMAS, LEAST_PAIRS, MOST_PAIRS = 20, 20, 1024, 9_999, 4, 20
#: Without an A/A test nothing tells a quiet machine from a noisy one.
LEAST_AA_PAIRS = 3
LEAST_SECONDS, MOST_SECONDS = 1, 3600
LEAST_POOL_BYTES = 64 * MIB
MOST_STATEMENTS, MOST_STATEMENT_BYTES, MOST_TABLES = 20_000, 64 * 1024, 10_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class LoadTestRequest:
    """A wanted load test.

    Attributes:
        source: name of the instance whose version and settings the scratch server gets.
        host: name of the host that runs the scratch server.
        generator_host: name of the host that runs the load generator; empty for the same one.
        run: the backup run that is restored; 0 for an empty server.
        workload: the load.
        raised: what is raised from step to step, through ``steps``; ``NOTHING`` for an A/B test.
        steps: the values of the steps, ascending: schemas, events a second, or threads.
        repeats: rounds of each step.
        threads, rate, schemas: of all rounds, where they are not raised; rate 0: as fast as possible.
        seconds, warm_up_seconds: of each round.
        pool_bytes: buffer pool of the scratch server.
        options: further server options of the whole test, name and value.
        options_a, options_b: of the two arms of an A/B test.
        most_pairs, aa_pairs: of an A/B test, and of its A/A test.
        wanted_width: an A/B test ends earlier once its interval is this narrow (upper through lower bound).
        seed: of the order of rounds.
        most_seconds: of the whole test.
    """

    source: str
    host: str
    workload: Workload
    run: int = 0
    raised: Raised = Raised.THREADS
    steps: tuple[int, ...] = (1, 2, 4, 8)
    repeats: int = 3
    threads: int = 8
    rate: int = 0
    schemas: int = 0
    seconds: int = 30
    warm_up_seconds: int = 5
    pool_bytes: int = 1024 * MIB
    options: tuple[tuple[str, str], ...] = ()
    options_a: tuple[tuple[str, str], ...] = ()
    options_b: tuple[tuple[str, str], ...] = ()
    most_pairs: int = 12
    aa_pairs: int = 4
    wanted_width: float = 1.1
    seed: int = 1
    most_seconds: int = 4 * 3600
    generator_host: str = ""

    @property
    def is_tunnelled(self) -> bool:
        """Return whether the load generator runs on another host, and reaches the server through SSH."""
        return self.generator_host not in ("", self.host)

    @property
    def is_ab(self) -> bool:
        return self.raised is Raised.NOTHING

    @property
    def option_sets(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the options of each server that the test starts; in each, a later one of the same name counts."""
        arms = (self.options_a, self.options_b) if self.is_ab else ((),)
        return tuple(tuple({**dict(self.options), **dict(arm)}.items()) for arm in arms)

    @property
    def most_threads(self) -> int:
        return max((*self.steps, 1)) if self.raised is Raised.THREADS else self.threads

    @property
    def most_schemas(self) -> int:
        if self.workload.profile is not Profile.ROTATING:
            return 0
        return max((*self.steps, 1)) if self.raised is Raised.SCHEMAS else self.schemas


def problems(request: LoadTestRequest) -> list[str]:
    """Return why a request is not possible, in words; empty if it is."""
    return [*_in_bounds(request), *_of_steps(request), *_of_workload(request.workload, request), *_of_options(request)]


def _in_bounds(request: LoadTestRequest) -> Iterator[str]:
    bounds = (
        (phrase("threads"), request.threads, 1, MOST_THREADS),
        (phrase("repeats"), request.repeats, 1, MOST_REPEATS),
        (phrase("seconds of a round"), request.seconds, LEAST_SECONDS, MOST_SECONDS),
        (phrase("seconds of warm-up"), request.warm_up_seconds, 0, MOST_SECONDS),
        (phrase("rate"), request.rate, 0, 10_000_000),
        (phrase("pairs"), request.most_pairs, LEAST_PAIRS, MOST_PAIRS),
        (phrase("A/A pairs"), request.aa_pairs, LEAST_AA_PAIRS, MOST_PAIRS),
        (phrase("schemas"), request.schemas, 0, MOST_SCHEMAS),
        (phrase("MiB of buffer pool"), request.pool_bytes // MIB, LEAST_POOL_BYTES // MIB, 1024**2),
    )
    yield from (
        phrase("{name} must be {least} to {most}, not {value}", name=name, least=least, most=most, value=value)
        for name, value, least, most in bounds
        if not least <= value <= most
    )
    if request.wanted_width <= 1:
        yield phrase("the wanted width of the interval must be more than 1")


def _of_steps(request: LoadTestRequest) -> Iterator[str]:
    if request.is_ab:
        if request.options_a == request.options_b:
            yield phrase("both arms of the A/B test have the same options")
        return
    most = {Raised.SCHEMAS: MOST_SCHEMAS, Raised.THREADS: MOST_THREADS, Raised.RATE: 10_000_000}[request.raised]
    if not 1 <= len(request.steps) <= MOST_STEPS:
        yield phrase(
            "a test has 1 to {most_steps} steps, not {number}", most_steps=MOST_STEPS, number=len(request.steps)
        )
    if list(request.steps) != sorted(set(request.steps)) or not all(1 <= step <= most for step in request.steps):
        yield phrase("steps must rise, each from 1 to {most}", most=most)


def _of_workload(workload: Workload, request: LoadTestRequest) -> Iterator[str]:
    if request.raised is Raised.SCHEMAS and workload.profile is not Profile.ROTATING:
        yield phrase("only rotating schemas can raise the number of schemas")
    if workload.profile in (Profile.ROTATING, Profile.INSERT) and workload.table_ddl.strip():
        yield from _of_tables(workload)
    if workload.profile is Profile.ROTATING:
        yield from _of_rotation(workload, request)
    elif workload.profile is Profile.INSERT:
        if not workload.table_ddl.strip():
            yield phrase("inserts need the table’s CREATE TABLE statement")
    elif not (1 <= workload.tables <= 1000 and 1 <= workload.table_rows <= 1_000_000_000):
        yield phrase("tables must be 1 to 1000, with 1 to 1,000,000,000 rows each")


def _of_tables(workload: Workload) -> Iterator[str]:
    most = 1 if workload.profile is Profile.INSERT else MOST_TABLES
    if reason := why_no_tables(workload.table_ddl, most=most):
        yield phrase("the text of the table {reason}", reason=reason)


def _of_rotation(workload: Workload, request: LoadTestRequest) -> Iterator[str]:
    if not workload.schema or _CONTROL.search(workload.schema) or len(workload.schema) > 64:
        yield phrase("rotating schemas need the name of the schema that is copied")
    if request.raised is not Raised.SCHEMAS and request.schemas < 1:
        yield phrase("rotating schemas need a number of schemas")
    if not 0 <= workload.row_share <= 1:
        yield phrase("the share of rows must be 0 to 1")
    if not 0 < workload.seconds_on_schema <= 3600:
        yield phrase("the time on a schema must be more than 0 and at most 3600 s")
    if workload.digests:
        yield from _of_digests(workload, workload.digests)
        if request.is_tunnelled:
            yield phrase(
                "values of the source’s data do not leave the scratch server’s host: digests need the load generator "
                "on the same host"
            )
        return
    if not 1 <= len(workload.statements) <= MOST_STATEMENTS:
        yield phrase("rotating schemas need 1 to {most_statements} statements", most_statements=MOST_STATEMENTS)
    if any(len(one.encode()) > MOST_STATEMENT_BYTES or "\0" in one or not one.strip() for one in workload.statements):
        yield phrase(
            "a statement is empty, has a NUL byte, or is longer than {most_statement_bytes} bytes",
            most_statement_bytes=MOST_STATEMENT_BYTES,
        )
    reasons = ((one, why_not_sent(one)) for one in dict.fromkeys(workload.statements))
    if found := next(((one, reason) for one, reason in reasons if reason), None):
        yield phrase("the statement {found} {found_2}", found=f"{found[0][:60]!r}", found_2=found[1])


def _of_digests(workload: Workload, reading: SourceDigests) -> Iterator[str]:
    if workload.statements:
        yield phrase("a test has statements or the source’s digests, not both")
    if reading.schema != workload.schema:
        yield phrase("the digests are of the schema {schema}", schema=f"{reading.schema!r}")
    if not any(one.template for one in chosen_of(reading)):
        yield phrase("none of the source’s digests can be used")


def _of_options(request: LoadTestRequest) -> Iterator[str]:
    for name, value in (*request.options, *request.options_a, *request.options_b):
        if reason := why_not_set(name, value):
            yield reason
