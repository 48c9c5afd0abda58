"""Cancel, requested in each step: a known state on both hosts, the source given back, and the next rebuild works."""

from datetime import datetime

import pytest

from dbops.engine.methods import METHODS
from tests.stack import Stack, wait_for

from .cancelling import cancelled_in
from .host_state import is_replicating, processes_of

pytestmark = pytest.mark.services

#: "pause" is over at once where nothing has to be paused, as here.
STEPS = [step.name for step in METHODS["xbstream"].steps[:-1] if step.name != "pause"]


@pytest.mark.parametrize("step", STEPS)
def test_cancel_in_a_step_leaves_a_known_state(stack: Stack, step: str) -> None:
    with cancelled_in(stack, step):
        stack.wait_for_possible_plan("replica-1")
        status, lines = stack.rebuild("replica-1", check=False)
    rebuild = stack.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]
    assert (status, lines[-1]["status"]) == (3, "cancelled"), lines[-3:]
    assert rebuild["outcome"]
    seconds = (
        datetime.fromisoformat(rebuild["finished_at"]) - datetime.fromisoformat(rebuild["cancel_requested_at"])
    ).total_seconds()
    print(f"cancel in {step}: {seconds:.1f} s: {rebuild['outcome']}")
    assert seconds < 30  # five on a quiet machine; this one may be busy

    source, target = stack.lab.host("backup-1"), stack.lab.host("replica-1")
    assert is_replicating(stack, "backup-1")
    assert rebuild["uid"] not in (source.folder / "authorized_keys").read_text()
    assert not (source.folder / "dbops" / "rebuilds" / rebuild["uid"] / "backup.cnf").exists()
    wait_for("no process of the run", lambda: not processes_of(rebuild["uid"]), 30)
    assert stack.rows("SELECT * FROM dbops_hold") == []
    if "old data of replica-1 is at" in rebuild["outcome"]:
        assert (target.data_dir.with_name(f"data.dbops-old-{rebuild['uid']}")).is_dir()


def test_rebuild_succeeds_after_all_cancels(stack: Stack) -> None:
    stack.wait_for_possible_plan("replica-1")
    _, lines = stack.rebuild("replica-1")
    assert lines[-1]["status"] == "succeeded"
    assert is_replicating(stack, "replica-1")
