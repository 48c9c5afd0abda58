"""The rounds of a requested load test."""

from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.rounds import Round


def rounds_of(request: LoadTestRequest) -> tuple[Round, ...]:
    """Return the rounds of a request, in their order."""
    rounds: list[Round] = []
    for number, value in enumerate(request.steps, 1):
        for _ in range(request.repeats):
            threads = value if request.raised is Raised.THREADS else request.threads
            rate = value if request.raised is Raised.RATE else request.rate
            schemas = value if request.raised is Raised.SCHEMAS else request.schemas
            rounds.append(
                Round(len(rounds) + 1, number, threads, request.seconds, request.warm_up_seconds, rate, schemas)
            )
    return tuple(rounds)
