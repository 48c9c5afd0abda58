"""``manage.py host``."""

import io

import pytest
from django.core.management import CommandError, call_command

from dbops.loaders.gates import gate_of
from dbops.models import Host

pytestmark = pytest.mark.django_db
KEY = "ssh-ed25519 AAAA"


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("host", *words, stdout=out)
    return out.getvalue()


def make_host(**values: str) -> Host:
    return Host.objects.create(
        **{"name": "db-1", "ssh_address": "192.0.2.1", "ssh_user": "ops", "host_key": KEY} | values
    )


def test_both_files_are_those_of_the_hosts_gate() -> None:
    gate = gate_of(make_host())
    assert run("gate", "db-1") == gate.program()
    assert run("gate", "db-1", "--path", "/opt/bin:/bin") == gate.program("/opt/bin:/bin")
    assert run("sudoers", "db-1") == gate.sudoers("ops")


@pytest.mark.parametrize(
    ("values", "code"),
    [({"ssh_user": "root"}, "ssh.gate_needless"), ({"host_key": ""}, "ssh.host_key_unknown"), ({"name": "db-2"}, "")],
)
def test_host_without_a_gate_is_refused(values: dict[str, str], code: str) -> None:
    make_host(**values)
    with pytest.raises(CommandError) as caught:
        run("sudoers", "db-1")
    assert code in str(caught.value)
