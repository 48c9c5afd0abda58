"""The two files of a host with a gate."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dbops.drivers.gate import Gate
from dbops.security.gate_key import gate_key
from dbops.security.keys import make_signing_key

GATE = Gate("ssh-ed25519 AAAA", gate_key("a signing key"))


def test_key_follows_from_the_signing_key() -> None:
    # another one would need new files on every host
    assert GATE.path == "/usr/local/libexec/dbops-gate-cdbb498d"
    assert gate_key("a signing key").public == GATE.key.public
    assert gate_key(make_signing_key()).public != GATE.key.public


def test_program_has_no_secret() -> None:
    private = (
        gate_key("a signing key").private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    )
    program = GATE.program()
    assert all(line not in program for line in private.splitlines()[1:-1])
    assert "a signing key" not in program


def test_other_dashboard_and_other_host_key_have_other_files() -> None:
    others = (replace(GATE, host_key="ssh-ed25519 BBBB"), replace(GATE, key=gate_key("another key")))
    assert len({GATE.path, *(other.path for other in others)}) == 3


def test_program_is_a_shell_script(tmp_path: Path) -> None:
    file = tmp_path / "gate"
    file.write_text(GATE.program("/opt/a b:/usr/bin"))
    subprocess.run(["sh", "-n", file], check=True)
    assert "PATH='/opt/a b:/usr/bin'\n" in file.read_text()


@pytest.mark.skipif(not shutil.which("visudo"), reason="visudo is not installed")
@pytest.mark.parametrize("user", ["dbops", "db-ops.x_1", "dbops@example.org", "ALL", "DBA", "a b,%c"])
def test_sudoers_file_names_one_user(tmp_path: Path, user: str) -> None:
    file = tmp_path / "sudoers"
    file.write_text(GATE.sudoers(user))
    subprocess.run(["visudo", "-c", "-f", file], check=True, capture_output=True)
    listed = subprocess.run(["cvtsudoers", "-f", "json", file], check=True, capture_output=True, text=True).stdout
    [allowed] = json.loads(listed)["User_Specs"]
    assert allowed["User_List"] == [{"username": user}]
    assert [command["Commands"] for command in allowed["Cmnd_Specs"]] == [[{"command": GATE.path}]]
    assert "\nALL " not in file.read_text()
