"""External runs identified by a connection or by a job of a force-failed run."""

from dbops.engine.facts.backups import BackupConnection, Reads
from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.states import BackupMethod, RunOrigin, RunStatus
from dbops.lifecycle import backup_runs, external_runs
from dbops.lifecycle.external_runs import SERVER_IS_SILENT
from dbops.models import BackupRun, Instance
from tests.app.backup_rows import make_run, make_schedule
from tests.app.lifecycle.test_external_runs import at, backup, dump, facts, only
from tests.engine import builders

__all__ = ["backup"]


def test_job_of_a_force_failed_run_is_observed_as_external(backup: Instance) -> None:
    run = make_run(make_schedule(backup), RunStatus.LOST)
    external_runs.observe(backup, facts(1, dump(is_ours=True)))
    assert backup_runs.force_fail(run, "olga")
    BackupRun.objects.update(finished_at=at(2))
    external_runs.observe(backup, facts(1.9, dump(is_ours=True)))
    external_runs.observe(backup, facts(2.5, dump(is_ours=True)))  # what has just ended may be seen for a moment
    assert BackupRun.objects.get() == run
    external_runs.observe(backup, facts(4, dump(is_ours=True)))
    seen = BackupRun.objects.get(origin=RunOrigin.OBSERVED)
    assert seen.status == RunStatus.RUNNING
    external_runs.observe(backup, facts(5))
    seen.refresh_from_db()
    assert seen.status == RunStatus.ENDED


def test_local_connection_identifies_an_unclear_process(backup: Instance) -> None:
    here = BackupConnection(9, "root", "localhost", True, "mysqldump", BackupMethod.DUMP, "SELECT", at(0.1))
    server = builders.server(12, backup_connections=(here,))
    for minute in (1, 2):
        external_runs.observe(backup, facts(minute, dump(reads=Reads.UNCLEAR), server=server))
        assert (only().status, only().evidence["process"]) == (RunStatus.RUNNING, dump().key)
    external_runs.observe(backup, facts(3, server=builders.server(12, backup_connections=())))
    assert only().status == RunStatus.ENDED


def test_remote_dump_ends_with_its_server(backup: Instance) -> None:
    there = BackupConnection(9, "root", "10.0.0.9:4", False, "mysqldump", BackupMethod.DUMP, "SELECT", at(0))
    server = builders.server(12, backup_connections=(there,))
    silent = {"server": None, "server_problem": ProbeProblem("mysql.unreachable", "Connection refused")}
    external_runs.observe(backup, facts(1, server=server))
    refused = ProbeProblem("mysql.access_denied", "Access denied")
    for minute in (1.1, 2.9):
        external_runs.observe(backup, facts(minute, server=None, server_problem=refused))
        external_runs.observe(backup, facts(minute + 0.05, **silent, host=None))
    external_runs.observe(backup, facts(3, **silent))
    external_runs.observe(backup, facts(3.5, **silent))
    assert only().status == RunStatus.RUNNING
    external_runs.observe(backup, facts(4.5, **silent))
    assert (only().status, only().finished_at) == (RunStatus.ENDED, at(3))
    assert only().outcome == SERVER_IS_SILENT
    external_runs.observe(backup, facts(5, server=server))
    assert only().status == RunStatus.RUNNING


def test_last_connection_of_an_own_backup_is_not_external(backup: Instance) -> None:
    """The probe saw it, and was stored when the run had ended and its hold was gone. Its process was not seen any more."""
    run = make_run(make_schedule(backup), RunStatus.SUCCEEDED)
    BackupRun.objects.update(finished_at=at(1))
    last = BackupConnection(9, "root", "localhost", True, "mysqldump", BackupMethod.DUMP, "SELECT", at(0.1))
    server = builders.server(12, backup_connections=(last,))
    for minute in (0.9, 1.05):
        external_runs.observe(backup, facts(minute, server=server))
        assert BackupRun.objects.get() == run
    external_runs.observe(backup, facts(3, server=server))  # it continues, and no run of dbops owns it
    assert BackupRun.objects.filter(origin=RunOrigin.OBSERVED).count() == 1
