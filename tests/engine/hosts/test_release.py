"""Taking the run's key away, run for real: the other keys of the account stay, whatever is in the way."""

import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load

OURS, OTHERS = b"ssh-ed25519 AAAA dbops-0123456789abcdef\n", b"ssh-ed25519 BBBB admin\nssh-ed25519 CCCC dashboard\n"
SCRIPT = load("release") + '\nset -eu\nrevoke_key "$1" 0123456789abcdef\n'
#: What grep does when the disk fills while it writes.
FULL_DISK_GREP = '#!/bin/bash\ncase " $* " in *\' -v \'*) exit 2 ;; esac\nexec /bin/grep "$@"\n'


def revoke(keys: Path, *, script: str = SCRIPT, path: str = "/usr/bin:/bin") -> int:
    command = ["bash", "-c", script, "revoke", str(keys)]
    return subprocess.run(command, env={"PATH": path, "LC_ALL": "C"}, check=False).returncode


@pytest.mark.parametrize("others", [b"", OTHERS, OTHERS + b"ssh-ed25519 DDDD j\xf6rg\n", OTHERS + b"# \0 \n"])
def test_revoke_removes_only_the_key_of_the_run(tmp_path: Path, others: bytes) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_bytes(others + OURS)
    keys.chmod(0o640)
    assert revoke(keys) == 0
    assert (keys.read_bytes(), keys.stat().st_mode & 0o777) == (others, 0o640)
    assert revoke(keys) == 0


def keys_on_a_full_disk(tmp_path: Path, script: str) -> tuple[bool, bytes]:
    (tmp_path / "grep").write_text(FULL_DISK_GREP)
    (tmp_path / "grep").chmod(0o755)
    keys = tmp_path / "authorized_keys"
    keys.write_bytes(OTHERS + OURS)
    status = revoke(keys, script=script, path=f"{tmp_path}:/usr/bin:/bin")
    return status == 0, keys.read_bytes()


def test_revoke_keeps_all_keys_when_the_disk_is_full(tmp_path: Path) -> None:
    assert keys_on_a_full_disk(tmp_path, SCRIPT) == (False, OTHERS + OURS)
    assert revoke(tmp_path / "authorized_keys") == 0
    assert (tmp_path / "authorized_keys").read_bytes() == OTHERS


def test_weakened_revoke_is_detected(tmp_path: Path) -> None:
    """The negative control: the status of what is written is not looked at."""
    script = SCRIPT.replace("|| [ $? = 1 ] || exit 1", "|| true")
    assert script != SCRIPT
    assert keys_on_a_full_disk(tmp_path, script) == (True, b"")
