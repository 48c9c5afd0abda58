"""Small file systems that fill up."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEBIBYTE = 1024**2


def mount_small(path: Path, mebibytes: int) -> None:
    """Mount an empty tmpfs of that size over a directory, with its owner and mode. Raises ``RuntimeError`` where that is not permitted."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)  # the work directory is made with the first rebuild
    now = path.stat()
    options = f"size={mebibytes}M,mode={now.st_mode & 0o7777:o},uid={now.st_uid},gid={now.st_gid}"
    _run("mount", "-t", "tmpfs", "-o", options, "dbops-test", str(path))


def resize(path: Path, mebibytes: int) -> None:
    _run("mount", "-o", f"remount,size={mebibytes}M", str(path))


def shrink(path: Path) -> None:
    """Make a small disk as small as what is on it. Filling a large one takes longer than many a step."""
    for attempt in range(20):
        found = os.statvfs(path)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        try:
            _run("mount", "-o", f"remount,size={max(used, found.f_frsize)}", str(path))
            break
        except RuntimeError:
            if attempt == 19:
                raise  # else more has been written since it was measured


def unmount(path: Path) -> None:
    """Take the small file system away; where something still uses it, it goes when that ends."""
    if os.path.ismount(path):
        try:
            _run("umount", str(path))
        except RuntimeError:
            _run("umount", "--lazy", str(path))


@contextmanager
def small(path: Path, mebibytes: int) -> Iterator[None]:
    """A small disk over the directory for as long as the block; what lay there is there again afterwards."""
    mount_small(path, mebibytes)
    try:
        yield
    finally:
        unmount(path)


def fill(path: Path, spare_bytes: int = 0) -> Path:
    """Fill the file system below ``path`` but for ``spare_bytes``. Return the file that does it."""
    ballast = path / "ballast"
    with ballast.open("wb") as file:
        for _ in range(20):
            found = os.statvfs(path)
            size = os.fstat(file.fileno()).st_size + found.f_bavail * found.f_frsize - spare_bytes
            try:
                os.posix_fallocate(file.fileno(), 0, max(1, size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                continue  # others write at the same time: what was free a moment ago is theirs now
            break
    return ballast


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
