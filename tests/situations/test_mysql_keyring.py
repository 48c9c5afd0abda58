"""MySQL 9.7 whose tables are encrypted by a keyring component of each instance, as several instances on one host have it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.checks import server_user
from lab.hosts import LabHost
from lab.unpacked import MYSQL
from tests import run_folder
from tests.e2e.host_state import one, replicate_again, same_data_at_one_gtid, wait_for_primary
from tests.stack import Stack, running_stack

from .test_stored_data import reread

PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
COMPONENT = "component_keyring_file"
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(bool(MYSQL.why_not()), reason=MYSQL.why_not() or "MySQL is here"),
]


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """MySQL's programs in a folder of their own, whose manifest leaves it to each instance."""
    folder = MYSQL.folder()
    assert folder is not None
    own = run_folder.new_folder("mysql") / "programs"
    shutil.copytree(folder, own, symlinks=True)
    (own / "usr/sbin/mysqld.my").write_text(json.dumps({"read_local_manifest": True}))
    (own / f"usr/lib/mysql/plugin/{COMPONENT}.cnf").write_text(json.dumps({"read_local_config": True}))
    yield own
    run_folder.remove(own.parent)


@pytest.fixture(scope="module")
def stack(programs: Path) -> Iterator[Stack]:
    before = os.environ.get(MYSQL.place_variable)
    os.environ[MYSQL.place_variable] = str(programs)
    try:
        with running_stack(web=False, flavor="mysql-9.7") as running:
            for host in running.lab.hosts:
                with_keyring(host, running.lab.folder / f"keys-{host.name}")
            for name in (SOURCE, TARGET):
                replicate_again(running, name)
            one(running, PRIMARY, "CREATE DATABASE safe")
            one(running, PRIMARY, "CREATE TABLE safe.secret (id INT PRIMARY KEY) ENCRYPTION = 'Y'")
            one(running, PRIMARY, "INSERT INTO safe.secret VALUES (1), (2)")
            for name in (SOURCE, TARGET):
                wait_for_primary(running, name)
            yield running
    finally:
        os.environ.pop(MYSQL.place_variable)
        os.environ |= {MYSQL.place_variable: before} if before else {}


def with_keyring(host: LabHost, folder: Path) -> None:
    """Give an instance the component, with its keys outside of its data directory."""
    folder.mkdir(mode=0o700)
    (folder / "keyring").touch()  # the component is loaded while the server is still root's: its file would be
    for path in (folder, folder / "keyring"):
        shutil.chown(path, server_user())
    settings = {
        "mysqld.my": {"components": f"file://{COMPONENT}"},
        f"{COMPONENT}.cnf": {"path": str(folder / "keyring"), "read_only": False},
    }
    for name, content in settings.items():
        file = host.data_dir / name
        file.write_text(json.dumps(content))
        shutil.chown(file, server_user())
    # MySQL looks for the manifest beside the name that started it, and the lab's sessions find a link
    (host.sshd.programs / "mysqld.my").symlink_to((host.sshd.programs / "mysqld").readlink().with_name("mysqld.my"))
    host.stop_server()
    host.start_server()


def severity(stack: Stack, method: str) -> str | None:
    plan = stack.plan(TARGET, "--method", method)
    return {item["code"]: item["severity"] for item in plan["findings"]}.get("pair.encryption")


@pytest.mark.situation("5", "refused for methods that copy files, where MySQL's keyring component has the keys")
def test_component_is_found_and_only_a_method_that_moves_the_keys_is_possible(stack: Stack) -> None:
    reread(stack, PRIMARY, SOURCE, TARGET)
    for name in (SOURCE, TARGET):
        assert stack.facts(name)["datadir"]["stored"]["manifest"] == [COMPONENT]
    assert severity(stack, "xbstream") == "refusal"
    assert severity(stack, "clone") == "ok"
    assert severity(stack, "dump") == "ok"


@pytest.mark.runs("MySQL 9.7", "clone")
@pytest.mark.situation("5", "cloned: the clone brings the keys, and the target keeps its own component")
def test_encrypted_tables_are_cloned_and_the_target_keeps_its_component(stack: Stack) -> None:
    reread(stack, PRIMARY, SOURCE, TARGET)
    stack.wait_for_possible_plan(TARGET, "--method", "clone")
    stack.rebuild(TARGET, "--method", "clone")
    same_data_at_one_gtid(stack, TARGET)
    row = one(stack, TARGET, "SELECT CREATE_OPTIONS AS o FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'safe'")
    assert "ENCRYPTION='Y'" in row["o"]
    active = one(
        stack,
        TARGET,
        "SELECT STATUS_VALUE AS v FROM performance_schema.keyring_component_status WHERE STATUS_KEY = 'Component_status'",
    )
    assert active["v"] == "Active"


@pytest.mark.situation("5", "a target without the component is refused by the clone method, too")
def test_target_without_the_component_is_refused(stack: Stack) -> None:
    manifest = stack.lab.host(TARGET).data_dir / "mysqld.my"
    before = manifest.read_text()
    manifest.write_text("{}")
    try:
        reread(stack, PRIMARY, SOURCE, TARGET)
        assert severity(stack, "clone") == "refusal"
    finally:
        manifest.write_text(before)
