"""Percentiles from histograms: the error bound, and the edges."""

import math

import pytest

from dbops.engine.load_tests.percentiles import PERCENTILES, RATIO, merge, percentile, percentiles, uncertain
from tests.engine.load_tests.results import histogram, latencies


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_a_bucket_of_the_values(seed: int) -> None:
    values = sorted(latencies(20_000, seed))
    found = percentiles(histogram(values))
    for name, share in PERCENTILES.items():
        true = values[math.ceil(share * len(values)) - 1]
        assert found[name] == pytest.approx(true, rel=RATIO - 1), name


def test_merged_histograms_are_those_of_all_values() -> None:
    first, second = latencies(500, 1), latencies(900, 2)
    assert merge([histogram(first), histogram(second)]) == histogram(first + second)
    assert merge([]) == ()


def test_no_percentile_is_outside_of_what_was_measured() -> None:
    buckets = histogram([1.0, 1.0, 1.0])
    assert percentile(buckets, 0.999, least=1.0, most=1.0) == 1.0
    assert percentile(buckets, 0.0001, least=1.0, most=1.0) == 1.0
    assert percentile((), 0.5) is None


@pytest.mark.parametrize(("count", "expected"), [(10_001, ()), (5_000, ("P999",)), (100, ("P95", "P99", "P999"))])
def test_percentiles_of_few_statements_are_uncertain(count: int, expected: tuple[str, ...]) -> None:
    assert uncertain(((1.0, count),)) == expected
