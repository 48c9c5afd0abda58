"""A fleet whose hosts get no password: the dashboard and the backup tool log in there by their system account."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.checks import current_user
from tests.stack import Stack

pytestmark = pytest.mark.services
TARGET, SOURCE = "replica-1", "backup-1"


@pytest.fixture
def sockets(stack: Stack, tmp_path: Path) -> Iterator[None]:
    """Let the inventory name the system account for the sockets, and lock every account there that has a password."""
    fleet = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    for kind in ("local", "backup"):
        fleet["clusters"][0]["accounts"][kind] = {"user": current_user(), "socket": True}
    changed = tmp_path / "fleet.yaml"
    changed.write_text(yaml.safe_dump(fleet))
    users = ", ".join(f"'{stack.lab.accounts[name].user}'@'localhost'" for name in ("admin", "backup"))
    stack.manage("fleet", "import", str(changed))
    on_primary(stack, f"ALTER USER {users} ACCOUNT LOCK")
    try:
        yield
    finally:
        on_primary(stack, f"ALTER USER {users} ACCOUNT UNLOCK")
        stack.manage("fleet", "import", str(stack.lab.fleet_yaml))
        stack.write("UPDATE dbops_cluster SET local_user = ''")


def on_primary(stack: Stack, statement: str) -> None:
    with stack.lab.connect("primary-1") as connection, connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.usefixtures("sockets")
def test_rebuild_needs_no_password_on_the_hosts(stack: Stack) -> None:
    plan = stack.wait_for_possible_plan(TARGET)
    found = {item["code"]: item["severity"] for item in plan["findings"] if item["code"].endswith("shared_login")}
    assert found == {"source.shared_login": "ok", "target.shared_login": "ok"}
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded"
