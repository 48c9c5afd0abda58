"""The rounds of a load test, and their order."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from dbops.engine.errors import Refused
from dbops.engine.load_tests.planning import (
    AbTest,
    Axis,
    make_ab_rounds,
    make_rounds,
    seconds_for_all_schemas,
    seconds_of,
)
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload

BASE = Round(number=0, step=0, threads=8, seconds=10)
ON, OFF = (("innodb_doublewrite", "ON"),), (("innodb_doublewrite", "OFF"),)


@pytest.mark.parametrize(("axis", "name"), [(Axis.SCHEMAS, "schemas"), (Axis.RATE, "rate"), (Axis.THREADS, "threads")])
def test_each_value_is_a_step_with_its_repeats(axis: Axis, name: str) -> None:
    rounds = make_rounds(BASE, axis=axis, values=[300, 75, 150], seed=1, most_seconds=3600)
    assert [one.number for one in rounds] == list(range(1, 10))
    assert Counter((one.step, getattr(one, name)) for one in rounds) == {(1, 75): 3, (2, 150): 3, (3, 300): 3}


def test_the_first_pass_ascends_and_the_others_are_random() -> None:
    def orders(seed: int) -> list[list[int]]:
        rounds = make_rounds(BASE, axis=Axis.SCHEMAS, values=range(1, 7), repeats=4, seed=seed, most_seconds=3600)
        steps = [one.step for one in rounds]
        return [steps[start : start + 6] for start in range(0, 24, 6)]

    found = [orders(seed) for seed in range(8)]
    assert all(passes[0] == [1, 2, 3, 4, 5, 6] for passes in found)
    assert all(sorted(one) == [1, 2, 3, 4, 5, 6] for passes in found for one in passes)
    assert len({tuple(one) for passes in found for one in passes[1:]}) > 10
    assert orders(3) == orders(3)


def test_fewer_repeats_are_planned_in_less_time() -> None:
    time_of_two = 2 * 3 * seconds_of(BASE)
    rounds = make_rounds(BASE, axis=Axis.SCHEMAS, values=[1, 2, 3], seed=1, most_seconds=time_of_two)
    assert len(rounds) == 6


@pytest.mark.parametrize(
    ("values", "most_seconds"), [([], 3600), ([0, 1], 3600), ([-1], 3600), ([1, 2, 3], 3 * seconds_of(BASE) - 1)]
)
def test_unusable_steps_are_refused(values: list[int], most_seconds: int) -> None:
    with pytest.raises(Refused) as caught:
        make_rounds(BASE, axis=Axis.SCHEMAS, values=values, seed=1, most_seconds=most_seconds)
    assert caught.value.code == "load_test.limits"


@pytest.mark.parametrize("seed", range(6))
def test_pairs_alternate_their_first_arm(seed: int) -> None:
    rounds = make_ab_rounds(BASE, AbTest(ON, OFF, pairs=8, aa_pairs=4), seed=seed, most_seconds=7200)
    assert [one.number for one in rounds] == list(range(1, 25))
    for step, arms, pairs in ((1, ("a", "b"), 8), (2, ("a1", "a2"), 4)):
        of_step = [one for one in rounds if one.step == step]
        assert [one.pair for one in of_step] == [number for number in range(1, pairs + 1) for _ in arms]
        firsts = [one.arm for one in of_step[::2]]
        assert all(one != other for one, other in pairwise(firsts))
        assert Counter(one.arm for one in of_step) == dict.fromkeys(arms, pairs)
        # the two of a pair run right after each other
        assert all(second.number == first.number + 1 for first, second in zip(of_step[::2], of_step[1::2], strict=True))
    assert {(one.arm, one.options) for one in rounds} == {("a", ON), ("b", OFF), ("a1", ON), ("a2", ON)}


def test_pairs_are_limited_by_time_and_refused_if_too_few() -> None:
    pair = 2 * seconds_of(BASE, restarts=True)
    rounds = make_ab_rounds(BASE, AbTest(ON, OFF, pairs=8, aa_pairs=4), seed=1, most_seconds=10 * pair)
    assert len({one.pair for one in rounds if one.step == 1}) == 6
    for test, seconds in ((AbTest(ON, OFF), 7 * pair), (AbTest(ON, ON), 7200), (AbTest(ON, OFF, pairs=3), 7200)):
        with pytest.raises(Refused):
            make_ab_rounds(BASE, test, seed=1, most_seconds=seconds)


def test_all_schemas_take_longer_the_longer_a_thread_stays() -> None:
    rotating = Workload(Profile.ROTATING, seconds_on_schema=5)
    assert seconds_for_all_schemas(1200, rotating, 8) == 750
    assert seconds_for_all_schemas(1, replace(rotating, seconds_on_schema=0.01), 8) == 1
