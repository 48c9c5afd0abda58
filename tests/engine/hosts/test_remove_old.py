"""The removal of old data on real directories: all of it goes, and nothing that its links or its name lead to."""

import getpass
import os
import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load

SCRIPT = load("common", "remove_old")
REFUSED = 65
#: A file that is too large to be removed beside others: sparse, so it takes no space.
LARGE_BYTES = 65 * 1024**2


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Old data with names that a shell could misread, a large file, and links to data of others."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("of another")
    old = tmp_path / "data.dbops-old-1"
    schema = old / "shop" / "inner"
    schema.mkdir(parents=True)
    for name in (
        "-rf",
        "a b",
        "new\nline",
        "quote'\"$(touch x)",
        "größe.ibd",
        *(f"t{number}.ibd" for number in range(450)),
    ):
        (schema / name).write_text("x")
    with (old / "ibdata1").open("wb") as file:
        file.truncate(LARGE_BYTES)
    os.mkfifo(old / "pipe")
    (old / "link-to-folder").symlink_to(other)
    (old / "link-to-file").symlink_to(other / "kept")
    return old


def remove(old: Path, identity: str = "") -> subprocess.CompletedProcess[str]:
    status = old.stat()
    words = [str(old), identity or f"{status.st_dev}:{status.st_ino}", getpass.getuser()]
    return subprocess.run(["bash", "-c", SCRIPT, "remove", *words], capture_output=True, text=True, check=False)


def test_all_old_data_is_removed_and_nothing_behind_its_links(old: Path) -> None:
    done = remove(old)
    assert (done.returncode, done.stderr) == (0, "")
    assert not old.exists()
    assert [path.name for path in old.parent.iterdir()] == ["other"]
    assert (old.parent / "other" / "kept").read_text() == "of another"


def test_directory_of_another_identity_or_name_stays(old: Path) -> None:
    assert remove(old, "1:1").returncode == REFUSED
    renamed = old.rename(old.with_name("data"))
    assert remove(renamed).returncode == REFUSED
    assert len(list((renamed / "shop" / "inner").iterdir())) == 455
