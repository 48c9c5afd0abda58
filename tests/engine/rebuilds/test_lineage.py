"""Whose data an instance has: hand-made histories."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dbops.engine.rebuilds.lineage import CopyEvent, DataOrigin, ForeignData, lineage
from dbops.engine.states import Status

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return BEGIN + timedelta(days=number)


def act(number: int, target: str, source: str, start: float, **values: Any) -> CopyEvent:
    """Return a rebuild that succeeded within two hours; keywords change it."""
    given: dict[str, Any] = {
        "method": "xbstream",
        "status": Status.SUCCEEDED,
        "read_at": day(start) + timedelta(minutes=5),
        "finished_at": day(start) + timedelta(hours=2),
    }
    return CopyEvent(number, target, source, started_at=day(start), **(given | values))


def chain(instance: str, *acts: CopyEvent, at: float = 100) -> list[tuple[str, DataOrigin, int | None]]:
    found = lineage(instance, day(at), acts)
    return [(one.instance, one.known, one.copied_by.rebuild if one.copied_by else None) for one in found]


def test_lineage_follows_each_source_at_the_time_of_its_read() -> None:
    acts = (
        act(3, "backup-1", "replica-2", 1),
        act(12, "replica-1", "backup-1", 5),
        act(13, "backup-1", "replica-3", 9),  # after rebuild 12 had read it
        act(14, "replica-2", "replica-1", 20),  # after rebuild 3 had read it
    )
    assert chain("replica-1", *acts) == [
        ("replica-1", DataOrigin.COPIED, 12),
        ("backup-1", DataOrigin.COPIED, 3),
        ("replica-2", DataOrigin.NEVER_REBUILT, None),
    ]
    assert chain("backup-1", *acts)[0] == ("backup-1", DataOrigin.COPIED, 13)
    assert chain("primary-1", *acts) == [("primary-1", DataOrigin.NEVER_REBUILT, None)]


def test_two_that_were_copied_from_each_other_end_at_the_first() -> None:
    acts = [act(number, *(("a", "b"), ("b", "a"))[number % 2], number) for number in range(1, 6)]
    assert [number for _, _, number in chain("b", *acts)] == [5, 4, 3, 2, 1, None]


def test_lineage_joins_a_retry_with_its_first_copy() -> None:
    acts = (
        act(1, "replica-1", "backup-1", 1, status=Status.FAILED),
        act(2, "replica-1", "backup-1", 2, method="resume", follows=1, status=Status.FAILED),
        act(3, "replica-1", "backup-1", 3, method="resume", follows=2),
    )
    [first, *_] = lineage("replica-1", day(9), acts)
    assert first.copied_by is not None
    assert first.established_by is not None
    assert (first.copied_by.rebuild, first.established_by.rebuild) == (1, 3)
    assert chain("replica-1", *acts, at=2.5) == [("replica-1", DataOrigin.LEFT_UNDONE, None)]


def test_putting_back_undoes_all_since_the_rebuild_that_failed() -> None:
    acts = (
        act(1, "replica-1", "backup-1", 1),
        act(2, "replica-1", "backup-2", 5, status=Status.FAILED),
        act(3, "replica-1", "backup-2", 6, method="resume", follows=2, status=Status.FAILED),
        act(4, "replica-1", "backup-2", 7, method="rollback", follows=3),
    )
    assert chain("replica-1", *acts)[0] == ("replica-1", DataOrigin.COPIED, 1)
    assert chain("replica-1", *acts[1:])[0] == ("replica-1", DataOrigin.NEVER_REBUILT, None)
    undone = act(4, "replica-1", "backup-2", 7, method="rollback", follows=3, status=Status.FAILED)
    assert chain("replica-1", *acts[:3], undone)[0] == ("replica-1", DataOrigin.LEFT_UNDONE, None)
    is_back = act(4, "replica-1", "b", 7, method="rollback", follows=3, status=Status.FAILED, is_rolled_back=True)
    assert chain("replica-1", *acts[:3], is_back)[0] == ("replica-1", DataOrigin.COPIED, 1)


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"status": Status.FAILED}, DataOrigin.LEFT_UNDONE),
        ({"status": Status.CANCELLED, "has_touched": False}, DataOrigin.NEVER_REBUILT),
        ({"status": Status.FAILED, "is_verified": True}, DataOrigin.COPIED),
        ({"status": Status.RUNNING, "finished_at": None}, DataOrigin.BEING_REPLACED),
        ({"status": Status.LOST, "finished_at": None}, DataOrigin.BEING_REPLACED),
        ({"status": Status.RUNNING, "finished_at": None, "has_touched": False}, DataOrigin.NEVER_REBUILT),
    ],
)
def test_lineage_of_failed_rebuilds_is_unknown_or_left_undone(values: dict[str, Any], known: DataOrigin) -> None:
    assert chain("replica-1", act(1, "replica-1", "backup-1", 1, **values))[0][1] == known


def test_data_that_no_rebuild_made_ends_the_way_back() -> None:
    acts = (act(3, "backup-1", "replica-2", 1), act(12, "replica-1", "backup-1", 5))
    by_hand = ForeignData("backup-1", day(3), "other files")
    [mine, source] = lineage("replica-1", day(100), acts, [by_hand])
    assert (mine.known, source.known, source.found) == (DataOrigin.COPIED, DataOrigin.REPLACED_BY_HAND, by_hand)
    # found after it was read, or before it was rebuilt itself: what it gave is what the rebuild made
    for moment in (0.5, 20):
        assert (
            lineage("replica-1", day(100), acts, [ForeignData("backup-1", day(moment), "other files")])[1].copied_by
            == acts[0]
        )
    assert (
        lineage("replica-3", day(9), acts, [ForeignData("replica-3", day(8), "x")])[0].known
        is DataOrigin.REPLACED_BY_HAND
    )


def test_rollback_undoes_manual_restores_found_since() -> None:
    acts = (
        act(2, "replica-1", "backup-2", 5, status=Status.FAILED),
        act(3, "replica-1", "backup-2", 7, method="rollback", follows=2),
    )
    assert (
        lineage("replica-1", day(9), acts, [ForeignData("replica-1", day(6), "x")])[0].known is DataOrigin.NEVER_REBUILT
    )
    assert (
        lineage("replica-1", day(9), acts, [ForeignData("replica-1", day(4), "x")])[0].known
        is DataOrigin.REPLACED_BY_HAND
    )
