"""An account of this machine that may run nothing as root but the gates of its sudoers files."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUDOERS = Path("/etc/sudoers.d")


def why_not() -> str:
    """Return why there can be no such account here; empty if there can be one."""
    if os.geteuid() != 0:
        return "only root can make an account with a sudoers file"
    missing = [name for name in ("sudo", "visudo", "useradd", "userdel") if not shutil.which(name)]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextmanager
def account() -> Iterator[str]:
    """Make a system account for the length of the block; return its name."""
    name = f"dbops-test-{os.getpid()}"
    # a password that none fits: sshd refuses locked accounts
    subprocess.run(
        ["useradd", "--system", "--shell", "/bin/sh", "--home-dir", "/", "--password", "*", name], check=True
    )
    try:
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


@contextmanager
def installed(path: str, program: str, sudoers: str) -> Iterator[None]:
    """Install a gate and its sudoers file as an administrator does, for the length of the block."""
    gate, file = Path(path), SUDOERS / Path(path).name
    gate.parent.mkdir(parents=True, exist_ok=True)
    try:
        for where, text, mode in ((gate, program, 0o755), (file, sudoers, 0o440)):
            draft = where.with_name(f".{where.name}")
            draft.write_text(text)
            draft.chmod(mode)
            if where is file:
                subprocess.run(["visudo", "-c", "-f", draft], check=True, capture_output=True)
            draft.rename(where)
        yield
    finally:
        gate.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
