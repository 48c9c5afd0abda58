"""Data of a database account, and files of root beside it that the account wants."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import run_folder

from .attacker import ACCOUNT, why_not

RUN = "0123456789abcdef"
SECRET = "of-root-alone\n"


@dataclass
class Ground:
    """A folder with a data directory of the account, and a directory of root with a secret file.

    ``parent`` holds the data directory. ``before``: what root's directory was before the attack.
    """

    folder: Path
    before: dict[str, tuple[int, int, int, str]] = field(default_factory=dict)
    inodes: set[int] = field(default_factory=set)

    @property
    def parent(self) -> Path:
        return self.folder / "srv"

    @property
    def data(self) -> Path:
        return self.parent / "data"

    @property
    def neighbour(self) -> Path:
        """A directory of root beside the data directory: an account that owns the parent can exchange the two."""
        return self.parent / "of-root"

    @property
    def roots(self) -> Path:
        return self.folder / "of-root"

    def make(self, *, parent_of: str = "root") -> None:
        """Make all of it. ``parent_of``: the account that owns the directory above the data."""
        for path in (self.parent, self.roots):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o755)
        shutil.chown(self.parent, parent_of)
        self.fill(self.data)
        (self.roots / "secret").write_text(SECRET)
        (self.roots / "secret").chmod(0o600)
        (self.roots / "ibdata1").write_text(SECRET)
        (self.roots / "folder").mkdir(mode=0o700)
        self.roots.chmod(0o755)
        self.neighbour.mkdir(mode=0o700)
        (self.neighbour / "ibdata1").write_text(SECRET)
        self.inodes = {path.stat().st_ino for path in (self.neighbour, self.neighbour / "ibdata1")}
        self.before = self.state()

    def fill(self, directory: Path) -> None:
        (directory / "shop").mkdir(parents=True, mode=0o750)
        for name in ("ibdata1", "auto.cnf", "backup-my.cnf", *(f"shop/t{number}.ibd" for number in range(20))):
            (directory / name).write_text(name)
        for path in (directory, *directory.rglob("*")):
            shutil.chown(path, ACCOUNT, ACCOUNT)
        directory.chmod(0o750)

    def state(self) -> dict[str, tuple[int, int, int, str]]:
        """Return owner, group, mode and content of all that is root's, wherever the account has moved it."""
        found = {}
        for path in (self.roots, *sorted(self.roots.rglob("*"))):
            found[str(path)] = _described(path)
        for path in sorted(self.parent.rglob("*")):
            if path.lstat().st_ino in self.inodes:
                found[str(path.lstat().st_ino)] = _described(path)
        return found

    def identity(self, path: Path) -> str:
        status = path.stat()
        return f"{status.st_dev}:{status.st_ino}"


def _described(path: Path) -> tuple[int, int, int, str]:
    status = path.lstat()
    text = path.read_text() if path.is_file() and not path.is_symlink() else ""
    return status.st_uid, status.st_gid, status.st_mode, text


@pytest.fixture
def ground() -> Iterator[Ground]:
    """Yield the folder. Needs root, as on a host."""
    if reason := why_not():
        pytest.skip(reason)
    folder = run_folder.new_folder("dbops-hostile")
    made = Ground(folder)
    made.make()
    yield made
    os.chdir("/")
    shutil.rmtree(folder)
