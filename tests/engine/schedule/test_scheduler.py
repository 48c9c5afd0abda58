"""The scheduler's decision: starts, reasons to wait, reservations."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.schedule.scheduler import (
    JobKind,
    Key,
    QueuedJob,
    decide,
    hold_reason,
    reservation_reason,
)

R, B = JobKind.REBUILD, JobKind.BACKUP
NOW = 1_000_000.0


def name_of(instance: int) -> str:
    return f"i{instance}"


def rebuild(pk: int, source: int, target: int, priority: int = 0, **more: Any) -> QueuedJob:
    return QueuedJob(R, pk, (-priority, f"{pk:05}", pk), (source, target), **more)


def backup(pk: int, instance: int, since: int | None = None, **more: Any) -> QueuedJob:
    return QueuedJob(B, pk, (0, f"{since if since is not None else pk:05}", pk), (instance,), **more)


def started(*jobs: QueuedJob, held: dict[int, str] | None = None) -> list[Key]:
    return [job.key for job in decide(jobs, held or {}, name_of).starts]


def test_decide_starts_the_first_in_the_queue_and_explains_the_rest() -> None:
    decision = decide([rebuild(2, 1, 12), rebuild(1, 1, 11), rebuild(3, 2, 13)], {}, name_of)
    assert [job.pk for job in decision.starts] == [1, 3]
    assert decision.reasons == {(R, 2): hold_reason("i1", R, 1, "source")}


@pytest.mark.parametrize("words", [hold_reason, reservation_reason])
def test_reason_names_instance_job_and_purpose(words: Callable[[str, JobKind, int, str], str]) -> None:
    rebuilt, backed_up = words("db-1", R, 41, "target"), words("db-1", B, 41, "backup")
    assert all(part in rebuilt for part in ("db-1", f"{R} 41", "target"))
    assert all(part in backed_up for part in ("db-1", f"{B} 41"))
    assert hold_reason("db-1", B, 41, "backup") != reservation_reason("db-1", B, 41, "backup")


def test_priority_passes_and_age_decides_among_equals() -> None:
    assert started(rebuild(1, 1, 11), rebuild(2, 1, 12, priority=5)) == [(R, 2)]


def test_decide_orders_a_backup_and_a_rebuild_by_age() -> None:
    older = decide([backup(7, 1, since=0), rebuild(1, 1, 11)], {}, name_of)
    assert [job.key for job in older.starts] == [(B, 7)]
    assert older.reasons == {(R, 1): hold_reason("i1", B, 7, "backup")}
    assert started(backup(7, 1, since=9), rebuild(1, 1, 11)) == [(R, 1)]


def test_decide_prefers_an_urgent_rebuild_to_a_waiting_backup() -> None:
    assert started(backup(7, 1, since=0), rebuild(1, 1, 11, priority=1)) == [(R, 1)]
    assert started(backup(7, 1, since=0), rebuild(1, 1, 11, priority=-1)) == [(B, 7)]


def test_decide_never_ends_a_running_job() -> None:
    held = {1: hold_reason("i1", B, 3, "backup")}
    decision = decide([rebuild(1, 1, 11, priority=99)], held, name_of)
    assert (decision.starts, decision.reasons) == ((), {(R, 1): hold_reason("i1", B, 3, "backup")})


def test_decide_ignores_a_job_with_an_unmet_condition() -> None:
    waits = rebuild(1, 1, 11, priority=9, unmet_conditions="not before 22:00")
    decision = decide([waits, rebuild(2, 1, 12)], {}, name_of)
    assert [job.pk for job in decision.starts] == [2]
    assert decision.reasons == {(R, 1): "not before 22:00"}


def test_decide_reserves_the_free_instance_for_a_waiting_job() -> None:
    decision = decide([rebuild(1, 1, 2), rebuild(2, 2, 3)], {1: "i1 is busy"}, name_of)
    assert decision.starts == ()
    assert decision.reasons[R, 2] == reservation_reason("i2", R, 1, "target")


def test_decide_reserves_for_a_job_that_just_failed_to_start() -> None:
    jobs = [backup(7, 1, since=0), rebuild(1, 1, 11)]
    decision = decide(jobs, {}, name_of, failed=[(B, 7)])
    assert decision.starts == ()
    assert decision.reasons == {(R, 1): reservation_reason("i1", B, 7, "backup")}


def test_decide_returns_only_new_reasons() -> None:
    held = {1: "i1 is busy"}
    found = rebuild(1, 1, 11, logged="i1 is busy")
    assert decide([found, rebuild(2, 1, 12)], held, name_of).reasons == {(R, 2): "i1 is busy"}


def test_decide_looks_up_names_only_for_reasons() -> None:
    def never(instance: int) -> str:
        raise AssertionError(instance)

    decide([rebuild(1, 1, 11), rebuild(2, 2, 12)], {2: "i2 is busy"}, never)


jobs_of_a_fleet = st.lists(
    st.tuples(st.booleans(), st.integers(1, 5), st.integers(6, 14), st.integers(-1, 2), st.booleans()), max_size=25
)


@given(jobs_of_a_fleet, st.sets(st.integers(1, 14)))
def test_decide_never_starts_on_a_lock_and_explains_every_wait(queue: list[Any], held: set[int]) -> None:
    jobs = [
        backup(pk, source)
        if is_backup
        else rebuild(pk, source, target, priority, unmet_conditions="not before 22:00" if is_waiting else "")
        for pk, (is_backup, source, target, priority, is_waiting) in enumerate(queue)
    ]
    decision = decide(jobs, dict.fromkeys(held, "somebody"), name_of)
    claimed = [instance for job in decision.starts for instance in job.claims]
    assert len(claimed) == len(set(claimed))
    assert not held & set(claimed)
    assert {job.key for job in decision.starts} | set(decision.reasons) == {job.key for job in jobs}
    assert all(decision.reasons.values())
    free = [job for job in jobs if not job.unmet_conditions and not held & set(job.claims)]
    assert bool(decision.starts) == any(_is_first(job, jobs) for job in free)


def _is_first(job: QueuedJob, jobs: list[QueuedJob]) -> bool:
    mine = set(job.claims)
    rivals = [other for other in jobs if not other.unmet_conditions and mine & set(other.claims)]
    return min(rivals, key=lambda other: other.order) is job


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_any_number_is_decided_on(count: int) -> None:
    assert len(decide([rebuild(pk, pk % 7, 100 + pk) for pk in range(count)], {}, name_of).starts) == min(count, 7)
