"""The files for a host with sudo: on its page what the commands print, and valid for sudo."""

import re
import shutil
import subprocess
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from dbops.models import Host
from tests.app.factories import make_host
from tests.app.fleetfile.builders import host_key

pytestmark = pytest.mark.django_db
URL = "/inventory/host/db-1/sudo/"


def printed(verb: str) -> str:
    out = StringIO()
    call_command("host", verb, "db-1", stdout=out)
    return out.getvalue()


def shown(client: Client) -> dict[str, str]:
    """Return the texts of the page by the path that each is for."""
    found = re.findall(r'<pre [^>]*data-file="([^"]+)">(.*?)</pre>', client.get(URL).content.decode(), re.DOTALL)
    return {path: unescape(text) for path, text in found}


@pytest.fixture
def host() -> Host:
    return make_host("db-1", sudo=True, ssh_user="dbops.1-x", host_key=host_key())


def test_page_shows_what_the_commands_print(host: Host, operator: Client) -> None:
    texts = shown(operator)
    [gate, sudoers] = texts
    assert texts == {gate: printed("gate"), sudoers: printed("sudoers")}
    assert gate.rpartition("/")[2] == sudoers.rpartition("/")[2]
    assert f"NOPASSWD: {gate}\n" in texts[sudoers]
    assert b"/sudo/" in operator.get("/inventory/host/db-1/").content


@pytest.mark.parametrize("user", ["dbops", "dbops.1-x", "ADMINS", "o_p", "svc@example"])
def test_sudo_accepts_the_file_and_it_allows_one_program(host: Host, user: str, tmp_path: Path) -> None:
    program = shutil.which("visudo", path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("visudo is not installed")
    Host.objects.update(ssh_user=user)
    file = tmp_path / "sudoers"
    file.write_text(printed("sudoers"))
    file.chmod(0o440)
    done = subprocess.run([program, "-c", "-f", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    [rule] = [line for line in file.read_text().splitlines() if "NOPASSWD" in line]
    assert re.fullmatch(r"\S+ ALL=\(root\) NOPASSWD: /usr/local/libexec/dbops-gate-[0-9a-f]{8}", rule)


@pytest.mark.parametrize(
    ("values", "code"), [({"ssh_user": "root"}, "ssh.gate_needless"), ({"host_key": ""}, "ssh.host_key_unknown")]
)
def test_page_says_why_there_is_nothing_to_install(host: Host, operator: Client, values: dict, code: str) -> None:
    Host.objects.update(**values)
    answer = operator.get(URL)
    assert (answer.status_code, answer.context["problem"].code) == (200, code)
    assert shown(operator) == {}


def test_host_without_sudo_has_no_button(host: Host, operator: Client, viewer: Client) -> None:
    Host.objects.update(sudo=False)
    assert b"/sudo/" not in operator.get("/inventory/host/db-1/").content
    assert viewer.get(URL).status_code == 403
    assert operator.get("/inventory/host/none/sudo/").status_code == 404
