"""What may follow a rebuild that did not succeed, and why not."""

from typing import Any

import pytest

from dbops.engine.rebuilds.follow_ups import AFTER_THE_COPY, Ended, offer_put_back, offer_retry, remembered
from dbops.engine.rebuilds.methods import METHODS
from dbops.engine.states import Status, StepState

NAMES = [step.name for step in METHODS["xbstream"].steps]
MOVED = {"touched": True, "new_identity": "1:2", "aside_path": "/data.dbops-old-run", "aside_identity": "1:1"}
COPIED = {**MOVED, "checkpoints": {"backup_type": "full-backuped"}, "position": {}}


def ended(failed_in: str, memory: dict[str, Any], status: Status = Status.FAILED) -> Ended:
    at = NAMES.index(failed_in)
    states = dict.fromkeys(NAMES[:at], StepState.DONE)
    states |= {failed_in: StepState.FAILED} | dict.fromkeys(NAMES[at + 1 :], StepState.SKIPPED)
    return Ended("run", status, memory, states)


@pytest.mark.parametrize("step", ["stream", *AFTER_THE_COPY])
def test_old_data_that_was_moved_aside_goes_back_until_the_copy_is_verified(step: str) -> None:
    assert offer_put_back(ended(step, MOVED)).is_possible
    assert not offer_put_back(ended(step, {**MOVED, "verified": True})).is_possible


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        ({}, "Nothing was changed"),
        ({"touched": True}, "No old data was moved aside"),
        ({**MOVED, "aside_identity": ""}, "No old data was moved aside"),
        ({**MOVED, "put_back": True}, "in place already"),
    ],
)
def test_old_data_that_is_not_aside_does_not_go_back(memory: dict[str, Any], why: str) -> None:
    offer = offer_put_back(ended("stream", memory))
    assert not offer.is_possible
    assert why in offer.reason


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.RUNNING, Status.LOST, Status.QUEUED, Status.EXPIRED])
def test_nothing_follows_what_has_not_failed(status: Status) -> None:
    assert not offer_put_back(ended("own", COPIED, status)).is_possible
    assert not offer_retry(ended("own", COPIED, status)).is_possible


@pytest.mark.parametrize("step", ["own", "start", "catch-up", "repoint", "verify"])
def test_a_retry_goes_on_from_the_first_step_that_is_not_done(step: str) -> None:
    offer = offer_retry(ended(step, {**COPIED, "prepare.begun": True}))
    assert offer.is_possible
    assert METHODS["xbstream"].step(step).title in offer.reason
    before = AFTER_THE_COPY[: AFTER_THE_COPY.index(step)]
    assert set(offer.skips) == set(before) - {"start", "verify"}


def test_half_a_copy_is_not_gone_on_with() -> None:
    assert "not whole" in offer_retry(ended("stream", MOVED)).reason
    assert not offer_retry(ended("stream", MOVED)).is_possible


def test_a_preparation_that_was_begun_is_not_done_twice() -> None:
    assert offer_retry(ended("prepare", COPIED)).is_possible
    assert not offer_retry(ended("prepare", {**COPIED, "prepare.begun": True})).is_possible


def test_a_retry_of_a_retry_knows_what_both_have_done() -> None:
    first = ended("start", {**COPIED, "prepare.begun": True})
    memory = remembered(first)
    assert memory["copy_run"] == "run"
    second = Ended("other", Status.FAILED, memory, {"recheck": StepState.DONE, "start": StepState.FAILED})
    assert set(offer_retry(second).skips) == {"prepare", "own"}
    assert remembered(second)["copy_run"] == "run"


def test_after_going_back_there_is_no_copy_unless_it_was_seen_to_be_there() -> None:
    went_back = {"look-back": StepState.DONE, "put-back": StepState.FAILED}
    gone = Ended("other", Status.FAILED, {**COPIED, "found": {"new": ""}}, went_back)
    refused = Ended("other", Status.FAILED, {**COPIED, "found": {"new": "1"}, "done_before": ["prepare"]}, went_back)
    assert not offer_retry(gone).is_possible
    assert offer_retry(refused).is_possible


def test_a_copy_that_a_crash_made_worthless_is_not_gone_on_with() -> None:
    memory = {**COPIED, "prepare.begun": True, "worthless": "its host was restarted"}
    offer = offer_retry(ended("catch-up", memory))
    assert not offer.is_possible
    assert "worthless" in offer.reason
    assert {"relaxed", "undurable"} <= set(remembered(ended("catch-up", {**memory, "relaxed": {}, "undurable": {}})))
