"""What advice takes from load tests: the newest conclusive A/B test of each kind, and the newest knee."""

from typing import Any

import pytest

from dbops.engine.capacity.advice_inputs import AdviceKind
from dbops.engine.load_tests.workload import Profile, Workload
from dbops.engine.states import RunStatus
from dbops.loaders.load_test_results import results_of
from dbops.models import LoadTest
from tests.app.load_test_rows import make_load_test, make_place, make_request, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def load_test() -> LoadTest:
    return make_load_test(make_request(make_source(), make_place(), workload=Workload(Profile.WRITE_ONLY)))


def finish(
    load_test: LoadTest, report: dict[str, Any], *, status: RunStatus = RunStatus.SUCCEEDED, **request: Any
) -> None:
    request = load_test.request | request
    LoadTest.objects.filter(pk=load_test.pk).update(status=status, request=request, report=report)


def ab(verdict: str) -> dict[str, Any]:
    return {"Comparison": {"verdict": verdict, "ab": {"pairs": 6, "ratio": 1.2, "low": 1.1, "high": 1.3}}}


def knee(kind: str, **other: Any) -> dict[str, Any]:
    return {"Raised": "TargetSchemaCount", "Knees": {"P99": {"kind": kind, "after": 300.0, "at": 600.0}, **other}}


DOUBLEWRITE = {
    "options_a": [["innodb_doublewrite", "ON"]],
    "options_b": [["innodb_doublewrite", "OFF"]],
}


@pytest.mark.parametrize(
    ("verdict", "is_taken"),
    [("faster", True), ("no difference shown", True), ("machine too noisy", False), ("not enough pairs", False)],
)
def test_conclusive_ab_test_tests_its_advice(load_test: LoadTest, verdict: str, *, is_taken: bool) -> None:
    finish(load_test, ab(verdict), **DOUBLEWRITE)
    found, _ = results_of(load_test.cluster)
    assert [(one.kind, one.test, one.low) for one in found] == [(AdviceKind.DOUBLEWRITE, load_test.pk, 1.1)] * is_taken


def test_test_of_the_way_back_counts_with_its_arms_exchanged(load_test: LoadTest) -> None:
    finish(load_test, ab("faster"), options_a=DOUBLEWRITE["options_b"], options_b=DOUBLEWRITE["options_a"])
    [found], _ = results_of(load_test.cluster)
    assert (found.low, found.high) == (pytest.approx(1 / 1.3), pytest.approx(1 / 1.1))


def test_test_of_reads_says_nothing_of_writes(load_test: LoadTest) -> None:
    finish(load_test, ab("no difference shown"), **DOUBLEWRITE, workload={"profile": "point-select"})
    assert results_of(load_test.cluster) == ((), None)


def test_test_of_two_kinds_or_without_an_end_tests_none(load_test: LoadTest) -> None:
    finish(load_test, ab("faster"), options_b=[["innodb_doublewrite", "OFF"], ["table_open_cache", "9000"]])
    assert results_of(load_test.cluster) == ((), None)
    finish(load_test, ab("faster"), status=RunStatus.CANCELLED, **DOUBLEWRITE)
    assert results_of(load_test.cluster) == ((), None)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (knee("wall"), 300),
        (knee("no knee shown"), None),
        (knee("even rise", P95={"kind": "slope", "after": 150.0, "at": 300.0}), 150),
        (knee("wall") | {"Raised": "WantedRate"}, None),
    ],
)
def test_knee_counts_where_schemas_were_raised(
    load_test: LoadTest, report: dict[str, Any], expected: int | None
) -> None:
    finish(load_test, report)
    _, found = results_of(load_test.cluster)
    assert found == (None if expected is None else (expected, load_test.pk))
