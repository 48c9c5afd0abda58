"""External backup runs: probes and reports create, update and end them."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.backups.matching import Where
from dbops.engine.facts.backups import BackupConnection, BackupProcess, Reads
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.states import BackupMethod, RunOrigin, RunStatus
from dbops.lifecycle import external_runs, run_flags, run_reports, run_schedules
from dbops.lifecycle.run_reports import ReportKind, RunReport
from dbops.models import BackupRun, BackupSchedule, Hold, Instance, InstanceState
from dbops.worker import prober
from tests.app.backup_rows import make_run, make_schedule
from tests.app.rows import facts_of, make_fleet, started_rebuild
from tests.engine import builders

START = timezone.now().replace(microsecond=0) - timedelta(minutes=30)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def dump(pid: int = 7, start: float = 0, **changes: Any) -> BackupProcess:
    process = BackupProcess(
        f"boot:{pid}:{pid}00", pid, "mysqldump", BackupMethod.DUMP, at(start), "root", "mysqldump -A", Reads.THIS, "so"
    )
    return replace(process, **changes)


def facts(minute: float, *processes: BackupProcess, **changes: Any) -> InstanceFacts:
    known = replace(facts_of("backup-1", at(minute)), observed_at=at(minute), backup_processes=processes)
    return replace(known, **changes)


def report(kind: str, minute: float, key: str = "key-00001", **changes: Any) -> RunReport:
    values: dict[str, Any] = {"started_at": at(0), "where": Where.UNKNOWN, **changes}
    if kind == "end":
        values = {"exit_status": 0, "ended_at": at(minute), **values}
    return RunReport(key, ReportKind(kind), BackupMethod.DUMP, **values)


@pytest.fixture
def backup(db: None) -> Instance:
    return make_fleet()["backup-1"]


def only() -> BackupRun:
    (run,) = BackupRun.objects.all()
    return run


class TestObserving:
    def test_observed_run_begins_and_ends_with_its_process(self, backup: Instance) -> None:
        external_runs.observe(backup, facts(1, dump(output_bytes=100)))
        run = only()
        assert (run.origin, run.status, run.started_at) == (RunOrigin.OBSERVED, RunStatus.RUNNING, at(0))
        external_runs.observe(backup, facts(2, dump(output_bytes=200)))
        assert (only().last_seen_at, only().progress) == (at(2), {"bytes": 200})
        external_runs.observe(backup, facts(3))
        run = only()
        assert (run.status, run.finished_at) == (RunStatus.ENDED, at(3))
        assert run.outcome
        assert run.events.count() == 2

    def test_observe_ignores_a_failed_probe(self, backup: Instance) -> None:
        external_runs.observe(backup, facts(1, dump()))
        external_runs.observe(backup, facts(2, host=None, backup_processes=None))
        assert only().status == RunStatus.RUNNING

    def test_observe_ignores_an_older_probe(self, backup: Instance) -> None:
        external_runs.observe(backup, facts(2, dump()))
        external_runs.observe(backup, facts(1))
        assert only().status == RunStatus.RUNNING
        external_runs.observe(backup, facts(3))
        external_runs.observe(backup, facts(2.5, dump()))
        assert only().status == RunStatus.ENDED

    def test_observe_resumes_a_run_when_its_process_reappears(self, backup: Instance) -> None:
        for minute, processes in ((1, [dump()]), (2, []), (3, [dump()])):
            external_runs.observe(backup, facts(minute, *processes))
        assert (only().status, only().finished_at) == (RunStatus.RUNNING, None)

    def test_observe_separates_parallel_runs_and_joins_a_loop(self, backup: Instance) -> None:
        external_runs.observe(backup, facts(1, dump(7), dump(8)))
        assert BackupRun.objects.count() == 2
        external_runs.observe(backup, facts(2))
        family = {"family": "boot:5:500"}
        external_runs.observe(backup, facts(3, dump(11, 2.5, **family)))
        external_runs.observe(backup, facts(4, dump(12, 3.5, **family)))
        assert BackupRun.objects.filter(status=RunStatus.RUNNING).count() == 1
        assert BackupRun.objects.count() == 3

    def test_observe_ignores_own_and_unclear_processes(self, backup: Instance) -> None:
        Hold.objects.create(
            instance=backup, backup_run=make_run(make_schedule(backup)), purpose="backup", taken_at=at(0)
        )
        external_runs.observe(
            backup, facts(1, dump(is_ours=True), dump(8, reads=Reads.UNCLEAR), dump(9, reads=Reads.OTHER))
        )
        assert not BackupRun.objects.exclude(origin=RunOrigin.MANAGED).exists()

    def test_observe_ends_a_remote_dump_with_its_connection(self, backup: Instance) -> None:
        there = BackupConnection(9, "root", "10.0.0.9:4", False, "mysqldump", BackupMethod.DUMP, "SELECT", at(0))
        server = builders.server(12, backup_connections=(there,))
        external_runs.observe(backup, facts(1, server=server))
        external_runs.observe(backup, facts(2, server=None))
        assert only().status == RunStatus.RUNNING
        external_runs.observe(backup, facts(3, server=builders.server(12, backup_connections=())))
        assert only().status == RunStatus.ENDED

    def test_observe_ignores_the_stream_of_a_rebuild(self, db: None) -> None:
        source = started_rebuild().source
        assert Hold.objects.filter(instance=source).exists()
        ours = BackupConnection(
            9, "backup", "localhost", True, "xtrabackup", BackupMethod.PHYSICAL, "BACKUP STAGE", at(0)
        )
        server = builders.server(12, backup_connections=(ours,))
        external_runs.observe(source, facts(1, server=server, backup_processes=None))
        assert not BackupRun.objects.exists()

    def test_observe_takes_one_query_when_nothing_runs(
        self, backup: Instance, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(1):
            external_runs.observe(backup, facts(1))

    def test_prober_passes_stored_facts_to_observe(self, backup: Instance) -> None:
        class Done:
            def exception(self) -> None:
                return None

            def result(self) -> InstanceFacts:
                return facts(1, dump())

        InstanceState.objects.filter(instance=backup).update(observed_at=at(0), record={})
        assert prober._store(backup, Done())  # type: ignore[arg-type]
        assert only().instance == backup
        assert InstanceState.objects.get(instance=backup).host_read_since == at(1)


class TestReporting:
    def report(self, backup: Instance, kind: str, minute: float, **changes: Any) -> BackupRun:
        return run_reports.report_run(backup, report(kind, minute, **changes), at(minute))

    def test_report_creates_updates_and_ends_a_run(self, backup: Instance) -> None:
        self.report(backup, "start", 0)
        self.report(backup, "heartbeat", 1, bytes=100)
        assert only().progress == {"bytes": 100}
        self.report(backup, "end", 2, bytes=5000, path="/b/x.sql")
        run = only()
        assert (run.status, run.origin, run.finished_at) == (RunStatus.SUCCEEDED, RunOrigin.REPORTED, at(2))
        assert (run.bytes_written, run.path, run.exit_status) == (5000, "/b/x.sql", 0)

    def test_report_is_idempotent_in_any_order(self, backup: Instance) -> None:
        self.report(backup, "end", 2, exit_status=3)
        before = only().revision
        for kind in ("end", "start", "heartbeat", "end"):
            self.report(backup, kind, 3)
        run = only()
        assert (run.status, run.exit_status, run.revision) == (RunStatus.FAILED, 3, before)

    @pytest.mark.parametrize("report_first", [True, False])
    def test_report_and_observation_are_one_run(self, backup: Instance, report_first: bool) -> None:
        steps = [
            lambda: self.report(backup, "start", 1),
            lambda: external_runs.observe(backup, facts(1, dump())),
        ]
        for step in steps if report_first else reversed(steps):
            step()
        external_runs.observe(backup, facts(2, dump()))
        self.report(backup, "end", 3, bytes=7)
        external_runs.observe(backup, facts(4))
        run = only()
        assert (run.status, run.origin, run.bytes_written) == (RunStatus.SUCCEEDED, RunOrigin.REPORTED, 7)
        assert (run.evidence["command"], run.evidence["process"]) == ("mysqldump -A", "boot:7:700")

    def test_report_ends_a_run_observed_as_gone(self, backup: Instance) -> None:
        external_runs.observe(backup, facts(1, dump()))
        external_runs.observe(backup, facts(2))
        self.report(backup, "end", 2.1, exit_status=2)
        assert (only().status, only().exit_status, only().finished_at) == (RunStatus.FAILED, 2, at(2.1))

    def test_reported_run_gets_a_minute_when_its_process_vanishes(self, backup: Instance) -> None:
        self.report(backup, "start", 0)
        external_runs.observe(backup, facts(1, dump()))
        external_runs.observe(backup, facts(2))
        external_runs.observe(backup, facts(2.5))
        assert only().status == RunStatus.RUNNING
        external_runs.observe(backup, facts(3.5))
        assert (only().status, only().finished_at) == (RunStatus.ENDED, at(2))
        self.report(backup, "end", 4)
        assert only().status == RunStatus.SUCCEEDED

    def test_reported_run_ends_when_its_reporter_is_silent(self, backup: Instance) -> None:
        self.report(backup, "heartbeat", 0)
        assert run_reports.end_silent_reports(at(14)) == 0
        assert run_reports.end_silent_reports(at(16)) == 1
        assert (only().status, only().finished_at) == (RunStatus.ENDED, at(0))
        self.report(backup, "heartbeat", 17)
        assert only().status == RunStatus.RUNNING

    def test_reported_run_without_heartbeats_gets_more_time(self, backup: Instance) -> None:
        self.report(backup, "start", 0)
        assert run_reports.end_silent_reports(at(60)) == 0
        assert run_reports.end_silent_reports(at(49 * 60)) == 1


class TestFlags:
    def finished(self, backup: Instance, count: int, size: int = 10_000_000) -> None:
        for number in range(count):
            BackupRun.objects.create(
                uid=f"old-{number}", instance=backup, origin=RunOrigin.REPORTED, method="dump", status=RunStatus.SUCCEEDED,
                started_at=at(-100 - number), finished_at=at(-99 - number), bytes_written=size,
            )  # fmt: skip

    def test_flags_are_set_while_running_and_at_the_end(self, backup: Instance) -> None:
        self.finished(backup, 6)
        run_reports.report_run(backup, report("start", 0), at(0))
        run_flags.flag_running(at(2))
        run = BackupRun.objects.get(report_key="key-00001")
        assert run.flags == []
        run_flags.flag_running(at(5))
        run.refresh_from_db()
        assert run.flags == ["too_long"]
        run_reports.report_run(backup, report("end", 6, bytes=1_000_000), at(6))
        run.refresh_from_db()
        assert run.flags == ["too_long", "small"]


@pytest.mark.django_db(transaction=True)
class TestRaces:
    """Threads with connections of their own: a probe and reports at the same moment make one row."""

    def race(self, *deeds: Any) -> None:
        gate, errors = threading.Barrier(len(deeds)), []

        def run(deed: Any) -> None:
            try:
                gate.wait(60)
                deed()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=run, args=(deed,)) for deed in deeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []

    def test_concurrent_probe_and_reports_make_one_row(self) -> None:
        backup = make_fleet()["backup-1"]
        for turn in range(5):
            pid, key = 100 + turn, f"key-{turn:05}"
            start = lambda turn=turn, key=key: run_reports.report_run(  # noqa: E731
                backup, report("start", turn, key, started_at=at(turn)), at(turn)
            )
            probe = lambda turn=turn, pid=pid: external_runs.observe(  # noqa: E731
                backup, facts(turn + 0.5, dump(pid, turn))
            )
            self.race(start, probe, start, probe, probe, start)
            assert BackupRun.objects.count() == turn + 1
            run_reports.report_run(backup, report("end", turn + 0.6, key, started_at=at(turn)), at(turn + 0.6))
        assert set(BackupRun.objects.values_list("status", flat=True)) == {RunStatus.SUCCEEDED}

    def test_race_without_the_lock_makes_two_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The control: the same, deciding outside of a transaction."""
        from contextlib import nullcontext

        from dbops.lifecycle import external_runs, run_reports

        backup = make_fleet()["backup-1"]
        decided = threading.Barrier(2)
        which_run = external_runs.which_run

        def slowly(*arguments: Any) -> Any:
            found = which_run(*arguments)
            decided.wait(60)
            return found

        monkeypatch.setattr(external_runs, "which_run", slowly)
        for module in (external_runs, run_reports):
            monkeypatch.setattr(module, "locked", lambda instance: nullcontext())
        self.race(
            lambda: run_reports.report_run(backup, report("start", 0), at(1)),
            lambda: external_runs.observe(backup, facts(1, dump())),
        )
        assert BackupRun.objects.count() == 2


