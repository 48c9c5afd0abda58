"""The file with the keys of stored secrets: read again when it was replaced, and replaced as a whole."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from dbops.security.secret_files import read_secret

Stamp = tuple[int, int, int]


def stamp_of(file: Path) -> Stamp | None:
    """Return what differs after the file was replaced; ``None`` without a file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read_keys(file: Path) -> list[str]:
    """Return the keys of a file: the first encrypts, all decrypt. Raises ``OSError``, also as ``read_secret``."""
    return read_secret(file).split(",")


def change_keys(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Replace the file at once; two processes that do wait for each other.

    Raises:
        OSError: the file is another account's, or is mounted; also as ``read_secret``.
    """
    file = file.resolve()
    if file.stat().st_uid != os.geteuid():
        raise PermissionError("it belongs to another account")
    with file.with_name(f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _replace(file, ",".join(change(read_keys(file))) + "\n")


def _replace(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        draft.rename(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
