"""Login shells, sudo and odd programs of the hosts that dbops logs in to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.e2e.host_state import same_data_at_one_gtid
from tests.stack import Stack
from tests.whole_file import write_whole

pytestmark = pytest.mark.services
SOURCE, TARGET = "backup-1", "replica-1"


@contextmanager
def fleet(stack: Stack, edit: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Import the lab's fleet file with a change, for the length of the block."""
    content = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    edit(content)
    path = stack.folder / "edited.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
    stack.manage("fleet", "import", str(path))
    try:
        yield
    finally:
        stack.manage("fleet", "import", str(stack.lab.fleet_yaml))
        stack.wait_for_facts(TARGET, answering=True)


@contextmanager
def in_csh(stack: Stack, *names: str) -> Iterator[None]:
    """Run the dashboard's commands as sshd does for users whose login shell is tcsh."""
    files = [stack.lab.host(name).sshd.authorized_keys for name in names]
    before = [file.read_text() for file in files]
    for file, text in zip(files, before, strict=True):
        write_whole(file, f'command="exec tcsh -c \\"$SSH_ORIGINAL_COMMAND\\"" {text}')
    try:
        yield
    finally:
        for file, text in zip(files, before, strict=True):
            write_whole(file, text)


@pytest.mark.situation("14", "works")
def test_rebuild_works_with_csh_as_login_shell(stack: Stack) -> None:
    with in_csh(stack, SOURCE, TARGET):
        facts = stack.wait_for_facts(TARGET, answering=True)
        assert facts["host_problem"] is None
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
    same_data_at_one_gtid(stack, TARGET)


@contextmanager
def program(stack: Stack, host: str, name: str, script: str) -> Iterator[None]:
    """Put a program first on the PATH of the host's sessions."""
    path = stack.lab.host(host).sshd.programs / name
    path.parent.mkdir(exist_ok=True)
    before = path.readlink() if path.is_symlink() else None
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    try:
        yield
    finally:
        path.unlink()
        if before is not None:
            path.symlink_to(before)


def refusals(stack: Stack) -> dict[str, str]:
    found = stack.plan(TARGET)["findings"]
    return {item["code"]: item["seen"] for item in found if item["severity"] == "refusal"}


@pytest.mark.situation("15", "refused with sudo's own words, and nothing invented")
def test_refused_sudo_invents_no_finding(stack: Stack) -> None:
    def edit(content: dict[str, Any]) -> None:
        [host] = [item for item in content["hosts"] if item["name"] == TARGET]
        host["sudo"] = True

    words = "sudo: sorry, you must have a tty to run sudo"
    with program(stack, TARGET, "sudo", f"echo '{words}' >&2; exit 1"), fleet(stack, edit):
        facts = stack.wait_for_facts(TARGET, answering=True)
        assert facts["host_problem"]["code"] == "ssh.sudo_refused"
        found = refusals(stack)
        assert found.keys() == {"target.host", "target.server_id"}
        assert words in found["target.host"]
        assert "was not read" in found["target.server_id"]
        assert stack.plan(TARGET)["old_data"] == "aside"


@pytest.mark.situation("G5", "named; all other facts of the host are there")
@pytest.mark.parametrize("script", ["yes | head -c 50000000", "sleep 30"])
def test_odd_backup_tool_is_named_and_hides_no_other_fact(stack: Stack, script: str) -> None:
    with program(stack, TARGET, "mariadb-backup", script):
        facts = stack.wait_for_facts(TARGET, answering=True)
        assert facts["config"]["server_id"] == stack.lab.host(TARGET).server_id
        found = refusals(stack)
        assert set(found) == {"tools.target"}
        assert str(stack.lab.host(TARGET).sshd.programs / "mariadb-backup") in found["tools.target"]
    stack.wait_for_possible_plan(TARGET)
