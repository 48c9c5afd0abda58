"""Detached jobs: what each ``Jobs`` must do, asked of the fake, of this machine's shell, and of a host behind sshd."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dbops.drivers.jobs import HostJobs, parse_state
from dbops.drivers.ssh import SshShell
from dbops.engine.errors import Bug, Refused, RemoteFailure, Unreachable
from dbops.engine.ports import Jobs, JobState, JobStatus, Shell
from tests.drivers.conftest import Sshd
from tests.fakes import FakeHost, FakeJobs, FakeShell, ended, running

ABSENT, RUNNING, ENDED, VANISHED = JobStatus.ABSENT, JobStatus.RUNNING, JobStatus.ENDED, JobStatus.VANISHED
HOSTILE = ["a'b", 'a"b', "a;id", "a\nb", "$(id)", "`id`", "${HOME}", "*", "", " ", "-n", "\\"]

Maker = Callable[..., Any]


def make_real(shell: Shell, folder: Path) -> Maker:
    def make(token: int = 1, run_id: str = "run-1", over: Shell | None = None, key: str = "db1") -> HostJobs:
        return HostJobs(over or shell, work_dir=f"{folder}/work 'dir'", instance_key=key, run_id=run_id, token=token)

    return make


@pytest.fixture(params=["here", pytest.param("ssh", marks=pytest.mark.services)])
def shell_of_host(request: pytest.FixtureRequest) -> Shell:
    shell: Shell = FakeShell(runs_here=True) if request.param == "here" else request.getfixturevalue("ssh_shell")
    return shell


@pytest.fixture
def ssh_shell(sshd: Sshd) -> Iterator[SshShell]:
    shell = SshShell(sshd.pinned())
    yield shell
    shell.close()


@pytest.fixture
def make(shell_of_host: Shell, tmp_path: Path) -> Iterator[Maker]:
    yield make_real(shell_of_host, tmp_path)
    end_sessions(tmp_path)


@pytest.fixture(params=["fake", "here", pytest.param("ssh", marks=pytest.mark.services)])
def make_any(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Maker]:
    if request.param == "fake":
        host = FakeHost()

        def make(token: int = 1, run_id: str = "run-1") -> FakeJobs:
            jobs = FakeJobs(host, token=token, run_id=run_id)
            jobs.play("long.*", running())
            jobs.play("fails", running(), ended(3))
            return jobs

        yield make
    else:
        shell = FakeShell(runs_here=True) if request.param == "here" else request.getfixturevalue("ssh_shell")
        yield make_real(shell, tmp_path)
        end_sessions(tmp_path)


def end_sessions(folder: Path) -> None:
    """End what a failed test may have left: only the sessions that are written in this test's own journals."""
    for file in folder.glob("work*/rebuilds/*/jobs/*/pid"):
        session = int(file.read_text().split()[0])
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(") ")[2].split()
                if int(fields[3]) == session:
                    os.kill(int(stat.parent.name), 9)
            except (OSError, IndexError):
                continue


