"""A rebuild by stream on MySQL with XtraBackup under the faults that another tool and server can answer differently."""

from collections.abc import Iterator

import pytest

from tests.e2e.xtrabackup import FLAVORS
from tests.faults.conftest import Player, Stage
from tests.faults.kinds import cancel, control, hosts, tools, worker
from tests.faults.matrix import Fault

pytestmark = [pytest.mark.services, pytest.mark.faults]

CASES: tuple[tuple[type[Fault], str], ...] = (
    (control.NoFault, "verify"),
    (hosts.BackupKilled, "stream"),
    (hosts.UnpackKilled, "stream"),
    (hosts.SourceServerKilled, "stream"),
    (hosts.TargetServerKilled, "catch-up"),
    (hosts.JobKilled, "stream"),
    (hosts.JobKilled, "prepare"),
    (hosts.GuardKilled, "stream"),
    (worker.WorkerKilled, "stream"),
    (worker.WorkerKilledForAWhile, "prepare"),
    (worker.ChildrenKilled, "start"),
    (cancel.Cancelled, "stream"),
    (cancel.CancelledWithoutWorker, "stream"),
    (tools.CutAtAChunk, "stream"),
    (tools.EmptyStream, "stream"),
    (tools.SilentTool, "stream"),
    (tools.ErrorPage, "stream"),
    (tools.Banner, "stream"),
    (tools.NeverCompleted, "stream"),
    (tools.StatusLost, "stream"),
    (tools.FewOpenFiles, "stream"),
)


@pytest.fixture(scope="module", params=FLAVORS)
def mysql_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(flavor=request.param)
    try:
        yield made
    finally:
        made.clear()


@pytest.mark.parametrize(("kind", "step"), CASES, ids=[f"{kind.name}-{step}" for kind, step in CASES])
def test_fault_on_mysql(mysql_stage: Stage, kind: type[Fault], step: str) -> None:
    """Not in the table of faults: its rows are of MariaDB."""
    Player(mysql_stage, [], full=False)(kind, step)
