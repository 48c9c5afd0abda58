"""Step estimates from past rebuilds: own cluster first, then others; by bytes, age or seconds."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dbops.engine.methods import METHODS
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.method_comparison import MethodComparison
from dbops.engine.planning.step_estimates import DoneStep, PastRebuild, StepHistory, history_of
from dbops.engine.rebuilds.plan import Plan
from tests.engine.backups.test_archives import archive, world
from tests.engine.builders import GIB, NOW, inputs, source_with
from tests.engine.by_name import build_plan, compare

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def past(method: str, *, began: datetime = NOW - 9 * DAY, **changes: Any) -> PastRebuild:
    """Return a rebuild each of whose steps took 10 s, the copy 100 s for 1 GiB."""
    at, steps = began, []
    for step in METHODS[method].steps:
        ended = at + timedelta(seconds=100 if step.name == "stream" else 10)
        steps.append(DoneStep(step.name, at, ended))
        at = ended
    return PastRebuild(tuple(steps), **{"bytes": GIB, **changes})


def lasting(rebuild: PastRebuild, name: str, seconds: float) -> PastRebuild:
    """Return the same with one step that took so long; what comes after it is left where it was."""
    steps = (
        replace(step, ended=step.began + timedelta(seconds=seconds)) if step.name == name else step
        for step in rebuild.steps
    )
    return replace(rebuild, steps=tuple(steps))


def of(there: PlanInputs, method: str) -> MethodComparison:
    return next(one for one in compare(there) if one.method == method)


def seconds(plan: Plan) -> dict[str, float | None]:
    return {step.name: step.predicted_seconds for step in plan.steps}


# Whose rebuilds


def test_estimate_is_none_without_a_rebuild_by_the_method() -> None:
    found = of(replace(world(archive()), fleet={"xbstream": history_of([past("xbstream")])}), "archive")
    assert (found.predicted_seconds, found.rests_on, found.catch_up_seconds) == (None, "", None)


def test_estimate_uses_rates_of_other_clusters_when_missing() -> None:
    """4 GiB at 1 GiB in 100 s (prepare and own: in 10 s); what does not follow the bytes takes its median."""
    taken = NOW - 10 * HOUR
    began = NOW - 9 * DAY
    others = history_of(
        [past("archive", began=began - DAY * number, taken_at=began - DAY * number - HOUR) for number in range(3)]
    )
    there = replace(world(archive(taken_at=taken)), fleet={"archive": others})
    plan = build_plan(there, "archive")
    assert seconds(plan)["stream"] == pytest.approx(400.0)
    assert seconds(plan)["prepare"] == pytest.approx(40.0)
    assert seconds(plan)["verify"] == 10.0
    assert {step.is_of_others for step in plan.steps} == {True}
    found = of(there, "archive")
    assert re.findall(r"\d+", found.rests_on) == ["3"]
    assert found.predicted_seconds == pytest.approx(sum(value or 0 for value in seconds(plan).values()))


def test_estimate_prefers_own_rebuilds() -> None:
    slow = lasting(past("xbstream", bytes=10 * GIB), "start", 500.0)
    there = inputs(
        histories={"xbstream": history_of([past("xbstream", bytes=10 * GIB)])}, fleet={"xbstream": history_of([slow])}
    )
    plan = build_plan(there)
    assert seconds(plan)["start"] == 10.0
    assert {step.is_of_others for step in plan.steps} == {False}
    assert re.findall(r"\d+", of(there, "xbstream").rests_on) == ["1"]


def test_estimate_uses_others_for_steps_missing_in_own_rebuilds() -> None:
    retried = past("xbstream", is_retry=True)
    retried = replace(retried, steps=tuple(step for step in retried.steps if step.name in ("start", "verify")))
    there = inputs(
        histories={"xbstream": history_of([retried])}, fleet={"xbstream": history_of([past("xbstream")] * 2)}
    )
    steps = {step.name: step.is_of_others for step in build_plan(there).steps}
    assert (steps["start"], steps["stream"]) == (False, True)
    assert re.findall(r"\d+", of(there, "xbstream").rests_on) == ["1", "2"]


def test_estimate_ignores_copies_of_unknown_size_elsewhere() -> None:
    nameless = history_of([past("xbstream", bytes=None)])
    assert seconds(build_plan(inputs(fleet={"xbstream": nameless})))["stream"] is None
    assert seconds(build_plan(inputs(histories={"xbstream": nameless})))["stream"] == 100.0


def test_limits_are_not_judged_by_the_machines_of_others() -> None:
    """Whether the redo log holds until the copy is read: a fast cluster elsewhere must not make a slow one look safe."""
    fast = replace(inputs(), fleet={"xbstream": history_of([past("xbstream", bytes=1000 * GIB)])})
    assert fast.by(METHODS["xbstream"]).cautious_copy_seconds == inputs().cautious_copy_seconds


# The age of the data


def test_estimate_of_catch_up_grows_with_the_age_of_the_backup() -> None:
    """Ten minutes for data that was 100 minutes old: a tenth of its age."""
    began = NOW - 9 * DAY
    one = lasting(past("archive", began=began), "catch-up", 600.0)
    rolled = next(step for step in one.steps if step.name == "catch-up")
    one = replace(one, taken_at=rolled.began - timedelta(seconds=6000))
    known = {"archive": history_of([one])}
    assert known["archive"].seconds_per_age == (pytest.approx(0.1),)
    # stream, prepare, set-ownership; preflight, open-access, swap-datadir, start
    before = 400.0 + 40.0 + 40.0 + 4 * 10.0
    for age in (DAY, 7 * DAY):
        found = of(replace(world(archive(taken_at=NOW - age)), histories=known), "archive")
        assert found.catch_up_seconds == pytest.approx(0.1 * (age.total_seconds() + before))


def test_estimate_of_catch_up_uses_the_age_of_a_live_copy() -> None:
    one = lasting(past("xbstream"), "catch-up", 28.0)  # after stream, release, prepare, own, start: 140 s
    found = build_plan(inputs(histories={"xbstream": history_of([one])}))
    age = sum(seconds(found)[name] or 0 for name in ("stream", "release", "prepare", "set-ownership", "start"))
    assert seconds(found)["catch-up"] == pytest.approx(0.2 * age)


def test_estimate_of_catch_up_is_none_when_the_age_is_unknown() -> None:
    known = StepHistory(seconds={"stream": (5.0,)}, seconds_per_age=(0.1,))
    assert seconds(build_plan(inputs(history=known)))["catch-up"] is None
    retried = past("archive", is_retry=True, taken_at=NOW - 10 * DAY)
    assert history_of([retried]).seconds_per_age == (), "unknown how far it had rolled forward before"
    assert "catch-up" not in history_of([retried]).seconds
    assert history_of([past("archive", taken_at=NOW)]).seconds_per_age == (), "data is not younger than its copy"


# The pause


def test_estimate_of_the_pause_covers_the_read() -> None:
    known = {"xbstream": history_of([past("xbstream", bytes=10 * GIB)])}
    statement = source_with(binlog_format="STATEMENT")
    found = of(inputs(source=statement, histories=known), "xbstream")
    assert (found.pauses_source, found.pause_seconds) == (True, pytest.approx(120.0))
    unknown = of(inputs(source=statement), "xbstream")
    assert (unknown.pauses_source, unknown.pause_seconds) == (True, None)
    assert of(inputs(histories=known), "xbstream").pause_seconds is None, "nothing is paused"
