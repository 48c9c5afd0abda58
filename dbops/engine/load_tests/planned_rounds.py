"""The rounds of a requested load test."""

from dbops.engine.load_tests.planning import AbTest, Axis, make_ab_rounds, make_rounds
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.rounds import Round


def rounds_of(request: LoadTestRequest) -> tuple[Round, ...]:
    """Return the rounds of a request, in their order.

    Raises:
        Refused: they do not fit into the time (``load_test.limits``).
    """
    base = Round(
        number=1,
        step=1,
        threads=request.threads,
        seconds=request.seconds,
        warm_up_seconds=request.warm_up_seconds,
        rate=request.rate,
        schemas=request.schemas,
    )
    if request.is_ab:
        test = AbTest(request.options_a, request.options_b, request.most_pairs, request.aa_pairs)
        return make_ab_rounds(base, test, seed=request.seed, most_seconds=request.most_seconds)
    axis = Axis(request.raised.value)
    return make_rounds(
        base,
        axis=axis,
        values=request.steps,
        repeats=request.repeats,
        seed=request.seed,
        most_seconds=request.most_seconds,
    )
