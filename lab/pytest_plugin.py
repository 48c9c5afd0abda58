"""Run a lab for the duration of a ``with`` block, for tests of other packages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.lab import Lab


@contextmanager
def start_lab(
    tmp_folder: Path | str, network: str = "127.0.2", size: int | str = "32M", replicas: int = 1, **options: Any
) -> Iterator[Lab]:
    """Yield a running lab and destroy it at the end. ``options`` are those of ``Lab``.

    ``tmp_folder`` must be missing or empty, and the servers' user must be able to traverse its parents. pytest's
    ``tmp_path`` does not allow that if root runs the tests: use a folder in ``/var/tmp``. Labs that run at the same
    time need different networks.
    """
    lab = Lab(options.pop("name", "test"), tmp_folder, network, size=size, replicas=replicas, **options)
    try:
        lab.up()
        yield lab
    finally:
        if lab.folder.exists() and any(lab.folder.iterdir()):
            lab.destroy()
