"""The work directory: root runs scripts in it, so no other account may write there or exchange it."""

import shutil
from pathlib import Path

import pytest

from dbops.drivers.jobs import HostJobs
from dbops.engine.errors import Refused
from tests.fakes import FakeShell

from .attacker import ACCOUNT
from .ground import Ground


def jobs_in(directory: Path) -> HostJobs:
    return HostJobs(
        FakeShell(runs_here=True), work_dir=str(directory), instance_key="r-1", run_id="run", token=1, dashboard="one"
    )


@pytest.mark.parametrize(
    ("owner", "mode", "is_above"),
    [(ACCOUNT, 0o755, True), ("root", 0o777, True), (ACCOUNT, 0o700, False), ("root", 0o777, False)],
)
def test_work_directory_that_another_account_can_change_is_refused(
    ground: Ground, owner: str, mode: int, is_above: bool
) -> None:
    work = ground.roots / "work"
    if not is_above:
        work.mkdir()
    changed = ground.roots if is_above else work
    shutil.chown(changed, owner)
    changed.chmod(mode)
    with pytest.raises(Refused) as caught:
        jobs_in(work).start("job", "true")
    assert caught.value.code == "host.work_directory"
    assert str(changed) in caught.value.cause
    assert not (work / "instances").exists()


def test_work_directory_of_root_is_made_and_used(ground: Ground) -> None:
    jobs = jobs_in(ground.roots / "new" / "work")
    jobs.start("job", "exit 3")
    assert jobs.follow("job", 5).exit_status == 3
