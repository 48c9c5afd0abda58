"""A played host on which backup runs are driven for real, row by row."""

from typing import Any

from django.utils import timezone

from dbops.engine.states import RUN_FINAL
from dbops.models import BackupRun, BackupSchedule, InstanceState
from dbops.worker import backups, scheduler
from tests.app import rows
from tests.app.backup_rows import make_run
from tests.engine.backups import samples
from tests.fakes import FakeHost, FakeJobs

#: Bytes of a backup: clearly not of an empty server.
USUAL = 1_000_000


class Played:
    """One host: every driver that comes talks to the same one."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.removed: list[str] = []
        self.withdrawn: list[tuple[str, int]] = []
        self.probe: Exception | None = None
        self.memory_at_start: list[Any] = []

    def jobs_of(self, run: BackupRun, uid: str, stack: Any) -> FakeJobs:
        jobs = FakeJobs(self.host, token=run.host_token, run_id=uid)
        if not getattr(self, "set", False):
            jobs.expect("# Rename a complete backup", "published\n")
            jobs.expect("# Remove backup files", self.remove)
            jobs.expect("# Remove the file that a failed run", self.withdraw)
            self.set = True
        return jobs

    def remove(self, ran: Any) -> str:
        paths = [word for word in ran.arguments if word.startswith("/")]
        self.removed += paths
        return "".join(f"removed {path}\n" for path in paths)

    def withdraw(self, ran: Any) -> str:
        self.withdrawn.append((ran.arguments[-2], BackupRun.objects.filter(status="succeeded").count()))
        return "withdrawn\n"

    def probe_now(self, instance: Any) -> Any:
        if self.probe:
            raise self.probe
        return InstanceState.objects.get(instance=instance).facts()

    def play(self, *states: Any) -> None:
        FakeJobs(self.host).play("backup", *states)

    def finish(self, size: int = 1000) -> None:
        """Let the job that runs end well."""
        job = self.host.order[-1]
        job.coming.clear()
        job.become(samples.state())
        facts = f"bytes={size}\nidentity=8:77\nsha256={samples.SHA}"
        job.logs["files"] = samples.files(facts=facts).encode()


def begun(schedule: BackupSchedule) -> BackupRun:
    run = make_run(schedule)
    scheduler.start_what_can()
    run.refresh_from_db()
    assert run.status == "running"
    return run


def drive(run: BackupRun, ticks: int = 1) -> BackupRun:
    for _ in range(ticks):
        BackupRun.objects.update(next_tick_at=timezone.now())
        backups.BackupDriver.tick(run.pk)
    run.refresh_from_db()
    return run


def end(run: BackupRun) -> BackupRun:
    """Drive it until it has ended: a tick is short, and a machine may be slow."""
    for _ in range(20):
        if drive(run).status in RUN_FINAL:
            return run
    raise AssertionError(f"it does not end: {run.status}, {list(run.events.values_list('text', flat=True))}")


def operator() -> Any:
    return rows.User.objects.get(username="olga")
