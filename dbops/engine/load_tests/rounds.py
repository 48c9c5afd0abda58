"""The rounds of a load test: each is one run of the load generator under stated conditions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the load generator.

    Attributes:
        number: from 1, in the order of running.
        step: the number of its step, from 1; rounds of one step repeat the same conditions.
        arm: ``a`` or ``b`` of an A/B test, ``a1`` or ``a2`` of an A/A test; empty elsewhere.
        pair: the number of its pair in an A/B or A/A test, from 1; 0 elsewhere.
        schemas: how many copies of the schema exist, for rotating schemas; 0 elsewhere.
        threads: connections of the generator.
        rate: wanted events a second; 0: as fast as they can.
        seconds, warm_up_seconds: how long is measured, and how long the load runs unmeasured before.
        options: server options that differ from the test's own, such as ``("innodb_doublewrite", "OFF")``. The server restarts before a
            round whose options are others than those of the round before, and in A/B tests before every round.
    """

    number: int
    step: int
    threads: int
    seconds: int
    warm_up_seconds: int = 5
    rate: int = 0
    schemas: int = 0
    arm: str = ""
    pair: int = 0
    options: tuple[tuple[str, str], ...] = ()
