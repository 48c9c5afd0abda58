"""Hosts that their certificates prove: rebuilt after every one of them got a new key, and refused when one has ended."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.drivers.conftest import keygen
from tests.stack import Stack, running_stack

from .host_state import is_replicating, same_data_at_one_gtid
from .test_connection_tests import ended
from .test_jump_hosts import TEST

pytestmark = pytest.mark.services
TARGET = "replica-1"


class Authority:
    """A CA of hosts, and the file that dbops reads."""

    def __init__(self, folder: Path) -> None:
        self.key, self.file = folder / "host_ca", folder / "cas"
        keygen(self.key)
        self.file.write_text(self.key.with_name("host_ca.pub").read_text())

    def renew(self, stack: Stack, name: str, *options: str) -> None:
        """Give a host of the lab a new key with a certificate, and start its sshd again."""
        sshd = stack.lab.host(name).sshd
        sshd.stop()
        for file in (sshd.host_key_file, public := Path(f"{sshd.host_key_file}.pub")):
            file.unlink(missing_ok=True)
        keygen(sshd.host_key_file)
        words = [
            "ssh-keygen",
            "-q",
            "-s",
            self.key,
            "-h",
            "-I",
            name,
            "-n",
            f"{name}.test",
            *(options or ("-V", "+1h")),
        ]
        subprocess.run([*words, public], check=True, capture_output=True)
        sshd.config_file.write_text(f"{sshd.config()}HostCertificate {sshd.host_key_file}-cert.pub\n")
        sshd.start()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    made = Authority(tmp_path_factory.mktemp("authority"))
    os.environ["DBOPS_SSH_HOST_CA_FILE"] = str(made.file)
    yield made
    del os.environ["DBOPS_SSH_HOST_CA_FILE"]


@pytest.fixture(scope="module")
def stack(authority: Authority) -> Iterator[Stack]:
    with running_stack() as running:
        file = running.lab.fleet_yaml
        content = yaml.safe_load(file.read_text())
        for host in content["hosts"]:
            host["ssh"]["certificate_name"] = f"{host['name']}.test"
        file.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
        for host in running.lab.hosts:
            authority.renew(running, host.name)
        running.manage("fleet", "import", str(file))
        for host in running.lab.hosts:  # they were read with their first key before
            running.wait_for_facts(host.name, answering=True)
        yield running


@pytest.mark.runs("MariaDB 10.11", "xbstream")
def test_wiped_replica_is_rebuilt_though_every_host_has_a_new_key(stack: Stack) -> None:
    stack.lab.break_host(TARGET, "wipe")
    stack.wait_for_facts(TARGET, answering=False)
    stack.wait_for_possible_plan(TARGET)
    _, lines = stack.rebuild(TARGET)
    assert lines[-1]["status"] == "succeeded"
    same_data_at_one_gtid(stack, TARGET)
    assert is_replicating(stack, TARGET)
    [rebuild] = stack.rows("SELECT plan FROM dbops_rebuild")
    assert "HostKeyAlias" in rebuild["plan"]


def test_a_connection_test_names_what_proved_the_host(stack: Stack) -> None:
    found = ended(stack, int(stack.manage("shell", "--no-imports", "-c", TEST).stdout))
    assert found["status"] == "passed", found
    [check] = [item for item in found["result"]["checks"] if item["title"] == "Host key"]
    assert f"{TARGET}.test" in check["text"]


def test_an_ended_certificate_stops_plans_until_it_is_renewed(stack: Stack, authority: Authority) -> None:
    authority.renew(stack, TARGET, "-V", "-2h:-1h")

    def problem() -> str:
        return str((stack.facts(TARGET)["host_problem"] or {}).get("code"))

    stack.wait_for_probe("the ended certificate", lambda: problem() == "ssh.host_not_proven", TARGET)
    [row] = stack.rows("SELECT certificate_until FROM dbops_host WHERE certificate_name = 'replica-1.test'")
    assert row["certificate_until"], "its end stays known"
    authority.renew(stack, TARGET)
    stack.wait_for_possible_plan(TARGET)
