"""Load tests, for real: a scratch server beside running servers that notice nothing, and gone again however it ends."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack

from .load_testing import request_of, run_load_test, unchanged
from .test_managed_backup import backup_stack
from .test_restore_tests import good_backup

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with backup_stack(1, files="physical") as running:
        yield running


@pytest.fixture(scope="module")
def run(stack: Stack) -> int:
    return good_backup(stack)


@pytest.fixture(autouse=True)
def untouched(stack: Stack) -> Iterator[None]:
    with unchanged(stack):
        yield


@pytest.mark.runs("MariaDB 10.11", "load test")
def test_empty_server_is_measured_and_removed(stack: Stack) -> None:
    status, result = run_load_test(stack, request_of(stack))
    assert (status, result["status"], result["error"]) == (0, "succeeded", {}), result["error"]
    assert [step["name"] for step in result["steps"]] == [
        "check",
        "initialise",
        "start",
        "fill",
        "rounds",
        "stop",
        "remove",
    ]
    assert {step["state"] for step in result["steps"]} == {"done"}
    total = result["report"]["Total"]
    assert total["QueryCount"] > 100
    assert total["Duration"]["P99"] > 0
