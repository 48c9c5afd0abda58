"""The summary of a rebuild that has ended: measured times, and nothing that was not measured."""

from dbops.engine.methods import FOLLOW_UPS, METHODS
from dbops.engine.rebuilds.comparison import (
    EVIDENCE_OF_STEPS,
    Dumps,
    PastCopy,
    RebuildComparison,
    StepComparison,
    dumps_of,
)
from dbops.engine.states import StepState


def step(name: str = "stream", state: StepState = StepState.DONE, **values: float | None) -> StepComparison:
    given: dict[str, float | None] = {"seconds": 10.0, "expected_seconds": 8.0} | values
    return StepComparison(name, "Title", state, **given)


def comparison(*steps: StepComparison, others: tuple[PastCopy, ...] = ()) -> RebuildComparison:
    return RebuildComparison(steps, seconds=30.0, bytes=None, rate=None, others=others)


def test_comparison_has_an_expectation_only_when_every_step_was_predicted() -> None:
    skipped = step(state=StepState.SKIPPED, seconds=None, expected_seconds=None)
    assert comparison(step(), step(), skipped).expected_seconds == 16.0
    assert comparison(step(), step(expected_seconds=None)).expected_seconds is None
    assert comparison().expected_seconds is None


def test_only_a_done_step_has_evidence() -> None:
    found = comparison(step("stream"), step("verify", StepState.FAILED), step("set-ownership"))
    assert found.evidence == (EVIDENCE_OF_STEPS["stream"],)


def test_comparison_evidence_names_existing_steps() -> None:
    names = {item.name for method in (*METHODS.values(), *FOLLOW_UPS.values()) for item in method.steps}
    assert set(EVIDENCE_OF_STEPS) <= names


def test_comparison_uses_the_median_of_others() -> None:
    others = tuple(
        PastCopy(number, "replica-1", seconds, None, None) for number, seconds in enumerate((5.0, 50.0, 7.0))
    )
    assert comparison(others=others).usual_seconds == 7.0
    assert comparison().usual_seconds is None


def test_dumps_of_is_none_without_measurements() -> None:
    assert dumps_of([3.0, 1.0, 9.0]) == Dumps(3, 3.0)
    assert dumps_of([]) is None
