"""A filled data directory with accounts, created once and copied by labs with equal settings."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.checks import server_user
from lab.flavors.base import Flavor
from lab.hosts import copy_data_dir
from lab.settings import Settings


class Template:
    """The template for a lab's settings. ``parent`` contains the templates of one checkout and user."""

    def __init__(self, parent: Path, settings: Settings) -> None:
        self.folder = parent / f"{settings.flavor}-{settings.size_bytes}-{settings.tables}-{server_user()}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def accounts_file(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def is_made(self) -> bool:
        """Whether the template is complete: the accounts are copied last."""
        return self.accounts_file.exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the template while one process creates it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def make(self, data: Path, accounts_file: Path, flavor: Flavor) -> None:
        """Copy the data directory of a stopped server, and its password file."""
        if self.data.exists():  # of an interrupted copy
            shutil.rmtree(self.data)
        copy_data_dir(data, self.data, flavor)
        whole = self.accounts_file.with_suffix(".new")
        shutil.copy(accounts_file, whole)
        whole.replace(self.accounts_file)
