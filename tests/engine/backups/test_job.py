"""One job for a run, with any driver: started once, found again, published once, and removed where it failed."""

from typing import Any

import pytest

from dbops.engine.backups.job import BackupContext, advance, clean_up
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.ports import CommandResult
from tests.fakes import FakeClock, FakeHost, FakeJobs, running, vanished

from . import samples

#: What servers, tools and scripts say or get: recorded, not worded here.
REMOVES = "# Remove backup files"
REMOVES_OF_FAILED = "# Remove the file that a failed run"


class RecordedJournal:
    """A journal that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, Any] = {}
        self.flushed = 0

    def say(self, text: str, *, level: Any = None) -> None:
        self.lines.append(text)

    def progress(self, **known: Any) -> None:
        self.known = known

    def flush(self) -> None:
        self.flushed += 1

    def check(self) -> None: ...


def context(host: FakeHost | None = None, *, token: int = 1, checkpoint: dict[str, Any] | None = None) -> BackupContext:
    jobs = FakeJobs(host, token=token, run_id="0123456789abcdef")
    jobs.expect("# Rename a complete backup", "published\n")
    return BackupContext(
        samples.plan(), jobs, FakeClock(), "[client]\n", {} if checkpoint is None else checkpoint, RecordedJournal()
    )


def jobs_of(one: BackupContext) -> FakeJobs:
    assert isinstance(one.jobs, FakeJobs)
    return one.jobs


def drive(one: BackupContext, calls: int = 5) -> Any:
    for _ in range(calls):
        if (published := advance(one)) is not None:
            return published
    return None


def finished(one: BackupContext) -> None:
    """Let the job have ended well."""
    job = jobs_of(one).job("backup")
    job.coming.clear()
    job.become(samples.state())
    job.logs["files"] = samples.files().encode()


def test_job_publishes_a_complete_run_once() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    assert drive(one, 3) is None
    finished(one)
    published = drive(one)
    assert published.path == one.plan.path
    assert published.record["sha256"] == samples.SHA
    assert published.record["position"]["gtid"] == "0-1-99"
    assert jobs_of(one).started == ["backup"]
    assert jobs_of(one).job("backup").secrets == {"backup.cnf": "[client]\n"}
    [command] = [line for line in one.journal.lines if one.plan.command in line]  # type: ignore[attr-defined]
    assert "backup-1" in command


def test_job_is_found_by_another_driver_and_not_restarted() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running(), running())
    drive(one, 2)
    other = context(jobs_of(one).host, token=2, checkpoint=dict(one.checkpoint))
    assert drive(other, 2) is None
    finished(other)
    assert drive(other) is not None
    assert jobs_of(other).started == ["backup"]


def test_job_is_found_when_the_driver_died_before_saving() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running(), running())
    drive(one, 2)
    other = context(jobs_of(one).host, token=2)
    drive(other, 2)
    assert jobs_of(other).started == ["backup"]


def test_job_start_fails_on_a_silent_host_before_any_request() -> None:
    one = context()
    jobs_of(one).host.down = Unreachable("ssh.unreachable", "Asking")
    with pytest.raises(Unreachable):
        advance(one)
    assert not one.checkpoint.get("asked")
    clean_up(one)  # there is nothing to do, so no host is asked


def test_publishing_again_after_a_crash_is_the_same() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    drive(one, 2)
    finished(one)
    first = drive(one)
    assert drive(context(jobs_of(one).host, token=2, checkpoint=dict(one.checkpoint))) == first


def test_publication_is_repeated_when_its_answer_is_lost() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    jobs_of(one).expect("# Rename a complete backup", CommandResult(None, "", ""), "published\n")
    drive(one, 2)
    finished(one)
    with pytest.raises(Unreachable):
        drive(one)
    assert drive(one) is not None


def test_publication_fails_without_a_final_name() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    jobs_of(one).expect("# Rename a complete backup", CommandResult(70, "FAILED: it exists\n", ""))
    drive(one, 2)
    finished(one)
    with pytest.raises(RemoteFailure) as caught:
        drive(one)
    assert caught.value.code == "backup.unpublished"
    jobs_of(one).expect(REMOVES, f"removed {one.plan.partial_path}\n")
    clean_up(one, is_final_kept=True)
    assert REMOVES in jobs_of(one).acts[-1].arguments[0]
    clean_up(one)
    assert jobs_of(one).acts[-2].arguments[-1] == one.plan.partial_path
    known = (one.plan.directory, one.plan.file, "1000", one.plan.run_id, samples.SHA)
    assert jobs_of(one).acts[-1].arguments[-5:] == known


def test_another_file_under_the_final_name_is_never_touched() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    jobs_of(one).expect("# Rename a complete backup", CommandResult(65, "REFUSED: it is another file\n", ""))
    jobs_of(one).expect(REMOVES, f"removed {one.plan.partial_path}\n")
    drive(one, 2)
    finished(one)
    with pytest.raises(RemoteFailure):
        drive(one)
    clean_up(one)
    assert jobs_of(one).acts[-1].arguments[-1] == one.plan.partial_path
    assert not any(REMOVES_OF_FAILED in text for ran in jobs_of(one).acts for text in ran.arguments)


def test_job_fails_and_removes_its_partial_file_when_the_host_restarted() -> None:
    one = context()
    jobs_of(one).play("backup", running(), vanished())
    jobs_of(one).expect(REMOVES, f"removed {one.plan.partial_path}\n")
    with pytest.raises(RemoteFailure) as caught:
        drive(one)
    assert caught.value.code == "backup.vanished"
    clean_up(one)
    assert jobs_of(one).acts[-1].arguments[-1] == one.plan.partial_path


def test_clean_up_fails_when_a_file_cannot_be_removed() -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    drive(one, 2)
    jobs_of(one).expect(REMOVES, CommandResult(1, f"kept {one.plan.partial_path}\n", ""))
    with pytest.raises(RemoteFailure) as caught:
        clean_up(one)
    assert caught.value.code == "backup.not_removed"
    assert jobs_of(one).host.stopped == ["backup"]


def test_clean_up_keeps_the_file_until_the_job_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = context()
    jobs_of(one).play("backup", running(), running())
    jobs_of(one).expect(REMOVES, f"removed {one.plan.partial_path}\n")
    drive(one, 2)
    with monkeypatch.context() as patched:
        patched.setattr(FakeJobs, "stop", lambda self, name: self.job(name).state)
        with pytest.raises(Unreachable) as caught:
            clean_up(one)
    assert (caught.value.code, jobs_of(one).acts) == ("backup.not_ended", [])
    clean_up(one)
    assert len(jobs_of(one).acts) == 1


def test_progress_compares_bytes_read_with_the_data() -> None:
    one = context()
    total = one.plan.data_bytes or 0
    counters = {"compress.read_bytes": total // 4, "compress.write_bytes": 1000}
    jobs_of(one).play("backup", running(), running(counters=counters))
    drive(one, 2)
    known = one.journal.known  # type: ignore[attr-defined]
    assert (known["bytes"], known["read_bytes"], round(known["percent"])) == (1000, total // 4, 25)


def test_job_logs_a_stall_and_then_fails() -> None:
    one = context()
    one.stall = StallLimits(60, 600)
    jobs_of(one).play("backup", running())
    drive(one, 2)
    one.clock.time += 100  # type: ignore[attr-defined]
    advance(one)
    assert any("100 s" in line for line in one.journal.lines)  # type: ignore[attr-defined]
    one.clock.time += 600  # type: ignore[attr-defined]
    with pytest.raises(RemoteFailure) as caught:
        advance(one)
    assert caught.value.code == "backup.stalled"
