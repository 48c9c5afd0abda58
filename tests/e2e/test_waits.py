"""A reading of wait events on a real server by a real worker, also one that is killed between the two readings."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stack import OPERATOR, Stack, running_stack, wait_for

from .host_state import nothing_changes

pytestmark = pytest.mark.services

ASK = f"""
from django.contrib.auth.models import User
from dbops.models import Instance
from dbops.operations.waits import request_wait_reading
actor = User.objects.get(username="{OPERATOR}")
print(request_wait_reading(actor=actor, instance=Instance.objects.get(name="replica-1"), seconds={{seconds}}).pk)
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A lab of its own: its worker is killed."""
    with running_stack(web=False) as running:
        yield running


def ask(stack: Stack, seconds: int = 5) -> int:
    return int(stack.manage("shell", "--no-imports", "-c", ASK.format(seconds=seconds)).stdout)


def row(stack: Stack, pk: int) -> dict[str, Any]:
    found = stack.rows("SELECT * FROM dbops_waitreading WHERE id = ?", pk)[0]
    return {**found, "result": json.loads(found["result"]), "error": json.loads(found["error"])}


def ended(stack: Stack, pk: int) -> dict[str, Any]:
    wait_for("the end of the reading", lambda: row(stack, pk)["status"] in ("succeeded", "failed", "unknown"), 60)
    return row(stack, pk)


def test_reading_changes_nothing(stack: Stack) -> None:
    with nothing_changes(stack):
        found = ended(stack, ask(stack))
    assert found["status"] == "succeeded", found
    assert found["result"]["limits"] == ["schema-off"]
    assert 4 < found["result"]["elapsed_seconds"] < 40
    assert found["result"]["counters"]["Questions"] > 0
    assert found["result"]["settings"]["table_open_cache"] > 0


def test_second_reading_is_taken_by_another_worker(stack: Stack) -> None:
    pk = ask(stack, seconds=30)
    wait_for("the first reading", lambda: row(stack, pk)["status"] == "waiting", 60)
    stack.stop("worker", signal.SIGKILL)
    stack.start("worker")
    found = ended(stack, pk)
    assert (found["status"], found["slot"]) == ("succeeded", None)
    assert found["result"]["elapsed_seconds"] >= 29
