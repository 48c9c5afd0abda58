"""For tests of other packages: a lab that is up for as long as a ``with`` block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.lab import Lab


@contextmanager
def start_lab(
    tmp_folder: Path | str, network: str = "127.0.2", size: int | str = "32M", replicas: int = 1, **options: Any
) -> Iterator[Lab]:
    """Give a running lab and destroy it at the end. ``options`` are those of ``Lab``.

    ``tmp_folder`` must not exist or be empty; the server's user must be able to pass all directories above it, which
    pytest's own ``tmp_path`` does not allow when root runs the tests: use one below ``/var/tmp``. Each lab that runs
    at the same time needs a network of its own.
    """
    lab = Lab(options.pop("name", "test"), tmp_folder, network, size=size, replicas=replicas, **options)
    try:
        lab.up()
        yield lab
    finally:
        if lab.folder.exists() and any(lab.folder.iterdir()):
            lab.destroy()
