"""A database account that acts on its own data while dbops works on it: it exchanges names as fast as the kernel allows."""

import ctypes
import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ACCOUNT = "mysql"
#: The account without rights.
NOBODY = pwd.getpwuid(65534).pw_name
EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Return why this account cannot attack here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can act as another account"
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return f"there is no account {ACCOUNT}"
    return ""


def become_account() -> None:
    """Give up root for good, as the server's process."""
    found = pwd.getpwnam(ACCOUNT)
    os.setgroups([])
    os.setgid(found.pw_gid)
    os.setuid(found.pw_uid)


def exchange(one: Path, other: Path) -> None:
    """Exchange two names in one step, so that neither is ever missing. A missing name is no error: the next try may find it."""
    _libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE)


@contextmanager
def attack(act: Callable[[], object]) -> Iterator[None]:
    """Repeat ``act`` as the account in a process of its own until the end. Errors are part of a race."""
    child = os.fork()
    if child == 0:
        become_account()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with suppress(OSError):
                act()
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def as_account(act: Callable[[], object]) -> None:
    """Run ``act`` once as the account. Raises ``AssertionError`` if it fails."""
    child = os.fork()
    if child == 0:
        become_account()
        try:
            act()
        except BaseException:  # noqa: BLE001 - the child must not return into the test
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
