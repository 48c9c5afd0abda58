"""Every status against every other."""

import itertools

import pytest

from dbops.engine.states import ACTIVE, FINAL, TRANSITIONS, Status, may_move

ALLOWED = {
    ("queued", "running"),
    ("queued", "cancelled"),
    ("queued", "expired"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "lost"),
    ("lost", "running"),
    ("lost", "failed"),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Status, Status)))
def test_only_the_moves_of_the_design_are_allowed(before: Status, after: Status) -> None:
    assert may_move(before, after) is ((before.value, after.value) in ALLOWED)


def test_transitions_cover_every_status() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_final_states_never_change() -> None:
    assert {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.EXPIRED} == FINAL
    assert {Status.QUEUED, Status.RUNNING, Status.LOST} == ACTIVE