def wait_until(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def job_dir(jobs: Jobs, name: str) -> Path:
    return Path(jobs.run_directory) / "jobs" / name


class TestAllJobs:
    def test_a_job_that_was_never_started_is_absent(self, make_any: Maker) -> None:
        assert make_any().follow("nothing") == JobState(ABSENT)
        assert make_any().stop("nothing") == JobState(ABSENT)
        assert make_any().read("nothing", "out") == b""

    def test_its_exit_status_is_kept(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("fails", "exit 3")
        state = jobs.follow("fails", 5)
        assert (state.status, state.exit_status) == (ENDED, 3)
        assert state.started_at is not None
        assert state.ended_at is not None

    def test_a_second_start_returns_the_first_one(self, make_any: Maker) -> None:
        jobs = make_any()
        assert jobs.start("long", "sleep 60").status is RUNNING
        assert jobs.start("long", "exit 1").status is RUNNING

    def test_a_second_start_returns_even_what_ended(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("fails", "exit 3")
        jobs.follow("fails", 5)
        assert jobs.start("fails", "exit 0").exit_status == 3

    def test_a_lock_is_held_by_one_job(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        with pytest.raises(RemoteFailure) as caught:
            make_any(run_id="run-2").start("other", "true")
        assert caught.value.code == "host.busy"
        assert jobs.start("beside", "true", lock="other").status in (RUNNING, ENDED)

    def test_a_lock_is_free_again_after_the_end(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        jobs.stop("long")
        assert jobs.start("other", "true").status in (RUNNING, ENDED)

    def test_stop_ends_it(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        state = jobs.stop("long")
        assert (state.status, state.exit_status) == (ENDED, 130)
        assert jobs.follow("long").status is ENDED

    def test_an_older_driver_is_refused(self, make_any: Maker) -> None:
        old, new = make_any(token=4), make_any(token=5)
        old.start("long", "sleep 60")
        assert new.start("long", "sleep 60").status is RUNNING
        for call in (lambda: old.start("other", "true"), lambda: old.stop("long"), lambda: old.act("true")):
            with pytest.raises(Refused) as caught:
                call()
            assert caught.value.code == "host.fenced"
        assert old.follow("long").status is RUNNING

    def test_the_same_token_may_come_again(self, make_any: Maker) -> None:
        make_any(token=4).act("true")
        assert make_any(token=4).act("true").exit_status == 0

    @pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "A", "$(id)", ".hidden", "a\nb"])
    def test_a_name_that_is_none_is_a_bug(self, make_any: Maker, name: str) -> None:
        with pytest.raises(Bug):
            make_any().start(name, "true")


class TestStarting:
    def test_arguments_are_data(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", r'printf "%s\0" "$@"', *HOSTILE)
        jobs.follow("a", 5)
        assert jobs.read("a", "out").decode().split("\0")[:-1] == HOSTILE

    def test_it_stands_in_its_directory_with_little_environment(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", 'pwd; echo "$DBOPS_JOB_DIR"; echo "$DBOPS_RUN_DIR"; echo "$LC_ALL"; env | cut -d= -f1 | sort')
        jobs.follow("a", 5)
        lines = jobs.read("a", "out").decode().splitlines()
        assert lines[:4] == [str(job_dir(jobs, "a"))] * 2 + [jobs.run_directory, "C"]
        assert set(lines[4:]) == {"DBOPS_JOB_DIR", "DBOPS_RUN_DIR", "HOME", "LC_ALL", "PATH", "PWD", "SHLVL", "_"}

    def test_twenty_starts_at_once_start_one(self, make: Maker, sshd: Sshd) -> None:
        shells = [SshShell(sshd.pinned()) for _ in range(20)]
        states: list[JobState] = []
        script = f'echo once >>"{job_dir(make(), "a").parents[3]}/count"; sleep 60'

        def start(shell: SshShell) -> None:
            states.append(make(over=shell).start("a", script))
            shell.close()

        threads = [threading.Thread(target=start, args=(shell,)) for shell in shells]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [state.status for state in states] == [RUNNING] * 20
        assert (job_dir(make(), "a").parents[3] / "count").read_text() == "once\n"

    def test_secrets_are_there_for_the_job_alone_and_gone_at_its_end(self, make: Maker) -> None:
        jobs = make()
        secret = 'it\'s \\ a "secret"\n$(id)\n'
        jobs.start("a", "stat -c %a my.cnf; cat my.cnf; sleep 0.3", secrets={"my.cnf": secret})
        assert (job_dir(jobs, "a") / "my.cnf").exists()
        state = jobs.follow("a", 5)
        assert state.tails["out"] == "600\n" + secret
        assert sorted(path.name for path in job_dir(jobs, "a").iterdir()) == sorted(
            ["alive", "log.out", "pid", "rc", "script", "wrapper"]
        )

    @pytest.mark.parametrize("name", ["pid", "rc", "log.out", "script", "pid.x", "../x", "secrets", "end", "a b"])
    def test_a_secret_must_not_take_a_name_of_the_journal(self, make: Maker, name: str) -> None:
        with pytest.raises(Bug):
            make().start("a", "true", secrets={name: "x"})

    def test_a_request_that_was_cut_short_starts_nothing(self, make: Maker, shell_of_host: Shell) -> None:
        class Cutting(FakeShell):
            def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> Any:
                return shell_of_host.run(script, *arguments, stdin=stdin[:-10], timeout_seconds=timeout_seconds)

        with pytest.raises(RemoteFailure) as caught:
            make(over=Cutting()).start("a", "echo started >>started")
        assert caught.value.code == "host.start_failed"
        assert make().follow("a").status is ABSENT
        assert make().start("a", "exit 7").status in (RUNNING, ENDED)
        assert make().follow("a", 5).exit_status == 7

    def test_a_start_that_died_before_the_job_lived_can_be_made_again(self, make: Maker) -> None:
        jobs = make()
        job_dir(jobs, "a").mkdir(parents=True)
        (job_dir(jobs, "a") / "alive").touch()
        (job_dir(jobs, "a") / "script").write_text("echo half")
        jobs.start("a", "echo whole")
        assert jobs.follow("a", 5).tails["out"] == "whole\n"

    def test_start_returns_though_the_job_says_a_lot_and_goes_on(self, make: Maker) -> None:
        before = time.monotonic()
        assert make().start("a", "yes | head -c 1000000; sleep 60").status is RUNNING
        assert time.monotonic() - before < 3

    def test_the_files_are_closed_to_others(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "true")
        for path in (Path(jobs.run_directory), job_dir(jobs, "a")):
            assert path.stat().st_mode & 0o777 == 0o700


class TestFollowing:
    def test_it_waits_for_the_end_and_no_longer(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 1; exit 5")
        before = time.monotonic()
        assert jobs.follow("a", 20).exit_status == 5
        assert time.monotonic() - before < 3

    def test_it_waits_no_longer_than_asked(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 60")
        before = time.monotonic()
        assert jobs.follow("a", 0.5).status is RUNNING
        assert 0.4 < time.monotonic() - before < 2

    def test_stages_counters_and_tails_are_told(self, make: Maker) -> None:
        jobs = make()
        jobs.start(
            "a",
            "dd if=/dev/zero of=/dev/null bs=1M count=50 status=none & echo $! >pid.reader; wait; "
            "sleep 60 & echo $! >pid.idle; echo 0 >stage.one; echo 141 >stage.two; seq 100 >log.tool; wait",
        )
        wait_until(lambda: len(jobs.follow("a").stages) == 2)
        state = jobs.follow("a", tail_lines=3)
        assert state.stages == {"one": 0, "two": 141}
        assert state.tails == {"out": "", "tool": "98\n99\n100\n"}
        assert state.counters["idle.write_bytes"] == 0

    def test_counters_outlive_their_process(self, make: Maker) -> None:
        jobs = make()
        jobs.start(
            "a", "sleep 60 | tee /dev/null & echo $! >pid.tee; seq 1000 | { cat; echo $BASHPID >pid.me; sleep 60; }"
        )
        wait_until(lambda: "me.read_bytes" in jobs.follow("a").counters)
        before = jobs.follow("a").counters
        assert jobs.stop("a").counters == before
        assert jobs.follow("a").counters == before

    def test_a_foreign_process_is_not_counted(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", f"echo {os.getpid()} >pid.other; echo rubbish >pid.none; echo x >stage.x; sleep 60")
        wait_until(lambda: (job_dir(jobs, "a") / "stage.x").exists())
        state = jobs.follow("a")
        assert (state.counters, state.stages) == ({}, {})

    def test_a_log_is_read_from_any_byte_on(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "printf '\\000\\377abc' >log.raw")
        jobs.follow("a", 5)
        assert jobs.read("a", "raw") == b"\0\xffabc"
        assert jobs.read("a", "raw", 2, 2) == b"ab"
        assert jobs.read("a", "raw", 99) == b""
        assert jobs.read("a", "none") == b""

    def test_what_a_login_shell_says_first_is_passed_over(self, make: Maker, shell_of_host: Shell) -> None:
        class Chatty(FakeShell):
            def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> Any:
                return shell_of_host.run("echo Welcome; " + script, *arguments, stdin=stdin)

        jobs = make(over=Chatty())
        jobs.start("a", "exit 2")
        assert jobs.follow("a", 5).exit_status == 2
        assert jobs.act("echo x").stdout == "x\n"

    def test_an_answer_that_was_cut_is_not_believed(self, make: Maker) -> None:
        shell = FakeShell()
        shell.expect("", "dbops:state ended\nstarted 1\n")
        with pytest.raises(RemoteFailure) as caught:
            make(over=shell).follow("a")
        assert caught.value.code == "host.unexpected_answer"

    def test_states_read_back(self) -> None:
        assert parse_state(
            ["dbops:state ended", "started 5", "rc 0", "ended 6", "stage x 1", "tail out aGk=", "new thing"]
        ) == (JobState(ENDED, 0, {"x": 1}, {}, {"out": "hi"}, 5, 6))


@pytest.mark.services
class TestDying:
    def test_it_survives_the_end_of_the_ssh_session(self, make: Maker, sshd: Sshd) -> None:
        shell = SshShell(sshd.pinned())
        make(over=shell).start("a", "sleep 1.5; echo done; exit 7")
        assert shell.run('kill -9 "$PPID"; sleep 5').exit_status is None
        shell.close()
        state = make().follow("a", 10)
        assert (state.status, state.exit_status, state.tails["out"]) == (ENDED, 7, "done\n")

    def test_a_follower_that_is_cut_off_knows_nothing(self, make: Maker, sshd: Sshd) -> None:
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

    def test_killed_with_all_its_children_it_has_vanished_and_its_secrets_too(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 60 | sleep 60", secrets={"key": "secret"})
        end_sessions(job_dir(jobs, "a").parents[4])
        wait_until(lambda: jobs.follow("a").status is VANISHED)
        assert not (job_dir(jobs, "a") / "key").exists()
        assert jobs.start("a", "true").status is VANISHED
        assert jobs.start("b", "true").status in (RUNNING, ENDED)

    def test_while_a_child_lives_it_runs_and_holds_its_lock(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 61 | sleep 60", secrets={"key": "secret"})
        wait_until(lambda: (job_dir(jobs, "a") / "log.out").exists())
        os.kill(int((job_dir(jobs, "a") / "pid").read_text().split()[0]), 9)
        assert jobs.follow("a", 0.5).status is RUNNING
        with pytest.raises(RemoteFailure) as caught:
            jobs.start("b", "true")
        assert caught.value.code == "host.busy"
        assert jobs.stop("a").status is VANISHED
        assert not (job_dir(jobs, "a") / "key").exists()
        jobs.start("b", "true")

    def test_no_end_is_taken_for_a_disappearance(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The regression of a probe that read the status, then found the lock free: the status had come in between."""
        jobs = make_real(FakeShell(runs_here=True), tmp_path)()
        jobs.start("a", "exit 3")
        jobs.follow("a", 5)
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

    def test_stop_asks_first_and_then_kills(self, make: Maker) -> None:
        jobs = make()
        jobs.start("asked", "trap 'echo asked; exit 4' INT; while :; do sleep 0.1; done")
        wait_until(lambda: jobs.follow("asked", 0.3).status is RUNNING)
        state = jobs.stop("asked", 5)
        assert (state.exit_status, state.tails["out"]) == (4, "asked\n")
        jobs.start("deaf", "trap '' INT TERM HUP; (sleep 62 & sleep 62) | sleep 62; sleep 62", secrets={"key": "x"})
        before = time.monotonic()
        state = jobs.stop("deaf", 0.5)
        assert (state.status, state.exit_status) == (ENDED, 137)
        assert time.monotonic() - before < 4
        assert not (job_dir(jobs, "deaf") / "key").exists()
        jobs.start("next", "true")

    def test_stop_touches_no_process_of_another_session(self, make: Maker) -> None:
        jobs = make()
        jobs.start("mine", "sleep 60")
        jobs.start("other", "sleep 60", lock="other")
        jobs.stop("mine")
        assert jobs.follow("other").status is RUNNING

    def test_stop_does_not_touch_a_process_that_took_over_the_number(self, make: Maker) -> None:
        jobs = make()
        jobs.start("other", "sleep 60", lock="other")
        jobs.start("mine", "sleep 60")
        jobs.stop("mine")
        (job_dir(jobs, "mine") / "rc").unlink()
        pid, start, *rest = (job_dir(jobs, "other") / "pid").read_text().split()
        (job_dir(jobs, "mine") / "pid").write_text(" ".join([pid, str(int(start) - 1), *rest]) + "\n")
        assert jobs.stop("mine").status is VANISHED
        assert jobs.follow("other").status is RUNNING

    def test_after_a_reboot_a_process_of_the_same_number_is_another_one(self, make: Maker) -> None:
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

    def test_a_server_that_closes_the_descriptors_does_not_hold_the_lock(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "setsid sleep 3 </dev/null >/dev/null 2>&1 7>&- 9>&- & sleep 0.2")
        assert jobs.follow("a", 5).status is ENDED
        assert jobs.start("b", "true").status in (RUNNING, ENDED)


class TestActing:
    def test_it_stands_in_the_run_directory(self, make: Maker) -> None:
        jobs = make()
        result = jobs.act('pwd; cat; echo "$1" >&2; exit 6', "a'b", stdin=b"in\n")
        assert (result.exit_status, result.stdout, result.stderr) == (6, f"{jobs.run_directory}\nin\n", "a'b\n")

    def test_no_newer_driver_begins_while_an_older_one_acts(self, make: Maker, sshd: Sshd) -> None:
        shell = SshShell(sshd.pinned())
        old = threading.Thread(target=lambda: make(token=1, over=shell).act("sleep 1; echo end >>order"))
        old.start()
        wait_until(lambda: Path(make().run_directory).exists())
        time.sleep(0.3)
        make(token=2).act("echo newer >>order")
        old.join()
        shell.close()
        assert (Path(make().run_directory) / "order").read_text() == "end\nnewer\n"

    def test_a_damaged_fence_refuses(self, make: Maker) -> None:
        jobs = make()
        jobs.act("true")
        (Path(jobs.run_directory).parents[1] / "instances" / "db1" / "fence").write_text("")
        with pytest.raises(RemoteFailure) as caught:
            jobs.act("true")
        assert caught.value.code == "host.fence_damaged"

    def test_instances_do_not_fence_each_other(self, make: Maker) -> None:
        make(token=9, key="db1").act("true")
        assert make(token=1, key="db2").act("true").exit_status == 0
