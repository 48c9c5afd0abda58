"""Restore tests: the plan, its limits, what the end of the job means, and which are due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import DbopsError, Refused, RemoteFailure
from dbops.engine.facts.instance import Tool, from_record, to_record
from dbops.engine.ports import JobState
from dbops.engine.restore_tests.due import LastRestoreTest, RestoreAge, RestoreState, RestoreTestCandidate, due_runs
from dbops.engine.restore_tests.plan import RemoteFile, RestoreTestLimits, RestoreTestPlan, plan_restore_test
from dbops.engine.restore_tests.result import (
    FAILURES,
    ExpectedContents,
    RestoreTestResult,
    judge_restore_test,
    read_counts,
    read_steps,
)
from dbops.engine.states import BackupMethod
from tests.engine import builders
from tests.fakes import ended, vanished

GIB = 1024**3
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WEEK = timedelta(days=7)


def archive(**changes: Any) -> Archive:
    given = Archive(
        run=7,
        uid="0123456789abcdef",
        method=BackupMethod.PHYSICAL,
        instance="backup-1",
        path="/backups/backup-1.xbstream.zst",
        bytes=4 * GIB,
        sha256="ab" * 32,
        flavor="mariadb",
        version="10.11.19",
        taken_at=NOW,
        data_bytes=20 * GIB,
    )
    return replace(given, **changes)


def plan(
    *, limits: RestoreTestLimits | None = None, host: dict[str, Any] | None = None, **changes: Any
) -> RestoreTestPlan:
    return plan_restore_test(
        "fedcba9876543210",
        archive(**changes),
        builders.host(12, **(host or {})),
        owner="mysql",
        limits=limits or RestoreTestLimits(),
        server=builders.server(12),
    )


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_scratch_server_is_isolated_and_small() -> None:
    words = plan().server
    for word in ("--skip-networking", "--skip-grant-tables", "--skip-slave-start", "--skip-log-bin"):
        assert word in words, word
    assert f"--innodb-buffer-pool-size={128 * 1024**2}" in words
    assert not any("defaults-file" in word or "port" in word for word in words)


def test_plan_uses_one_directory_beside_the_backup() -> None:
    made = plan()
    assert made.scratch == "/backups/.dbops-restore-test-fedcba9876543210"
    assert f"{made.scratch}/data" in made.unpack
    assert f"--target-dir={made.scratch}/data" in made.prepare


def test_plan_uses_the_configured_directory() -> None:
    assert (
        plan(limits=RestoreTestLimits(directory="/scratch/")).scratch == "/scratch/.dbops-restore-test-fedcba9876543210"
    )


def test_needed_bytes_follow_the_data_or_the_file() -> None:
    assert plan().needed_bytes == int(20 * GIB * 1.1) + 512 * 1024**2
    assert plan(data_bytes=None).needed_bytes == int(24 * GIB * 1.1) + 512 * 1024**2


def test_memory_stays_within_the_free_amount_and_the_limit() -> None:
    made = plan(host={"memory_available_bytes": 200 * GIB})
    assert made.needed_memory_bytes <= 4 * GIB + 256 * 1024**2
    assert made.most_memory_bytes > made.needed_memory_bytes


def test_plan_refuses_a_host_without_memory() -> None:
    with pytest.raises(Refused) as refused:
        plan(host={"memory_available_bytes": 200 * 1024**2})
    assert refused.value.code == "restore_test.memory"


def test_cores_never_exceed_the_host() -> None:
    assert plan(limits=RestoreTestLimits(cores=64)).cores == 8
    assert plan(limits=RestoreTestLimits(cores=1)).cores == 1


def test_plan_survives_json_and_counts_its_arguments() -> None:
    made = plan()
    assert from_record(RestoreTestPlan, to_record(made)) == made
    words = made.arguments()
    counts = [int(word) for word in words[19:23]]
    assert len(words) == 23 + sum(counts)
    assert words[23 : 23 + counts[0]] == list(made.unpack)


# --- the end of the job -----------------------------------------------------------------------------------------------

STEPS = "begin check 100.0\nend check 100.5 \nbegin unpack 100.5\nend unpack 102.5 4000\nbegin prepare 102.5\n"


def judged(state: JobState, counts: str = "", expected: ExpectedContents | None = None) -> RestoreTestResult:
    return judge_restore_test("backup-1", "/backups/x", state, counts, expected or ExpectedContents())


def good(**tails: str) -> JobState:
    return ended(0, tails={"facts": "checked=12\ntables=2\nrows=30\n", **tails})


def code_of(state: JobState, **words: Any) -> str:
    with pytest.raises(DbopsError) as failed:
        judged(state, **words)
    return failed.value.code


def test_steps_are_read_with_seconds_and_bytes() -> None:
    assert [(step["name"], step["state"], step["seconds"], step["bytes"]) for step in read_steps(STEPS)] == [
        ("check", "done", 0.5, None),
        ("unpack", "done", 2.0, 4000),
        ("prepare", "running", None, None),
    ]
    assert read_steps(STEPS + "fail prepare 110.0\n")[-1]["state"] == "failed"
    assert read_steps("end unpack x\n-\nbegin x 3\n") == []


def test_read_counts_unescapes_table_names() -> None:
    assert read_counts("shop\torders\t10\nshop\ta\\tb\t20\nbroken\n") == {("shop", "orders"): 10, ("shop", "a\tb"): 20}


def test_judge_returns_the_figures_of_a_good_end() -> None:
    restore_tested = judged(good(), "shop\torders\t10\nshop\tlines\t20\n")
    assert (restore_tested.checked, restore_tested.rows, restore_tested.warnings) == (12, 30, ())
    assert restore_tested.largest() == [["shop", "lines", 20], ["shop", "orders", 10]]


@pytest.mark.parametrize("kind", sorted(FAILURES))
def test_judge_has_a_code_for_each_failure(kind: str) -> None:
    assert code_of(ended(70, tails={"out": f"x\nFAILED: {kind} y"})) == f"restore_test.{kind}"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (vanished(), "restore_test.vanished"),
        (ended(65, tails={"out": "REFUSED: /b/x is not the backup of run 1"}), "restore_test.refused"),
        (ended(65, tails={"out": "REFUSED: space 3 MiB are free"}), "restore_test.space"),
        (ended(65, tails={"out": "REFUSED: memory 3 MiB are free"}), "restore_test.memory"),
        (ended(65, tails={"out": "REFUSED: tool zstd is not installed on this host."}), "restore_test.tool"),
        (ended(65, tails={"out": "REFUSED: transport The host cannot be reached"}), "restore_test.transport"),
        (ended(70, tails={"out": "FAILED: something_else entirely"}), "restore_test.failed"),
        (ended(70, tails={"out": "FAILED: tables bad\n./script: line 150: 7343 Killed"}), "restore_test.tables"),
        (ended(137), "restore_test.failed"),
        (ended(0), "restore_test.failed"),
    ],
)
def test_other_ends(state: JobState, code: str) -> None:
    assert code_of(state) == code


def test_judge_fails_when_an_older_table_is_missing() -> None:
    older = frozenset({("shop", "orders"), ("shop", "lines")})
    expected = ExpectedContents(older, older)
    assert code_of(good(), counts="shop\torders\t10\n", expected=expected) == "restore_test.tables"
    assert judged(good(), "shop\torders\t10\nshop\tlines\t0\n", expected).warnings == ()


def test_judge_warns_when_a_table_was_renamed() -> None:
    older = frozenset({("shop", "orders"), ("shop", "lines")})
    restore_tested = judged(good(), "shop\torders\t10\nshop\told_lines\t20\n", ExpectedContents(older, older))
    assert [text.split()[0] for text in restore_tested.warnings] == ["shop.lines"]


def test_rows_that_went_are_a_warning() -> None:
    last = {("shop", "orders"): 5000, ("shop", "small"): 10, ("shop", "gone"): 3, ("shop", "same"): 1000}
    restore_tested = judged(
        good(), "shop\torders\t2499\nshop\tsmall\t1\nshop\tsame\t500\n", ExpectedContents(last=last)
    )
    assert [text.split()[0] for text in restore_tested.warnings] == ["shop.gone", "shop.orders"]


def test_failure_says_what_is_left() -> None:
    with pytest.raises(RemoteFailure) as failed:
        judged(ended(70, tails={"out": "FAILED: damaged zstd: error"}))
    assert failed.value.cause == "zstd: error"
    assert failed.value.state


# --- which are due ----------------------------------------------------------------------------------------------------


def due(*, run: int = 5, last: LastRestoreTest | None = None) -> list[int]:
    return due_runs([RestoreTestCandidate(1, run, NOW)], {1: last} if last else {}, now=NOW, interval=WEEK)


@pytest.mark.parametrize(
    ("last", "is_due"),
    [
        (None, True),
        (LastRestoreTest(5, is_over=True, is_good=True, at=NOW - WEEK), True),
        (LastRestoreTest(4, is_over=True, is_good=True, at=NOW - WEEK + timedelta(hours=1)), False),
        (LastRestoreTest(4, is_over=True, is_good=False, at=NOW - timedelta(hours=1)), True),
        (LastRestoreTest(5, is_over=True, is_good=False, at=NOW - timedelta(hours=1)), False),
        (LastRestoreTest(5, is_over=False, is_good=False, at=NOW - 2 * WEEK), False),
        (
            LastRestoreTest(
                5, is_over=True, is_good=False, at=NOW - timedelta(minutes=61), code="restore_test.transport"
            ),
            True,
        ),
        (LastRestoreTest(5, is_over=True, is_good=False, at=NOW - timedelta(minutes=61), code="ssh.unreachable"), True),
        (
            LastRestoreTest(5, is_over=True, is_good=False, at=NOW - timedelta(minutes=59), code="ssh.unreachable"),
            False,
        ),
        (
            LastRestoreTest(
                4, is_over=True, is_good=False, at=NOW - timedelta(minutes=59), code="restore_test.no_host"
            ),
            False,
        ),
        (
            LastRestoreTest(
                5, is_over=True, is_good=False, at=NOW - timedelta(minutes=61), code="restore_test.damaged"
            ),
            False,
        ),
    ],
)
def test_due_follows_the_last_test(last: LastRestoreTest | None, is_due: bool) -> None:
    assert bool(due(last=last)) is is_due


def test_due_sorts_by_the_oldest_test() -> None:
    found = [RestoreTestCandidate(1, 9, NOW), RestoreTestCandidate(2, 3, NOW - timedelta(days=3))]
    assert due_runs(found, {}, now=NOW, interval=WEEK) == [3, 9]


@pytest.mark.parametrize(
    ("age", "state"),
    [
        (RestoreAge("b"), RestoreState.NEVER),
        (RestoreAge("b", tested_at=NOW - WEEK), RestoreState.TESTED),
        (RestoreAge("b", tested_at=NOW - 3 * WEEK), RestoreState.OLD),
        (RestoreAge("b", failed_at=NOW - WEEK), RestoreState.FAILED),
        (RestoreAge("b", tested_at=NOW - WEEK, failed_at=NOW), RestoreState.FAILED),
        (RestoreAge("b", tested_at=NOW, failed_at=NOW - WEEK), RestoreState.TESTED),
    ],
)
def test_age_has_a_state_for_each_source(age: RestoreAge, state: RestoreState) -> None:
    assert age.state(NOW, 2 * WEEK) is state


# --- on a chosen host -------------------------------------------------------------------------------------------------

ELSEWHERE = RemoteFile("backup-1", "db-12 0123", ("ssh", "--", "db-12"), "/var/lib/dbops")


def on_chosen(**host: Any) -> RestoreTestPlan:
    return plan_restore_test(
        "fedcba9876543210",
        archive(),
        builders.host(15, **host),
        owner="mysql",
        limits=RestoreTestLimits(),
        server=None,
        elsewhere=ELSEWHERE,
    )


def test_plan_on_a_chosen_host_fetches_the_file_into_its_directory() -> None:
    made = on_chosen()
    assert made.scratch == "/var/lib/dbops/.dbops-restore-test-fedcba9876543210"
    assert dict(made.commands)["unpack"].startswith("ssh -- db-12 backup | zstd -d ")
    assert made.arguments()[-3:] == list(ELSEWHERE.pull)
    assert from_record(RestoreTestPlan, to_record(made)) == made


@pytest.mark.parametrize(
    ("tools", "word"),
    [({}, "none of mariadb-backup"), ({"mariadb-backup": Tool("/usr/bin/mariadb-backup", "10.5.1")}, "10.5.1")],
)
def test_plan_needs_the_backup_tool_on_a_chosen_host(tools: dict[str, Tool], word: str) -> None:
    with pytest.raises(Refused) as refused:
        on_chosen(tools=tools)
    assert refused.value.code == "restore_test.tool"
    assert word in refused.value.cause
