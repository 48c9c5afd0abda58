"""What may follow a rebuild that did not succeed, and why not."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.methods import METHODS
from dbops.engine.rebuilds.follow_ups import (
    AFTER_THE_COPY,
    EndedRebuild,
    again_option,
    incomplete_copy_of,
    remembered,
    resume_option,
    rollback_option,
)
from dbops.engine.states import Status, StepState
from tests.engine.builders import inputs
from tests.engine.by_name import build_plan

NAMES = [step.name for step in METHODS["xbstream"].steps]
MOVED = {"touched": True, "new_identity": "1:2", "aside_path": "/data.dbops-old-run", "aside_identity": "1:1"}
COPIED = {**MOVED, "checkpoints": {"backup_type": "full-backuped"}, "position": {}}


def ended(failed_in: str, checkpoint: dict[str, Any], status: Status = Status.FAILED) -> EndedRebuild:
    at = NAMES.index(failed_in)
    states = dict.fromkeys(NAMES[:at], StepState.DONE)
    states |= {failed_in: StepState.FAILED} | dict.fromkeys(NAMES[at + 1 :], StepState.SKIPPED)
    return EndedRebuild("run", status, checkpoint, states)


@pytest.mark.parametrize("step", ["stream", *AFTER_THE_COPY])
def test_rollback_is_possible_until_the_copy_is_verified(step: str) -> None:
    assert rollback_option(ended(step, MOVED)).is_possible
    assert not rollback_option(ended(step, {**MOVED, "verified": True})).is_possible


@pytest.mark.parametrize(("did_run", "code"), [(True, "possible"), (False, "possible_stopped")])
def test_rollback_says_that_a_server_that_did_not_run_stays_stopped(did_run: bool, code: str) -> None:
    option = rollback_option(replace(ended("stream", MOVED), did_run=did_run))
    assert option.is_possible
    assert option.code == code


@pytest.mark.parametrize(
    ("checkpoint", "code"),
    [
        ({}, "untouched"),
        ({"touched": True}, "no_old_data"),
        ({**MOVED, "aside_identity": ""}, "no_old_data"),
        ({**MOVED, "rolled_back": True}, "in_place"),
    ],
)
def test_old_data_that_is_not_aside_does_not_go_back(checkpoint: dict[str, Any], code: str) -> None:
    option = rollback_option(ended("stream", checkpoint))
    assert not option.is_possible
    assert option.code == code


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.RUNNING, Status.LOST, Status.QUEUED, Status.EXPIRED])
def test_follow_ups_are_refused_when_nothing_failed(status: Status) -> None:
    assert not rollback_option(ended("set-ownership", COPIED, status)).is_possible
    assert not resume_option(ended("set-ownership", COPIED, status)).is_possible


@pytest.mark.parametrize("step", ["set-ownership", "start", "catch-up", "repoint", "certify", "verify"])
def test_retry_resumes_at_the_first_unfinished_step(step: str) -> None:
    option = resume_option(ended(step, {**COPIED, "prepare.begun": True}))
    assert option.is_possible
    assert METHODS["xbstream"].step(step).title in option.reason
    before = AFTER_THE_COPY[: AFTER_THE_COPY.index(step)]
    assert set(option.skips) == set(before) - {"start", "certify", "verify"}


def test_half_a_copy_is_not_gone_on_with() -> None:
    assert resume_option(ended("stream", MOVED)).code == "incomplete_copy"
    assert not resume_option(ended("stream", MOVED)).is_possible


def test_retry_never_repeats_a_started_preparation() -> None:
    assert resume_option(ended("prepare", COPIED)).is_possible
    assert not resume_option(ended("prepare", {**COPIED, "prepare.begun": True})).is_possible


def test_retry_of_a_retry_keeps_the_steps_of_both() -> None:
    first = ended("start", {**COPIED, "prepare.begun": True})
    checkpoint = remembered(first)
    assert checkpoint["copy_run"] == "run"
    second = EndedRebuild(
        "other", Status.FAILED, checkpoint, {"resume-check": StepState.DONE, "start": StepState.FAILED}
    )
    assert set(resume_option(second).skips) == {"prepare", "set-ownership"}
    assert remembered(second)["copy_run"] == "run"


def test_retry_after_a_rollback_needs_a_found_copy() -> None:
    went_back = {"find-old-data": StepState.DONE, "rollback": StepState.FAILED}
    gone = EndedRebuild("other", Status.FAILED, {**COPIED, "found": {"new": ""}}, went_back)
    refused = EndedRebuild(
        "other", Status.FAILED, {**COPIED, "found": {"new": "1"}, "done_before": ["prepare"]}, went_back
    )
    assert not resume_option(gone).is_possible
    assert resume_option(refused).is_possible


def test_retry_refuses_a_worthless_copy() -> None:
    checkpoint = {**COPIED, "prepare.begun": True, "worthless": "its host was restarted"}
    option = resume_option(ended("catch-up", checkpoint))
    assert not option.is_possible
    assert option.code == "worthless"
    assert "its host was restarted" in option.reason
    assert {"relaxed", "undurable"} <= set(
        remembered(ended("catch-up", {**checkpoint, "relaxed": {}, "undurable": {}}))
    )


@pytest.mark.parametrize("status", list(Status))
def test_again_option_is_possible_after_an_end_without_success(status: Status) -> None:
    expected = status in (Status.FAILED, Status.CANCELLED, Status.EXPIRED)
    assert again_option(ended("stream", MOVED, status)).is_possible is expected


TREE = "0f" * 32
LEFT = replace(build_plan(inputs()).target, datadir_identity="1:2", is_answering=False)


@pytest.mark.parametrize(
    ("checkpoint", "changes", "known"),
    [
        ({**MOVED, "left_tree": TREE}, {}, {"incomplete_copy": "/data.dbops-old-run", "incomplete_copy_tree": TREE}),
        (
            {**MOVED, "left_tree": TREE, "incomplete_copy": "/first"},
            {},
            {"incomplete_copy": "/first", "incomplete_copy_tree": TREE},
        ),
        ({**MOVED, "left_tree": TREE, "aside_path": ""}, {}, {"incomplete_copy": "", "incomplete_copy_tree": TREE}),
        (
            {"incomplete_copy": "", "incomplete_copy_tree": TREE},
            {},
            {"incomplete_copy": "", "incomplete_copy_tree": TREE},
        ),
        (MOVED, {}, {}),
        ({**MOVED, "left_tree": TREE}, {"is_answering": True}, {}),
        ({**MOVED, "left_tree": TREE}, {"datadir_identity": "1:3"}, {}),
        ({**MOVED, "left_tree": TREE, "refused": True}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_incomplete_copy_of_is_known_when_the_target_is_unchanged(
    checkpoint: dict[str, Any], changes: dict[str, Any], known: dict[str, str]
) -> None:
    assert incomplete_copy_of(ended("stream", checkpoint), replace(LEFT, **changes)) == known
