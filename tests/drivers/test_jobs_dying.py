"""How detached jobs end: sessions that drop, processes that are killed, stops, reboots."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from dbops.drivers.ssh import SshShell
from dbops.engine.errors import RemoteFailure, Unreachable
from tests.drivers.conftest import Sshd
from tests.drivers.worlds import ENDED, RUNNING, VANISHED, Maker, end_sessions, job_dir, make_real, wait_until
from tests.fakes import FakeShell


@pytest.mark.services
class TestDying:
    def test_job_survives_the_ssh_session(self, make: Maker, sshd: Sshd) -> None:
        shell = SshShell(sshd.pinned())
        make(over=shell).start("a", "sleep 1.5; echo done; exit 7")
        assert shell.run('kill -9 "$PPID"; sleep 5').exit_status is None
        shell.close()
        state = make().follow("a", 10)
        assert (state.status, state.exit_status, state.tails["out"]) == (ENDED, 7, "done\n")

    def test_disconnected_follower_returns_lost(self, make: Maker, sshd: Sshd) -> None:
        shell, killer = SshShell(sshd.pinned()), SshShell(sshd.pinned())
        make().start("a", "sleep 60")
        session = shell.run("echo $PPID").stdout.strip()
        timer = threading.Timer(0.5, lambda: killer.run('kill -9 "$1"', session))
        timer.start()
        with pytest.raises(Unreachable) as caught:
            make(over=shell).follow("a", 10)
        timer.join()
        assert caught.value.code == "ssh.lost"
        assert make(over=shell).follow("a").status is RUNNING
        shell.close()
        killer.close()

    def test_killed_job_is_vanished_without_secrets(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 60 | sleep 60", secrets={"key": "secret"})

        def is_gone() -> bool:
            """What was forked just as we looked is ended with the next look."""
            end_sessions(job_dir(jobs, "a").parents[4])
            return jobs.follow("a").status is VANISHED

        wait_until(is_gone)
        assert not (job_dir(jobs, "a") / "key").exists()
        assert jobs.start("a", "true").status is VANISHED
        assert jobs.start("b", "true").status in (RUNNING, ENDED)

    def test_job_with_a_living_child_runs_and_keeps_its_lock(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 61 | { echo 0 >stage.ready; sleep 60; }", secrets={"key": "secret"})
        wait_until(lambda: (job_dir(jobs, "a") / "stage.ready").exists())  # its children are there
        os.kill(int((job_dir(jobs, "a") / "pid").read_text().split()[0]), 9)
        assert jobs.follow("a", 0.5).status is RUNNING
        with pytest.raises(RemoteFailure) as caught:
            jobs.start("b", "true")
        assert caught.value.code == "host.busy"
        assert jobs.stop("a").status is VANISHED
        assert not (job_dir(jobs, "a") / "key").exists()
        jobs.start("b", "true")

    def test_follow_never_reports_vanished_for_an_ended_job(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The regression of a probe that read the status, then found the lock free: the status had come in between."""
        jobs = make_real(FakeShell(runs_here=True), tmp_path)()
        jobs.start("a", "exit 3")
        jobs.follow("a", 60)
        status = job_dir(jobs, "a") / "rc"
        wait_until(lambda: not Path(f"/proc/{(status.parent / 'pid').read_text().split()[0]}").exists())
        status.rename(tmp_path / "rc")
        (tmp_path / "bin").mkdir()
        flock = tmp_path / "bin" / "flock"
        flock.write_text(f'#!/bin/sh\nmv \'{tmp_path}/rc\' "{status}"\nexec {shutil.which("flock")} "$@"\n')
        flock.chmod(0o755)
        monkeypatch.setenv("PATH", f"{flock.parent}:{os.environ['PATH']}")
        assert jobs.follow("a").exit_status == 3

    def test_many_short_jobs_all_end(self, make: Maker) -> None:
        jobs = make()
        for number in range(10):
            jobs.start(f"a.{number}", "exit 0")
            while (state := jobs.follow(f"a.{number}")).status is RUNNING:
                pass
            assert state.status is ENDED

    def test_stop_sends_sigterm_then_sigkill(self, make: Maker) -> None:
        jobs = make()
        jobs.start("asked", "trap 'echo asked; exit 4' INT; echo 0 >stage.ready; while :; do sleep 0.1; done")
        wait_until(lambda: jobs.follow("asked", 0.3).stages)
        state = jobs.stop("asked", 20)
        assert (state.exit_status, state.tails["out"]) == (4, "asked\n")
        jobs.start("deaf", "trap '' INT TERM HUP; (sleep 62 & sleep 62) | sleep 62; sleep 62", secrets={"key": "x"})
        before = time.monotonic()
        state = jobs.stop("deaf", 0.5)
        assert (state.status, state.exit_status) == (ENDED, 137)
        assert time.monotonic() - before < 30  # it did not wait for its sleep
        assert not (job_dir(jobs, "deaf") / "key").exists()
        jobs.start("next", "true")

    def test_stop_ignores_processes_of_other_sessions(self, make: Maker) -> None:
        jobs = make()
        jobs.start("mine", "sleep 60")
        jobs.start("other", "sleep 60", lock="other")
        jobs.stop("mine")
        assert jobs.follow("other").status is RUNNING

    def test_stop_ignores_a_reused_pid(self, make: Maker) -> None:
        jobs = make()
        jobs.start("other", "sleep 60", lock="other")
        jobs.start("mine", "sleep 60")
        jobs.stop("mine")
        (job_dir(jobs, "mine") / "rc").unlink()
        pid, start, *rest = (job_dir(jobs, "other") / "pid").read_text().split()
        (job_dir(jobs, "mine") / "pid").write_text(" ".join([pid, str(int(start) - 1), *rest]) + "\n")
        assert jobs.stop("mine").status is VANISHED
        assert jobs.follow("other").status is RUNNING

    def test_job_is_vanished_after_a_reboot_with_a_reused_pid(self, make: Maker) -> None:
        jobs = make()
        jobs.start("other", "sleep 60", lock="other")
        jobs.start("a", "sleep 60")
        jobs.stop("a")
        (job_dir(jobs, "a") / "rc").unlink()
        pid, start, _, at = (job_dir(jobs, "other") / "pid").read_text().split()
        (job_dir(jobs, "a") / "pid").write_text(f"{pid} {start} another-boot {at}\n")
        assert jobs.follow("a").status is VANISHED
        assert jobs.stop("a").status is VANISHED
        assert jobs.follow("other").status is RUNNING

    def test_daemon_without_descriptors_does_not_keep_the_lock(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "setsid sleep 3 </dev/null >/dev/null 2>&1 7>&- 9>&- & sleep 0.2")
        assert jobs.follow("a", 60).status is ENDED
        assert jobs.start("b", "true").status in (RUNNING, ENDED)
