"""Detached jobs: what each ``Jobs`` must do, asked of the fake, of this machine's shell, and of a host behind sshd."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dbops.drivers.jobs import COUNTED, parse_state
from dbops.drivers.ssh import SshShell
from dbops.engine.errors import Bug, Refused, RemoteFailure
from dbops.engine.ports import JobState, Shell
from tests.drivers.conftest import Sshd
from tests.drivers.worlds import ABSENT, ENDED, HOSTILE, RUNNING, Maker, job_dir, wait_until
from tests.fakes import FakeShell


class TestAllJobs:
    def test_unknown_job_is_absent(self, make_any: Maker) -> None:
        assert make_any().follow("nothing") == JobState(ABSENT)
        assert make_any().stop("nothing") == JobState(ABSENT)
        assert make_any().read("nothing", "out") == b""

    def test_follow_returns_the_exit_status(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("fails", "exit 3")
        state = jobs.follow("fails", 60)
        assert (state.status, state.exit_status) == (ENDED, 3)
        assert state.started_at is not None
        assert state.ended_at is not None

    def test_start_returns_the_running_job(self, make_any: Maker) -> None:
        jobs = make_any()
        assert jobs.start("long", "sleep 60").status is RUNNING
        assert jobs.start("long", "exit 1").status is RUNNING

    def test_start_returns_an_ended_job(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("fails", "exit 3")
        jobs.follow("fails", 60)
        assert jobs.start("fails", "exit 0").exit_status == 3

    def test_lock_is_taken_by_one_job(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        with pytest.raises(RemoteFailure) as caught:
            make_any(run_id="run-2").start("other", "true")
        assert caught.value.code == "host.busy"
        assert jobs.start("beside", "true", lock="other").status in (RUNNING, ENDED)

    def test_lock_is_released_at_the_end(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        jobs.stop("long")
        assert jobs.start("other", "true").status in (RUNNING, ENDED)

    def test_stop_ends_the_job(self, make_any: Maker) -> None:
        jobs = make_any()
        jobs.start("long", "sleep 60")
        state = jobs.stop("long", 20)  # ends as soon as it is let go, however slow the machine is
        assert (state.status, state.exit_status) == (ENDED, 130)
        assert jobs.follow("long").status is ENDED

    def test_older_token_is_refused(self, make_any: Maker) -> None:
        old, new = make_any(token=4), make_any(token=5)
        old.start("long", "sleep 60")
        assert new.start("long", "sleep 60").status is RUNNING
        for call in (lambda: old.start("other", "true"), lambda: old.stop("long"), lambda: old.act("true")):
            with pytest.raises(Refused) as caught:
                call()
            assert caught.value.code == "host.fenced"
        assert old.follow("long").status is RUNNING

    def test_living_run_of_another_dashboard_is_not_disturbed(self, make_any: Maker) -> None:
        make_any(token=4).start("long", "sleep 60")
        other = make_any(token=5, run_id="run-2", dashboard="dashboard-2")
        for call in (lambda: other.start("other", "true"), lambda: other.stop("long"), lambda: other.act("true")):
            with pytest.raises(Refused) as caught:
                call()
            assert caught.value.code == "host.other_dashboard"
            assert "run-1" in caught.value.cause
            assert "dashboard-1" in caught.value.cause
        assert make_any(token=4).act("true").exit_status == 0, "its fence was not raised"

    def test_new_run_of_the_same_dashboard_is_accepted(self, make_any: Maker) -> None:
        make_any(token=4).act("true")
        assert make_any(token=5, run_id="run-2").act("true").exit_status == 0

    def test_same_token_is_accepted_again(self, make_any: Maker) -> None:
        make_any(token=4).act("true")
        assert make_any(token=4).act("true").exit_status == 0

    @pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "A", "$(id)", ".hidden", "a\nb"])
    def test_invalid_job_name_is_a_bug(self, make_any: Maker, name: str) -> None:
        with pytest.raises(Bug):
            make_any().start(name, "true")


class TestStarting:
    def test_start_passes_arguments_unchanged(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", r'printf "%s\0" "$@"', *HOSTILE)
        jobs.follow("a", 60)
        assert jobs.read("a", "out").decode().split("\0")[:-1] == HOSTILE

    def test_job_runs_in_its_directory_with_a_small_environment(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", 'pwd; echo "$DBOPS_JOB_DIR"; echo "$DBOPS_RUN_DIR"; echo "$LC_ALL"; env | cut -d= -f1 | sort')
        jobs.follow("a", 60)
        lines = jobs.read("a", "out").decode().splitlines()
        assert lines[:4] == [str(job_dir(jobs, "a"))] * 2 + [jobs.run_directory, "C"]
        known = {
            "DBOPS_JOB_DIR",
            "DBOPS_RUN_DIR",
            "HOME",
            "LC_ALL",
            "MYSQL_TEST_LOGIN_FILE",
            "PATH",
            "PWD",
            "SHLVL",
            "_",
        }
        assert set(lines[4:]) == known

    def test_login_file_of_a_job_is_one_that_nothing_can_make(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", 'printf "%s" "$MYSQL_TEST_LOGIN_FILE"')
        jobs.follow("a", 60)
        above = Path(jobs.read("a", "out").decode()).parent
        assert above.exists()
        assert not above.is_dir()

    def test_start_is_effective_once_of_twenty(self, make: Maker, sshd: Sshd) -> None:
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

    def test_secrets_are_private_and_removed_at_the_end(self, make: Maker) -> None:
        jobs = make()
        secret = 'it\'s \\ a "secret"\n$(id)\n'
        jobs.start("a", "stat -c %a my.cnf; cat my.cnf; sleep 0.3", secrets={"my.cnf": secret})
        assert (job_dir(jobs, "a") / "my.cnf").exists()
        state = jobs.follow("a", 60)
        assert state.tails["out"] == "600\n" + secret
        assert sorted(path.name for path in job_dir(jobs, "a").iterdir()) == sorted(
            ["alive", "log.out", "pid", "rc", "script", "wrapper"]
        )

    @pytest.mark.parametrize("name", ["pid", "rc", "log.out", "script", "pid.x", "../x", "secrets", "end", "a b"])
    def test_secret_name_must_not_collide(self, make: Maker, name: str) -> None:
        with pytest.raises(Bug):
            make().start("a", "true", secrets={name: "x"})

    def test_truncated_request_starts_nothing(self, make: Maker, shell_of_host: Shell) -> None:
        class Cutting(FakeShell):
            def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> Any:
                return shell_of_host.run(script, *arguments, stdin=stdin[:-10], timeout_seconds=timeout_seconds)

        with pytest.raises(RemoteFailure) as caught:
            make(over=Cutting()).start("a", "echo started >>started")
        assert caught.value.code == "host.start_failed"
        assert make().follow("a").status is ABSENT
        assert make().start("a", "exit 7").status in (RUNNING, ENDED)
        assert make().follow("a", 60).exit_status == 7

    def test_start_is_repeated_when_it_died_before_the_job(self, make: Maker) -> None:
        jobs = make()
        job_dir(jobs, "a").mkdir(parents=True)
        (job_dir(jobs, "a") / "alive").touch()
        (job_dir(jobs, "a") / "script").write_text("echo half")
        jobs.start("a", "echo whole")
        assert jobs.follow("a", 60).tails["out"] == "whole\n"

    def test_start_returns_while_the_job_prints_and_runs(self, make: Maker) -> None:
        before = time.monotonic()
        assert make().start("a", "yes | head -c 1000000; sleep 60").status is RUNNING
        assert time.monotonic() - before < 30

    def test_job_files_are_private(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "true")
        for path in (Path(jobs.run_directory), job_dir(jobs, "a")):
            assert path.stat().st_mode & 0o777 == 0o700


class TestFollowing:
    def test_follow_returns_at_the_end(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 1; exit 5")
        before = time.monotonic()
        assert jobs.follow("a", 120).exit_status == 5
        assert time.monotonic() - before < 60

    def test_follow_returns_after_its_timeout(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 60")
        before = time.monotonic()
        assert jobs.follow("a", 0.5).status is RUNNING
        assert 0.4 < time.monotonic() - before < 30

    def test_follow_returns_stages_counters_and_tails(self, make: Maker) -> None:
        jobs = make()
        jobs.start(
            "a",
            "dd if=/dev/zero of=/dev/null bs=1M count=50 status=none & echo $! >pid.reader; wait; "
            "sleep 60 & echo $! >pid.idle; seq 100 >log.tool; echo 0 >stage.one; echo 141 >stage.two; wait",
        )
        wait_until(lambda: len(jobs.follow("a").stages) == 2)
        state = jobs.follow("a", tail_lines=3)
        assert state.stages == {"one": 0, "two": 141}
        assert state.tails == {"tool": "98\n99\n100\n"}
        assert state.counters["idle.write_bytes"] == 0

    def test_follow_returns_disk_counters(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "sleep 60 & echo $! >pid.idle; wait")
        wait_until(lambda: "idle.write_bytes" in jobs.follow("a").counters)
        counters = jobs.follow("a").counters
        assert set(counters) == {f"idle.{kind}" for kind in COUNTED}
        assert counters["idle.disk_write_bytes"] == 0

    def test_counters_survive_their_process(self, make: Maker) -> None:
        jobs = make()
        jobs.start(
            "a", "sleep 60 | tee /dev/null & echo $! >pid.tee; seq 1000 | { cat; echo $BASHPID >pid.me; sleep 60; }"
        )
        wait_until(lambda: "me.read_bytes" in jobs.follow("a").counters)
        before = jobs.follow("a").counters
        assert jobs.stop("a").counters == before
        assert jobs.follow("a").counters == before

    def test_counters_ignore_foreign_processes(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", f"echo {os.getpid()} >pid.other; echo rubbish >pid.none; echo x >stage.x; sleep 60")
        wait_until(lambda: (job_dir(jobs, "a") / "stage.x").exists())
        state = jobs.follow("a")
        assert (state.counters, state.stages) == ({}, {})

    def test_read_starts_at_any_byte(self, make: Maker) -> None:
        jobs = make()
        jobs.start("a", "printf '\\000\\377abc' >log.raw")
        jobs.follow("a", 60)
        assert jobs.read("a", "raw") == b"\0\xffabc"
        assert jobs.read("a", "raw", 2, 2) == b"ab"
        assert jobs.read("a", "raw", 99) == b""
        assert jobs.read("a", "none") == b""

    def test_output_of_the_login_shell_is_skipped(self, make: Maker, shell_of_host: Shell) -> None:
        class Chatty(FakeShell):
            def run(self, script: str, *arguments: str, stdin: bytes = b"", timeout_seconds: float = 10.0) -> Any:
                return shell_of_host.run("echo Welcome; " + script, *arguments, stdin=stdin)

        jobs = make(over=Chatty())
        jobs.start("a", "exit 2")
        assert jobs.follow("a", 60).exit_status == 2
        assert jobs.act("echo x").stdout == "x\n"

    def test_truncated_answer_is_refused(self, make: Maker) -> None:
        shell = FakeShell()
        shell.expect("", "dbops:state ended\nstarted 1\n")
        with pytest.raises(RemoteFailure) as caught:
            make(over=shell).follow("a")
        assert caught.value.code == "host.unexpected_answer"

    def test_job_states_survive_parsing(self) -> None:
        assert parse_state(
            ["dbops:state ended", "started 5", "rc 0", "ended 6", "stage x 1", "tail out aGk=", "new thing"]
        ) == (JobState(ENDED, 0, {"x": 1}, {}, {"out": "hi"}, 5, 6))


class TestActing:
    def test_act_runs_in_the_run_directory(self, make: Maker) -> None:
        jobs = make()
        result = jobs.act('pwd; cat; echo "$1" >&2; exit 6', "a'b", stdin=b"in\n")
        assert (result.exit_status, result.stdout, result.stderr) == (6, f"{jobs.run_directory}\nin\n", "a'b\n")

    def test_newer_driver_waits_for_an_act_of_an_older_one(self, make: Maker, sshd: Sshd) -> None:
        shell = SshShell(sshd.pinned())
        old = threading.Thread(target=lambda: make(token=1, over=shell).act("sleep 1; echo end >>order"))
        old.start()
        wait_until(lambda: Path(make().run_directory).exists())
        time.sleep(0.3)
        make(token=2).act("echo newer >>order")
        old.join()
        shell.close()
        assert (Path(make().run_directory) / "order").read_text() == "end\nnewer\n"

    def test_damaged_fence_is_refused(self, make: Maker) -> None:
        jobs = make()
        jobs.act("true")
        (Path(jobs.run_directory).parents[1] / "instances" / "db1" / "fence").write_text("")
        with pytest.raises(RemoteFailure) as caught:
            jobs.act("true")
        assert caught.value.code == "host.fence_damaged"

    def test_silent_run_of_another_dashboard_ends_with_its_jobs(self, make: Maker) -> None:
        first, other = make(token=4), make(token=5, run_id="run-2", dashboard="dashboard-2")
        first.start("long", "sleep 60")
        long_ago = time.time() - 600
        for owner in Path(first.run_directory).parents[1].glob("instances/*/owner"):
            os.utime(owner, (long_ago, long_ago))
        with pytest.raises(Refused) as caught:
            other.act("true")
        assert caught.value.code == "host.other_dashboard"
        first.stop("long")
        for owner in Path(first.run_directory).parents[1].glob("instances/*/owner"):
            os.utime(owner, (long_ago, long_ago))
        assert other.act("true").exit_status == 0

    def test_fences_are_per_instance(self, make: Maker) -> None:
        make(token=9, key="db1").act("true")
        assert make(token=1, key="db2").act("true").exit_status == 0
