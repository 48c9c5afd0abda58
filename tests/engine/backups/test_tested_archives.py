"""Which finished backup is read when some have a restore test, and what the plan says of it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dbops.engine.backups.archives import newest
from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.plan_diff import ShownPlan, changes
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight.live_check import differences
from dbops.engine.rebuilds.steps.preflight.resume_check import differences_for_resume
from dbops.engine.states import BackupMethod, Severity
from tests.engine.builders import NOW
from tests.engine.by_name import build_plan, compare

from .test_archives import archive, refused, world

OLD, NEW = archive(7, taken_at=NOW - timedelta(hours=34)), archive(8)


def restore_test(run: int, code: str = "", *, found: str = "bad lines of CHECK TABLE: 2") -> RestoreTestEnd:
    """Return a restore test, which succeeded if there is no code."""
    return RestoreTestEnd(run, not code, NOW - timedelta(hours=2), code, found if code else "")


def restore_tested(*restore_tests: RestoreTestEnd, source_answers: bool = True) -> PlanInputs:
    """Return a cluster whose source has two backups, 7 and the newer 8."""
    there = world(OLD, NEW, source_answers=source_answers)
    return replace(there, restore_tests={end.run: end for end in restore_tests})


def finding(plan: Plan, code: str) -> tuple[Severity, str]:
    [one] = [one for one in plan.findings if one.code == code]
    return one.severity, one.seen


@pytest.mark.parametrize(
    ("restore_tests", "read"),
    [
        pytest.param([], 8, id="nothing is known"),
        pytest.param([restore_test(8)], 8, id="the newest is tested"),
        pytest.param([restore_test(7)], 8, id="an older one is tested, and nothing speaks against the newest"),
        pytest.param([restore_test(8, "restore_test.damaged")], 7, id="the newest is bad"),
        pytest.param([restore_test(7, "restore_test.tables")], 8, id="the older one is bad"),
        pytest.param([restore_test(8, "restore_test.start")], 7, id="the newest is in doubt"),
        pytest.param(
            [restore_test(7, "restore_test.tables"), restore_test(8, "restore_test.start")],
            8,
            id="a doubt is better than a bad one",
        ),
        pytest.param(
            [restore_test(7, "restore_test.start"), restore_test(8, "restore_test.start")], 8, id="all are in doubt"
        ),
        pytest.param(
            [restore_test(7, "restore_test.tables"), restore_test(8, "restore_test.tables")],
            8,
            id="all are bad: the newest is named",
        ),
    ],
)
def test_newest_skips_backups_that_failed_their_test(restore_tests: list[RestoreTestEnd], read: int) -> None:
    said = {end.run: end for end in restore_tests}
    found = newest((OLD, NEW), instance="backup-1", method=BackupMethod.PHYSICAL, restore_tests=said)
    assert found is not None
    assert found.run == read


def test_archive_plan_skips_a_bad_backup_and_says_so() -> None:
    plan = build_plan(restore_tested(restore_test(8, "restore_test.tables")), "archive")
    assert plan.archive == OLD
    assert plan.refusals == ()
    severity, seen = finding(plan, "archive.passed_over")
    assert severity is Severity.WARNING
    assert all(
        word in seen for word in ("run 8", "run 7", restore_test(8, "restore_test.tables").found, "restore_test.tables")
    )
    assert finding(plan, "archive.restore_test")[0] is Severity.OK


def test_archive_plan_counts_skipped_backups() -> None:
    between = archive(9, taken_at=NOW - timedelta(hours=20))
    there = replace(
        world(OLD, NEW, between), restore_tests={run: restore_test(run, "restore_test.prepare") for run in (8, 9)}
    )
    plan = build_plan(there, "archive")
    assert plan.archive == OLD
    alone = build_plan(restore_tested(restore_test(8, "restore_test.prepare")), "archive")
    one, two = (finding(found, "archive.passed_over")[1] for found in (alone, plan))
    assert "1 more" in two
    assert "1 more" not in one


def test_archive_plan_shows_the_restore_test() -> None:
    severity, seen = finding(build_plan(restore_tested(restore_test(8)), "archive"), "archive.restore_test")
    assert severity is Severity.OK
    assert "run 8" in seen
    assert f"{NOW - timedelta(hours=2):%Y-%m-%d}" in seen
    severity, seen = finding(build_plan(restore_tested(), "archive"), "archive.restore_test")
    assert severity is Severity.OK
    assert "run 8" in seen
    assert f"{NOW:%Y-}" not in seen
    doubted = build_plan(
        restore_tested(restore_test(7, "restore_test.start"), restore_test(8, "restore_test.start")), "archive"
    )
    assert finding(doubted, "archive.restore_test")[0] is Severity.WARNING
    assert doubted.refusals == ()


@pytest.mark.parametrize("source_answers", [True, False])
def test_archive_plan_is_refused_when_every_backup_is_bad(source_answers: bool) -> None:
    there = restore_tested(
        restore_test(7, "restore_test.damaged"), restore_test(8, "restore_test.tables"), source_answers=source_answers
    )
    plan = build_plan(there, "archive")
    assert refused(plan) == {"archive.restore_test"}
    seen = finding(plan, "archive.restore_test")[1]
    assert all(
        word in seen for word in ("run 8", f"{NOW - timedelta(hours=2):%Y-%m-%d}", "(restore_test.tables)", "(1)")
    )
    [refusal] = plan.refusals
    assert "backup-1" in refusal.advice
    assert compare(there)[2].why_not == (seen,)


def test_dump_plan_ignores_restore_tests() -> None:
    dump = archive(9, method=BackupMethod.DUMP, path="/backups/backup-1-dump-9.sql.gz")
    plan = build_plan(replace(world(OLD, NEW, dump), restore_tests={8: restore_test(8, "restore_test.tables")}), "dump")
    assert plan.archive == dump
    assert not {one.code for one in plan.findings} & {"archive.restore_test", "archive.passed_over"}


# Between the page and the start


def test_archive_fingerprint_changes_when_a_test_fails() -> None:
    shown, now = (
        build_plan(restore_tested(), "archive"),
        build_plan(restore_tested(restore_test(8, "restore_test.damaged")), "archive"),
    )
    assert shown.fingerprint != now.fingerprint
    found = [change for change in changes(ShownPlan(shown), ShownPlan(now)) if change.counts]
    assert {change.key for change in found} >= {"archive", "finding.archive.passed_over"}
    assert build_plan(restore_tested(restore_test(8)), "archive").fingerprint == shown.fingerprint, (
        "good news are no reason to ask again"
    )


@pytest.mark.parametrize("code", ["restore_test.damaged", "restore_test.start"])
def test_differences_include_a_test_that_failed_after_the_plan(code: str) -> None:
    """The live check reads the backup of the plan and no other (``worker.prober.replan``)."""
    shown = build_plan(restore_tested(), "archive")
    live = build_plan(replace(restore_tested(restore_test(8, code)), archives=(NEW,)), "archive")
    assert len(differences(shown, live)) == 1
    assert "run 8" in differences(shown, live)[0]
    assert code in differences(shown, live)[0]
    assert differences(shown, build_plan(replace(restore_tested(restore_test(8)), archives=(NEW,)), "archive")) == []


def test_differences_keep_a_doubt_beside_a_skipped_backup() -> None:
    shown = build_plan(restore_tested(restore_test(8, "restore_test.damaged")), "archive")
    both = restore_tested(restore_test(7, "restore_test.start"), restore_test(8, "restore_test.damaged"))
    assert len(differences(shown, build_plan(replace(both, archives=(OLD,)), "archive"))) == 1
    alone = replace(restore_tested(restore_test(8, "restore_test.damaged")), archives=(OLD,))
    assert differences(shown, build_plan(alone, "archive")) == []


def test_differences_for_resume_include_a_bad_backup() -> None:
    shown = build_plan(restore_tested(), "archive")
    live = build_plan(replace(restore_tested(restore_test(8, "restore_test.tables")), archives=(NEW,)), "archive")
    assert len(differences_for_resume(shown, live)) == 1


def test_archive_codes_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "checks.md").read_text()
    assert "`archive.restore_test`" in text
    assert "`archive.passed_over`" in text
