"""Plan the rounds of a load test: steps with repeats, or pairs of an A/B test with an A/A test beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from dbops.engine.errors import Refused
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.phrases import phrase

Options = tuple[tuple[str, str], ...]

#: Fewer repeats show no knee: the spread of a step is unknown.
REPEATS = 3
#: On two cores four pairs of 30 s gave 1.20 (1.03 to 1.41) for a setting whose effect is large. Three proved nothing.
LEAST_PAIRS, MOST_PAIRS = 4, 20
#: Fewer A/A pairs do not tell a quiet machine from a noisy one, so they allow no verdict.
LEAST_AA_PAIRS = 3
#: Beyond the seconds of load: the generator's start and end, and a server that stops and starts.
ROUND_SECONDS, RESTART_SECONDS = 2, 8


class Axis(StrEnum):
    """What is raised step by step."""

    SCHEMAS = "schemas"
    RATE = "rate"
    THREADS = "threads"


@dataclass(frozen=True, slots=True)
class AbTest:
    """Two sets of server options. ``pairs`` is the most; a test can end earlier. ``aa_pairs`` compare ``a`` with itself."""

    a: Options
    b: Options
    pairs: int = 8
    aa_pairs: int = 4


def make_rounds(
    base: Round, *, axis: Axis, values: Sequence[int], repeats: int = REPEATS, seed: int, most_seconds: int
) -> tuple[Round, ...]:
    """Plan steps: each value of the axis is one step, repeated.

    The first pass is ascending, so that caches fill as they do in production. Each further pass visits all steps in random order: a
    machine that becomes slower or faster between them does not look like a step.

    Args:
        base: the round that all others vary.
        axis, values: what is raised, and to which values.
        repeats: passes over all steps. Fewer are planned if the time allows no more.
        seed: of the order.
        most_seconds: of all rounds together.

    Raises:
        Refused: not even one pass fits into the time, or a value is not usable (``load_test.limits``).
    """
    steps = sorted(set(values))
    if not steps or steps[0] < (0 if axis is Axis.RATE else 1) or repeats < 1:
        raise _refused(phrase("each step needs a positive value, and each at least one round"))
    fitting = most_seconds // (len(steps) * seconds_of(base))
    if fitting < 1:
        raise _refused(
            phrase(
                "{number} rounds take {seconds} s, and {most_seconds} s are allowed",
                number=len(steps),
                seconds=len(steps) * seconds_of(base),
                most_seconds=most_seconds,
            )
        )
    random = Random(seed)  # noqa: S311 - an order, not a secret
    order = list(range(len(steps)))
    rounds: list[Round] = []
    for _ in range(min(repeats, fitting)):
        for place in order:
            rounds.append(_raised(replace(base, number=len(rounds) + 1, step=place + 1), axis, steps[place]))
        random.shuffle(order)
    return tuple(rounds)


def make_ab_rounds(base: Round, test: AbTest, *, seed: int, most_seconds: int) -> tuple[Round, ...]:
    """Plan interleaved pairs. Step 1 has the A/B test and step 2 the A/A test.

    Pairs alternate as A B, B A, so that a steady drift cancels out. A/A pairs are between them, under the same conditions.

    Args:
        base: the round that all others vary.
        test: the options and the number of pairs. Fewer A/B pairs are planned if the time allows no more.
        seed: of the first arm, and of the places of the A/A pairs.
        most_seconds: of all rounds together, with restarts.

    Raises:
        Refused: fewer than ``LEAST_PAIRS`` pairs fit into the time, both sets are equal, or a number is out of range
            (``load_test.limits``).
    """
    if sorted(test.a) == sorted(test.b):
        raise _refused(phrase("both sides have the same options"))
    if not LEAST_PAIRS <= test.pairs <= MOST_PAIRS or not LEAST_AA_PAIRS <= test.aa_pairs <= MOST_PAIRS:
        raise _refused(
            phrase(
                "an A/B test has {least_pairs} to {most_pairs} pairs, and {least_aa_pairs} to {most_pairs} A/A pairs",
                least_pairs=LEAST_PAIRS,
                most_pairs=MOST_PAIRS,
                least_aa_pairs=LEAST_AA_PAIRS,
            )
        )
    fitting = most_seconds // (2 * seconds_of(base, restarts=True)) - test.aa_pairs
    if fitting < LEAST_PAIRS:
        raise _refused(
            phrase(
                "{least_pairs} pairs do not fit into {most_seconds} s",
                least_pairs=LEAST_PAIRS + test.aa_pairs,
                most_seconds=most_seconds,
            )
        )
    random = Random(seed)  # noqa: S311 - an order, not a secret
    begins_with_b, begins_with_second = random.random() < 0.5, random.random() < 0.5
    rounds: list[Round] = []

    def add(step: int, pair: int, arms: Sequence[tuple[str, Options]]) -> None:
        for arm, options in arms:
            rounds.append(replace(base, number=len(rounds) + 1, step=step, arm=arm, pair=pair, options=options))

    for pair in range(1, max(min(test.pairs, fitting), test.aa_pairs) + 1):
        ab = (("a", test.a), ("b", test.b))
        aa = (("a1", test.a), ("a2", test.a))
        parts = [(1, ab[::-1] if (pair % 2 == 0) != begins_with_b else ab)] if pair <= min(test.pairs, fitting) else []
        parts += [(2, aa[::-1] if (pair % 2 == 0) != begins_with_second else aa)] if pair <= test.aa_pairs else []
        random.shuffle(parts)
        for step, arms in parts:
            add(step, pair, arms)
    return tuple(rounds)


def seconds_for_all_schemas(schemas: int, workload: Workload, threads: int) -> int:
    """Return in how many seconds rotating threads use each schema once.

    A shorter round does not use them all, and its result is not one of so many schemas. A warm-up of this length opens their tables, so
    that the measured part shows how a server lives with them, and not its start.
    """
    return math.ceil(schemas * workload.seconds_on_schema / threads)


def seconds_missing(rounds: Sequence[Round], workload: Workload) -> int:
    """Return the seconds that the longest of too short rounds needs to use each schema once; 0 if all are long enough.

    Such a round is invalid (``report.reasons_against``). With a wanted rate, a thread enters a schema with an event only.
    """
    if workload.profile is not Profile.ROTATING:
        return 0
    needed = (
        (
            max(
                seconds_for_all_schemas(one.schemas, workload, one.threads),
                math.ceil(one.schemas / (one.rate or math.inf)),
            ),
            one,
        )
        for one in rounds
    )
    return max((seconds for seconds, one in needed if seconds > one.seconds), default=0)


def _raised(one: Round, axis: Axis, value: int) -> Round:
    match axis:
        case Axis.SCHEMAS:
            return replace(one, schemas=value)
        case Axis.RATE:
            return replace(one, rate=value)
        case Axis.THREADS:
            return replace(one, threads=value)


def seconds_of(one: Round, *, restarts: bool = False) -> int:
    """Return the seconds that a round takes, estimated."""
    return one.warm_up_seconds + one.seconds + ROUND_SECONDS + (RESTART_SECONDS if restarts else 0)


def _refused(cause: str) -> Refused:
    return Refused.unchanged("load_test.limits", phrase("Planning the rounds of a load test"), cause)
