"""Blockers and eligibility over a table of cases."""

from datetime import timedelta
from typing import Any

import pytest

from dbops.engine.methods import METHODS, conflict_table
from dbops.engine.schedule.backup_windows import Duration, Prediction
from dbops.engine.schedule.blocker import Blocker, BlockerKind, Certainty, Remedy, Timing
from dbops.engine.schedule.conflicts import Activity, Effect
from dbops.engine.schedule.snapshot import ClusterSnapshot, InstanceUse, MaintenanceWindow, TopologyMismatch
from dbops.engine.states import BackupMethod, RunBy
from tests.engine.by_name import blockers
from tests.engine.snapshots import NOW, backup, hours, machines, queued, rebuild, snapshot, window


def only(seen: ClusterSnapshot, **asked: Any) -> Blocker:
    (found,) = blockers(seen, **{"target": "replica-1", "source": "backup-1", **asked})
    return found


CASES: list[tuple[str, dict[str, Any], BlockerKind, Effect, Certainty, float | None, float | None]] = [
    # what is there, kind, effect, certainty, hours until the likely and the late end
    ("managed dump", {"jobs": (backup(),)}, BlockerKind.BACKUP_RUNNING, Effect.WAITS, Certainty.PREDICTED, 1, 3),
    (
        "external dump",
        {"jobs": (backup(is_managed=False, can_be_stopped=False),)},
        BlockerKind.BACKUP_RUNNING,
        Effect.WAITS,
        Certainty.PREDICTED,
        1,
        3,
    ),
    (
        "dump that never ended before",
        {"jobs": (backup(duration=None),)},
        BlockerKind.BACKUP_RUNNING,
        Effect.WAITS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "dump longer than ever",
        {"jobs": (backup(started_at=hours(-9)),)},
        BlockerKind.BACKUP_RUNNING,
        Effect.WAITS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "dump on a silent host",
        {"jobs": (backup(is_lost=True),)},
        BlockerKind.BACKUP_RUNNING,
        Effect.WAITS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    ("rebuild reads source", {"jobs": (rebuild(),)}, BlockerKind.HELD, Effect.WAITS, Certainty.PREDICTED, 1.5, 2),
    (
        "rebuild replaces source",
        {"jobs": (rebuild("backup-1", "replica-2"),)},
        BlockerKind.HELD,
        Effect.WAITS,
        Certainty.PREDICTED,
        1.5,
        2,
    ),
    ("rebuild in the queue", {"jobs": (queued(),)}, BlockerKind.HELD, Effect.WAITS, Certainty.PREDICTED, 2.5, 3),
    (
        "backup of the target",
        {"jobs": (backup("replica-1"),)},
        BlockerKind.TARGET_BUSY,
        Effect.WAITS,
        Certainty.PREDICTED,
        1,
        3,
    ),
    (
        "rebuild reads target",
        {"jobs": (rebuild(source="replica-1"),)},
        BlockerKind.TARGET_BUSY,
        Effect.WAITS,
        Certainty.PREDICTED,
        1.5,
        2,
    ),
    (
        "rebuild of the target",
        {"jobs": (rebuild("replica-1", "replica-2"),)},
        BlockerKind.TARGET_BUSY,
        Effect.BLOCKS,
        Certainty.PREDICTED,
        1.5,
        2,
    ),
    (
        "source down",
        {"machines": machines(problem="down")},
        BlockerKind.SOURCE_DOWN,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "source stopped",
        {"machines": machines(stopped="error 1062")},
        BlockerKind.SOURCE_LAGGING,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "source lags",
        {"machines": machines(lag_seconds=61)},
        BlockerKind.SOURCE_LAGGING,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "lag unknown",
        {"machines": machines(lag_seconds=None)},
        BlockerKind.SOURCE_LAGGING,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "maintenance",
        {"stops": (MaintenanceWindow(hours(-1), hours(4), "new disks", "olga"),)},
        BlockerKind.MAINTENANCE,
        Effect.BLOCKS,
        Certainty.KNOWN,
        4,
        4,
    ),
    (
        "maintenance without end",
        {"stops": (MaintenanceWindow(hours(-1), None, "new disks"),)},
        BlockerKind.MAINTENANCE,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "maintenance ahead",
        {"stops": (MaintenanceWindow(hours(2), hours(4), "new disks"),)},
        BlockerKind.MAINTENANCE,
        Effect.RUNS_ALONGSIDE,
        Certainty.KNOWN,
        4,
        4,
    ),
    (
        "topology",
        {"difference": TopologyMismatch("The primary is now replica-2.", hours(-2))},
        BlockerKind.TOPOLOGY,
        Effect.BLOCKS,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "managed window ahead",
        {"windows": (window(),)},
        BlockerKind.WINDOW_AHEAD,
        Effect.RUNS_ALONGSIDE,
        Certainty.PREDICTED,
        3,
        5,
    ),
    (
        "external window ahead",
        {"windows": (window(run_by=RunBy.EXTERNAL),)},
        BlockerKind.WINDOW_AHEAD,
        Effect.RUNS_ALONGSIDE,
        Certainty.PREDICTED,
        3,
        5,
    ),
    (
        "window of unknown length",
        {"windows": (window(duration=None),)},
        BlockerKind.WINDOW_AHEAD,
        Effect.RUNS_ALONGSIDE,
        Certainty.UNKNOWN,
        None,
        None,
    ),
    (
        "window of the target",
        {"windows": (window(instance="replica-1"),)},
        BlockerKind.WINDOW_AHEAD,
        Effect.RUNS_ALONGSIDE,
        Certainty.PREDICTED,
        3,
        5,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_blockers_describe_each_single_case(case: Any) -> None:
    _, there, kind, effect, certainty, likely, late = case
    found = only(snapshot(**there))
    assert (found.kind, found.effect, found.certainty) == (kind, effect, certainty)
    assert found.until.p50 == (None if likely is None else hours(likely))
    assert found.until.p90 == (None if late is None else hours(late))
    assert found.text.endswith(".")
    assert found.clears
    assert found.reason == conflict_table()[found.work]["xbstream"].reason


FREE: list[tuple[str, dict[str, Any]]] = [
    ("nothing", {}),
    ("a dump of another instance", {"jobs": (backup("replica-2"),)}),
    ("a rebuild between two others", {"jobs": (rebuild("replica-2", "replica-3"),)}),
    ("maintenance that is over", {"stops": (MaintenanceWindow(hours(-5), NOW, "over"),)}),
    ("maintenance after the end", {"stops": (MaintenanceWindow(hours(3), hours(4), "later"),)}),
    ("a window after the late end", {"windows": (window(3.1),)}),
    ("a window that is due by now", {"windows": (window(0),)}),
    ("lag within the limit", {"machines": machines(lag_seconds=60)}),
    ("a rebuild that is to start after this one", {"jobs": (queued(not_before=hours(8)),)}),
]


@pytest.mark.parametrize("case", FREE, ids=lambda case: case[0])
def test_blockers_are_empty_when_nothing_blocks(case: Any) -> None:
    assert blockers(snapshot(**case[1]), target="replica-1", source="backup-1") == ()


def test_window_is_due_when_rebuild_likely_ends_after_it_and_due_if_late_when_only_its_p90_does() -> None:
    found = only(snapshot(windows=(window(1.0, run_by=RunBy.EXTERNAL),)))
    assert (found.timing, found.work, found.instance) == (Timing.DUE, Activity.AHEAD_EXTERNAL, "backup-1")
    assert "nightly" in found.text
    assert only(snapshot(windows=(window(2.8),))).timing is Timing.DUE_IF_LATE


def test_blockers_include_an_unseen_external_window_as_alongside() -> None:
    due = window(-0.5, run_by=RunBy.EXTERNAL)
    found = only(snapshot(unseen=(due,)))
    assert (found.work, found.effect) == (Activity.AHEAD_EXTERNAL, Effect.RUNS_ALONGSIDE)
    assert (found.timing, found.instance, found.remedy) == (Timing.UNSEEN, "backup-1", Remedy.CHANGE_CRON)
    assert "nightly" in found.text
    assert (found.since, found.until.p50, found.until.p90) == (hours(-0.5), hours(2), hours(4))
    assert only(snapshot(unseen=(due,)), moment=hours(1.9)) is not None
    assert blockers(snapshot(unseen=(due,)), target="replica-1", source="backup-1", moment=hours(2.1)) == ()
    assert blockers(snapshot(unseen=(due,)), target="replica-1", source="replica-2") == ()
    short = window(-0.5, run_by=RunBy.EXTERNAL, duration=Duration(60, 60, 3))
    assert only(snapshot(unseen=(short,))).until.p50 == hours(0) + timedelta(seconds=60)
    assert only(snapshot(unseen=(due,)), target="backup-1", source="replica-2").work is Activity.AHEAD_TARGET


def test_blockers_include_windows_within_a_day_without_prediction() -> None:
    unknown = Prediction(None, "unknown")
    assert only(snapshot(prediction=unknown, windows=(window(20),))).timing is Timing.DUE_OR_NOT
    assert blockers(snapshot(prediction=unknown, windows=(window(25),)), source="backup-1") == ()


def test_blockers_of_a_frequent_schedule_are_its_last_window_and_its_next() -> None:
    seen = snapshot(
        windows=tuple(window(number / 10) for number in range(1, 200))
    )  # each lasts longer than to the next
    running, ahead = blockers(seen, source="backup-1", moment=hours(5.05))
    assert {running.timing: running.since, ahead.timing: ahead.since} == {
        Timing.EXPECTED: hours(5),
        Timing.DUE: hours(5.1),
    }


def test_blockers_at_a_later_moment_include_the_window_only() -> None:
    seen = snapshot(jobs=(backup(),), windows=(window(2, schedule="weekly"),))
    found = only(seen, moment=hours(2.5))
    assert (found.kind, found.timing, found.instance) == (BlockerKind.BACKUP_RUNNING, Timing.EXPECTED, "backup-1")
    assert "weekly" in found.text
    assert [item.kind for item in blockers(seen, source="backup-1", moment=hours(5))] == []


@pytest.mark.parametrize("method", ["archive", "dump"])
def test_blockers_of_archive_methods_run_alongside_a_stream(method: str) -> None:
    there = machines(has_dump=True, has_archive=True)
    assert only(snapshot(jobs=(rebuild(),), machines=there), method=method).effect is Effect.RUNS_ALONGSIDE


def test_blockers_of_dump_need_a_complete_dump() -> None:
    assert only(snapshot(), method="dump").kind is BlockerKind.NO_COPY
    external = backup(is_managed=False)
    found = only(snapshot(jobs=(external,), machines=machines(has_dump=True)), method="dump")
    assert (found.work, found.effect) == (Activity.SOURCE_DUMP_EXTERNAL, Effect.WAITS)


REMEDIES: list[tuple[dict[str, Any], Remedy]] = [
    ({"jobs": (rebuild(),)}, Remedy.CANCEL_REBUILD),
    ({"jobs": (backup(),)}, Remedy.STOP_RUN),
    ({"jobs": (backup(is_managed=False, can_be_stopped=False),)}, Remedy.ASK_OWNER),
    ({"windows": (window(),)}, Remedy.CHANGE_SCHEDULE),
    ({"windows": (window(run_by=RunBy.EXTERNAL),)}, Remedy.CHANGE_CRON),
    ({"machines": machines(problem="down")}, Remedy.FIX_SERVER),
    ({"machines": machines(stopped="error 1062")}, Remedy.FIX_SERVER),
    ({"machines": machines(lag_seconds=61)}, Remedy.CATCH_UP),
    ({"stops": (MaintenanceWindow(hours(-1), None, "disks"),)}, Remedy.END_MAINTENANCE),
    ({"difference": TopologyMismatch("The primary is now replica-2.", hours(-2))}, Remedy.FIX_INVENTORY),
]


@pytest.mark.parametrize(
    ("there", "remedy"), REMEDIES, ids=lambda value: str(value) if isinstance(value, Remedy) else ""
)
def test_blocker_names_what_clears_it(there: dict[str, Any], remedy: Remedy) -> None:
    assert only(snapshot(**there)).remedy is remedy


def test_blockers_are_sorted_by_severity() -> None:
    seen = snapshot(machines=machines(problem="down"), jobs=(backup(),), windows=(window(),))
    found = blockers(seen, source="backup-1")
    assert [item.effect for item in found] == [Effect.BLOCKS, Effect.WAITS, Effect.RUNS_ALONGSIDE]


# The table


def test_conflicts_have_a_cell_for_every_method() -> None:
    assert set(conflict_table()) == set(Activity)
    for work, cells in conflict_table().items():
        wanted = set(METHODS)
        if work is Activity.NO_COPY:
            wanted = {name for name in METHODS if METHODS[name].reads.backup}
        assert set(cells) == wanted, work
        assert all(cell.reason.endswith(".") for cell in cells.values())


def test_conflicts_with_the_same_lock_never_run_alongside() -> None:
    """A managed backup and a rebuild hold the source: the table may not promise what the holds refuse."""
    held = (
        Activity.SOURCE_DUMP_MANAGED,
        Activity.SOURCE_PHYSICAL_MANAGED,
        Activity.SOURCE_READ,
        Activity.SOURCE_REPLACED,
    )
    assert all(conflict_table()[work]["xbstream"].effect is not Effect.RUNS_ALONGSIDE for work in held)
    assert all(
        conflict_table()[work][method].effect is not Effect.RUNS_ALONGSIDE
        for work in (Activity.TARGET_BACKUP, Activity.TARGET_READ, Activity.TARGET_REPLACED)
        for method in METHODS
    )


def test_blockers_use_the_row_of_physical_backups() -> None:
    physical = backup(claims=(("backup-1", InstanceUse.PHYSICAL),))
    assert only(snapshot(jobs=(physical,))).work is Activity.SOURCE_PHYSICAL_MANAGED
    window_of_it = window(1, method=BackupMethod.PHYSICAL, run_by=RunBy.EXTERNAL)
    assert only(snapshot(windows=(window_of_it,)), moment=hours(2)).work is Activity.SOURCE_PHYSICAL_EXTERNAL
