"""A filled data directory and the accounts in it, made once and copied by each lab of the same kind."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.flavors.base import Flavor
from lab.hosts import copy_data_dir
from lab.settings import Settings


class Template:
    """The template of a lab's settings. ``parent`` holds the templates of one checkout and one user."""

    def __init__(self, parent: Path, settings: Settings) -> None:
        self.folder = parent / f"{settings.flavor}-{settings.size_bytes}-{settings.tables}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def accounts_file(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def is_made(self) -> bool:
        """The accounts are copied last: with them the template is whole."""
        return self.accounts_file.exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out while one of them makes the template."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def make(self, data: Path, accounts_file: Path, flavor: Flavor) -> None:
        """Copy the data directory of a server that does not run, and the file with its passwords."""
        if self.data.exists():  # of a copy that was interrupted
            shutil.rmtree(self.data)
        copy_data_dir(data, self.data, flavor)
        whole = self.accounts_file.with_suffix(".new")
        shutil.copy(accounts_file, whole)
        whole.replace(self.accounts_file)
