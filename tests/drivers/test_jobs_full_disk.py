"""The fence on a work directory without any room: the next driver must be able to act there, if only to clean up."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbops.engine.errors import Refused, RemoteFailure
from tests.drivers.worlds import Maker

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted by root")


@pytest.fixture
def work(make: Maker) -> Iterator[Path]:
    """The work directory of the jobs on a file system of its own."""
    path = Path(make().run_directory).parents[1]
    path.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "dbops-test", path], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(work: Path) -> None:
    with (work / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1024)
        except OSError:
            pass


def test_full_disk_lets_a_newer_driver_act_and_refuses_an_older_one(make: Maker, work: Path) -> None:
    make(token=1_000_001).act("echo secret >key")
    fill(work)
    assert make(token=1_000_002).act("rm -f key").exit_status == 0
    assert not (Path(make().run_directory) / "key").exists()
    with pytest.raises(Refused) as caught:
        make(token=1_000_001).act("true")
    assert caught.value.code == "host.fenced"


def test_act_is_refused_when_the_fence_cannot_be_written(make: Maker, work: Path) -> None:
    make(token=1_000_001, key="db1").act("true")
    (work / "instances" / "db2").mkdir()
    (work / "instances" / "db2" / "guard").touch()
    fill(work)
    with pytest.raises(RemoteFailure) as caught:
        make(token=1_000_001, key="db2").act("true")
    assert caught.value.code == "host.start_failed"
