"""A dashboard that reaches every host and server through a jump host; data still goes from host to host."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.drivers.jump_hosts import JumpHost, jump_host
from tests.networks import free_port
from tests.stack import OPERATOR, Stack, running_stack, wait_for

from .host_state import is_replicating, same_data_at_one_gtid
from .test_connection_tests import ended

pytestmark = pytest.mark.services
TARGET = "replica-1"
TEST = f"""
from django.contrib.auth.models import User
from dbops.models import Host
from dbops.operations.connection_tests import request_ssh
print(request_ssh(actor=User.objects.get(username="{OPERATOR}"), host=Host.objects.get(name="{TARGET}")).pk)
"""


@pytest.fixture(scope="module")
def hop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JumpHost]:
    with jump_host(tmp_path_factory.mktemp("jump"), "bastion", free_port()) as made:
        yield made


@pytest.fixture(scope="module")
def stack(hop: JumpHost) -> Iterator[Stack]:
    with running_stack() as running:
        file = running.lab.fleet_yaml
        content = yaml.safe_load(file.read_text())
        for host in content["hosts"]:
            host["ssh"]["jump_host"] = hop.name
        own = hop.address()
        ssh = {"address": own.address, "port": own.port, "user": own.user, "host_key": own.host_key}
        content["hosts"].append({"name": hop.name, "ssh": ssh | {"key_file": str(hop.folder / "user")}})
        file.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
        running.manage("fleet", "import", str(file))
        for host in running.lab.hosts:  # they were read directly before
            running.wait_for_facts(host.name, answering=True)
        yield running


def host_problem(stack: Stack) -> str:
    return str((stack.facts(TARGET)["host_problem"] or {}).get("code"))


@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_wiped_replica_is_rebuilt_through_a_jump_host(stack: Stack, hop: JumpHost) -> None:
    before = hop.logins()
    assert before, "probes go through it"
    stack.lab.load_start(tps=50)
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_facts(TARGET, answering=False)
    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded"
    stack.lab.load_stop()
    same_data_at_one_gtid(stack, TARGET)
    assert is_replicating(stack, TARGET)


def test_connection_test_names_the_hop(stack: Stack, hop: JumpHost) -> None:
    found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
    assert found["status"] == "passed", found
    [check] = [item for item in found["result"]["checks"] if item["title"] == "Jump hosts"]
    assert hop.name in check["text"]


def test_dead_jump_host_is_the_problem_of_the_hosts_behind_it(stack: Stack, hop: JumpHost) -> None:
    hop.stop()
    try:
        stack.wait_for_probe("the dead jump host", lambda: host_problem(stack) == "ssh.jump_unreachable", TARGET)
        assert hop.name in str(stack.facts(TARGET)["host_problem"])
        found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
        assert (found["status"], found["error"]["code"]) == ("failed", "ssh.jump_unreachable")
    finally:
        hop.start()
    stack.wait_for_possible_plan(TARGET)


def test_rebuild_survives_a_jump_host_that_comes_back(stack: Stack, hop: JumpHost) -> None:
    """The copy runs from host to host; the dashboard finds it again."""
    stack.manage("rebuild", TARGET, "--reason", "a test")
    query = "SELECT state FROM dbops_rebuildstep WHERE name = 'stream' ORDER BY id DESC LIMIT 1"
    wait_for("the stream", lambda: stack.rows(query)[0]["state"] in ("running", "done"), 120)
    hop.stop()
    hop.start()
    query = "SELECT status FROM dbops_rebuild ORDER BY id DESC LIMIT 1"
    wait_for("its end", lambda: stack.rows(query)[0]["status"] not in ("queued", "running", "lost"), 240)
    assert stack.rows(query)[0]["status"] == "succeeded"


def test_private_key_of_the_hop_is_nowhere_else(stack: Stack, hop: JumpHost) -> None:
    secret = (hop.folder / "user").read_text().splitlines()[2].encode()
    assert not [path for path in Path(stack.folder).glob("*.log") if secret in path.read_bytes()]