class TestSchedules:
    @pytest.fixture
    def schedule(self, backup: Instance) -> BackupSchedule:
        return BackupSchedule.objects.create(
            name="nightly", instance=backup, method="dump", run_by="external", cron="0 2 * * *", next_due_at=NIGHT
        )

    def read(self, backup: Instance, since: datetime, until: datetime) -> None:
        InstanceState.objects.filter(instance=backup).update(host_read_since=since, host_read_at=until)

    def run_at(self, backup: Instance, moment: datetime, key: str = "key-00001") -> BackupRun:
        report = RunReport(key, ReportKind.START, BackupMethod.DUMP, started_at=moment)
        return run_reports.report_run(backup, report, moment + timedelta(minutes=1))

    def test_run_is_matched_with_its_due_time(self, backup: Instance, schedule: BackupSchedule) -> None:
        run = self.run_at(backup, NIGHT + timedelta(minutes=20))
        assert (run.schedule, run.due_at, run.flags) == (schedule, NIGHT, ["late"])
        by_hand = self.run_at(backup, NIGHT + timedelta(hours=12), "key-00002")
        assert (by_hand.schedule, by_hand.flags) == (None, [])
        again = self.run_at(backup, NIGHT + timedelta(hours=1), "key-00003")
        assert again.schedule is None, "its due time has a run"

    def test_watch_schedules_adds_one_missed_run(self, backup: Instance, schedule: BackupSchedule) -> None:
        self.read(backup, NIGHT - timedelta(hours=1), NIGHT + timedelta(hours=1))
        assert run_schedules.watch_schedules(NIGHT + timedelta(minutes=14)) == 0
        assert run_schedules.watch_schedules(NIGHT + timedelta(minutes=16)) == 1
        assert run_schedules.watch_schedules(NIGHT + timedelta(minutes=17)) == 0
        schedule.refresh_from_db()
        assert (only().status, only().due_at) == (RunStatus.MISSED, NIGHT)
        assert schedule.next_due_at == NIGHT + timedelta(days=1)
        late = self.run_at(backup, NIGHT + timedelta(hours=2))
        assert only() == late
        assert (only().due_at, only().flags) == (NIGHT, ["late"])

    def test_watch_schedules_adds_nothing_for_a_matched_run(self, backup: Instance, schedule: BackupSchedule) -> None:
        self.run_at(backup, NIGHT + timedelta(minutes=1))
        self.read(backup, NIGHT - timedelta(hours=1), NIGHT + timedelta(hours=1))
        assert run_schedules.watch_schedules(NIGHT + timedelta(hours=1)) == 0
        assert only().status == RunStatus.RUNNING

    @pytest.mark.parametrize(
        ("since", "until"),
        [(None, None), (timedelta(minutes=1), timedelta(hours=1)), (timedelta(hours=-1), timedelta(minutes=5))],
        ids=["never read", "read since later", "not read until late"],
    )
    def test_watch_schedules_adds_nothing_for_unprobed_time(
        self, backup: Instance, schedule: BackupSchedule, since: timedelta | None, until: timedelta | None
    ) -> None:
        self.read(backup, since is not None and NIGHT + since or None, until is not None and NIGHT + until or None)
        assert run_schedules.watch_schedules(NIGHT + timedelta(hours=1)) == 0
        assert not BackupRun.objects.exists()

    def test_watch_schedules_is_bounded_after_a_long_downtime(self, backup: Instance, schedule: BackupSchedule) -> None:
        schedule.cron = "*/5 * * * *"
        schedule.save()
        back = NIGHT + timedelta(days=40)
        self.read(backup, back, back + timedelta(hours=1))
        assert (
            run_schedules.watch_schedules(back + timedelta(hours=1)) == 8
        )  # 00:05 to 00:40: later ones may still come
        schedule.refresh_from_db()
        assert schedule.next_due_at == back + timedelta(minutes=45)

    def test_watch_schedules_adds_nothing_for_short_unseen_runs(
        self, backup: Instance, schedule: BackupSchedule
    ) -> None:
        schedule.expected_seconds = 10
        schedule.save()
        self.read(backup, NIGHT - timedelta(hours=1), NIGHT + timedelta(hours=1))
        assert run_schedules.watch_schedules(NIGHT + timedelta(hours=1)) == 0
        schedule.refresh_from_db()
        assert schedule.next_due_at == NIGHT + timedelta(days=1)

    def test_watch_schedules_sets_the_first_due_time(self, backup: Instance, schedule: BackupSchedule) -> None:
        BackupSchedule.objects.update(next_due_at=None)
        run_schedules.watch_schedules(NIGHT - timedelta(hours=1))
        schedule.refresh_from_db()
        assert schedule.next_due_at == NIGHT

    def test_watch_schedules_skips_an_unreadable_schedule(self, backup: Instance, schedule: BackupSchedule) -> None:
        schedule.cron = "nonsense"
        schedule.save()
        assert run_schedules.watch_schedules(NIGHT + timedelta(hours=1)) == 0
        assert self.run_at(backup, NIGHT).schedule is None


NIGHT = datetime.fromisoformat("2026-03-10T02:00:00+00:00")
