"""What is removed after a success: nothing but older files of the schedule that carry their run's name, and never the newest."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.backups.retention import StoredBackup, spared, to_remove

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def kept(pk: int, days: float, path: str | None = None, *, is_restore_tested: bool = False) -> StoredBackup:
    path = f"/b/x-run{pk:013}.gz" if path is None else path
    return StoredBackup(pk, f"run{pk:013}", NOW - timedelta(days=days), path, is_restore_tested)


def restore_tested(pk: int, days: float) -> StoredBackup:
    return kept(pk, days, is_restore_tested=True)


def removed(*runs: StoredBackup, count: int | None = 7, days: int | None = None) -> list[int]:
    return [run.pk for run, _ in to_remove(runs, keep_count=count, keep_days=days, now=NOW)]


def test_to_remove_keeps_the_newest_by_count() -> None:
    assert removed(kept(1, 3), kept(2, 2), kept(3, 1), kept(4, 0), count=2) == [1, 2]


def test_to_remove_applies_the_age_but_keeps_the_newest() -> None:
    assert removed(kept(1, 40), kept(2, 30), kept(3, 1), days=14) == [1, 2]
    assert removed(kept(1, 40), days=14) == []


def test_to_remove_is_empty_without_limits() -> None:
    assert removed(*(kept(pk, pk) for pk in range(30)), count=None) == []


#: Backups 1 (oldest, 40 days) to 4 (newest, 1 day). Each row: count, days, restore-tested, what is removed.
@pytest.mark.parametrize(
    ("count", "days", "tested", "gone"),
    [
        (None, None, (), []),
        (2, None, (), [1, 2]),
        (9, None, (), []),
        (None, 14, (), [1, 2]),
        (9, 14, (), [1, 2]),  # age removes what the number would keep
        (1, 90, (), [1, 2, 3]),  # the number removes what the age would keep
        (1, 14, (), [1, 2, 3]),
        (1, 1, (), [1, 2, 3]),  # the newest one stays
        (1, 1, (1,), [2, 3]),  # the newest restore-tested one stays
        (1, 1, (1, 2), [1, 3]),
        (1, 1, (2, 4), [1, 2, 3]),
        (2, 14, (1,), [2]),
    ],
)
def test_to_remove_applies_both_limits(
    count: int | None, days: int | None, tested: tuple[int], gone: list[int]
) -> None:
    ages = {1: 40, 2: 30, 3: 5, 4: 2}
    runs = [kept(pk, age, is_restore_tested=pk in tested) for pk, age in ages.items()]
    assert removed(*runs, count=count, days=days) == gone


def test_to_remove_skips_paths_without_a_run_id() -> None:
    assert (
        removed(kept(1, 3, "/b/other.gz"), kept(2, 2, ""), kept(3, 1, "relative-run0000000000003"), kept(4, 0), count=1)
        == []
    )


def test_to_remove_keeps_the_newest_tested_backup() -> None:
    assert removed(restore_tested(1, 1), kept(2, 0), count=1) == []
    assert removed(restore_tested(1, 2), kept(2, 1), kept(3, 0), count=1) == [2]
    assert removed(restore_tested(1, 2), restore_tested(2, 1), kept(3, 0), count=1) == [1]
    assert removed(restore_tested(1, 2), kept(2, 1), restore_tested(3, 0), count=1) == [1, 2]


def test_to_remove_keeps_the_newest_tested_backup_at_any_age() -> None:
    assert removed(restore_tested(1, 400), kept(2, 30), kept(3, 1), days=14) == [2]
    assert removed(restore_tested(1, 400), restore_tested(2, 30), kept(3, 1), days=14) == [1]


def test_to_remove_keeps_no_extra_backup_when_the_tested_one_is_kept() -> None:
    assert removed(kept(1, 3), kept(2, 2), restore_tested(3, 1), kept(4, 0), count=2) == [1, 2]


def test_spared_returns_the_backup_kept_by_its_test_alone() -> None:
    limits = {"keep_count": 1, "keep_days": None, "now": NOW}
    assert spared([restore_tested(1, 1), kept(2, 0)], **limits) == restore_tested(1, 1)
    assert spared([kept(1, 1), restore_tested(2, 0)], **limits) is None
    assert spared([kept(1, 1), kept(2, 0)], **limits) is None


@given(
    st.lists(st.tuples(st.floats(0, 400), st.booleans()), max_size=20),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(0, 90),
)
def test_to_remove_keeps_the_newest_and_gives_reasons(
    ages: list[tuple[float, bool]], count: int | None, days: int | None
) -> None:
    runs = [kept(pk, age, is_restore_tested=is_restore_tested) for pk, (age, is_restore_tested) in enumerate(ages)]
    found = to_remove(runs, keep_count=count, keep_days=days, now=NOW)
    assert all(why for _, why in found)
    gone = {run.pk for run, _ in found}
    left = [run for run in runs if run.pk not in gone]
    assert bool(left) == bool(runs)
    newest_first = sorted(runs, key=lambda run: (run.taken_at, run.pk), reverse=True)
    good = [run for run in newest_first if run.is_restore_tested]
    assert not gone & {run.pk for run in (*newest_first[:1], *good[:1])}
    if count:
        assert len(left) <= count + bool(good)
