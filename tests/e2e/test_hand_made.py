"""A replica that was replaced by hand, without dbops: found, logged, and explained by the next rebuild."""

import re
import shutil

import pytest

from lab.hosts import LabHost
from tests.stack import Stack, wait_for

from .host_state import is_replicating, one

pytestmark = pytest.mark.services
TARGET = "replica-1"


def replaced_by_hand(host: LabHost) -> None:
    """Put a copy of the data in the place of the data, with the server stopped: as an administrator would with any backup."""
    host.stop_server()
    aside = host.data_dir.with_name("data.by-hand")
    host.data_dir.rename(aside)
    shutil.copytree(aside, host.data_dir, symlinks=True)
    for path in (host.data_dir, *host.data_dir.rglob("*")):
        there = aside / path.relative_to(host.data_dir)
        shutil.chown(path, there.stat().st_uid, there.stat().st_gid)
    shutil.rmtree(aside)
    host.start_server()


def set_back(stack: Stack) -> None:
    """Give the replica an older position, as restored data would have. It is not started again: it would apply twice."""
    older = re.sub(r"\d+$", "1", str(one(stack, TARGET, "SELECT @@gtid_slave_pos AS position")["position"]))
    connection = stack.lab.connect(TARGET)
    try:
        with connection.cursor() as cursor:
            for statement in ("STOP SLAVE", "RESET MASTER", f"SET GLOBAL gtid_slave_pos = '{older}'"):
                cursor.execute(statement)
    finally:
        connection.close()


def found(stack: Stack, code: str) -> list[dict[str, object]]:
    return stack.rows(
        "SELECT * FROM dbops_topologydifference WHERE code = ? AND subject = ?"
        " AND confirmed_at IS NOT NULL AND gone_at IS NULL",
        code,
        TARGET,
    )


def test_manual_restore_is_found_and_explained_by_the_next_rebuild(stack: Stack) -> None:
    stack.wait_for_facts(TARGET, answering=True)
    wait_for(
        "its files are known",
        lambda: stack.rows(
            "SELECT 1 FROM dbops_serveridentity s JOIN dbops_instance i ON i.id = s.instance_id"
            " WHERE i.name = ? AND s.files <> ''",
            TARGET,
        ),
    )
    assert found(stack, "data_replaced") == []
    replaced_by_hand(stack.lab.host(TARGET))
    [row] = stack.wait_for_probe("the rebuild by hand is found", lambda: found(stack, "data_replaced"), TARGET)
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", str(row["detail"])), "when they were made"
    session = stack.session_key()
    [cluster] = stack.rows("SELECT name FROM dbops_cluster")
    shown = stack.get(f"/clusters/{cluster['name']}/topology/", session)
    assert f'id="difference-{row["id"]}"'.encode() in shown
    assert b"data-hand-made" in stack.get(f"/instances/{TARGET}/lineage/", session)
    assert b"instance.found_replaced" in stack.get("/audit/?view=data-movement", session)

    set_back(stack)
    [row] = stack.wait_for_probe("the history that went back is found", lambda: found(stack, "history_lost"), TARGET)
    assert re.search(rf"\b{TARGET}\b.*\b0-\d+-\d+", str(row["detail"])), "which transactions are gone"

    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    stack.wait_for_probe(
        "our rebuild explains both",
        lambda: not [*found(stack, "data_replaced"), *found(stack, "history_lost")],
        TARGET,
    )
    stack.wait_for_facts(TARGET, answering=True)
    assert [*found(stack, "data_replaced"), *found(stack, "history_lost")] == []
    [ours] = stack.rows("SELECT id FROM dbops_rebuild ORDER BY id DESC LIMIT 1")
    shown = stack.get(f"/instances/{TARGET}/lineage/", session)
    assert f"/rebuilds/{ours['id']}/".encode() in shown
    assert is_replicating(stack, TARGET)
