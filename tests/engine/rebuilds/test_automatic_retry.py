"""What a shared read went on without is repeated by itself only as it was confirmed, over what it left itself."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.automatic_retry import OF_A_TOUCHED_TARGET, ended_on_the_way, unlike_confirmed
from dbops.engine.rebuilds.plan import Finding, Plan
from dbops.engine.states import Severity
from tests.engine.builders import situation

MADE = "64769:99"
TOUCHED = {"touched": True, "new_identity": MADE, "left_tree": "0f" * 32}
CONFIRMED = replace(build_plan(situation()), findings=())
#: The target as a failed rebuild leaves it.
LEFT = replace(CONFIRMED, target=replace(CONFIRMED.target, datadir_identity=MADE, is_answering=False, server_id=None))


def with_warning(plan: Plan, code: str, seen: str = "as it is today") -> Plan:
    return replace(plan, findings=(*plan.findings, Finding(code, Severity.WARNING, code, seen)))


def test_as_it_was_confirmed_it_is_done_again() -> None:
    assert unlike_confirmed(CONFIRMED, CONFIRMED, {}) == []
    assert unlike_confirmed(CONFIRMED, LEFT, TOUCHED) == []


@pytest.mark.parametrize(
    ("now", "memory", "word"),
    [
        (replace(LEFT, target=replace(LEFT.target, datadir_identity="64769:7")), {}, "is not the directory that"),
        (
            replace(LEFT, target=replace(LEFT.target, is_answering=True)),
            {},
            "runs, which the failed rebuild left stopped",
        ),
        (LEFT, {"left_tree": ""}, "did not say what the failed rebuild left"),
        (LEFT, {"new_identity": ""}, "is not the directory that"),
        (replace(LEFT, pause_source=True), {}, "would be paused"),
        (replace(LEFT, uses_gtid=not LEFT.uses_gtid), {}, "GTID"),
        (replace(LEFT, primary=replace(LEFT.primary, name="replica-9")), {}, "primary name"),
        (replace(LEFT, source=replace(LEFT.source, server_uuid="another")), {}, "source server_uuid"),
        (replace(LEFT, target=replace(LEFT.target, machine="another")), {}, "target machine"),
        (with_warning(LEFT, "source.lag"), {}, "source.lag: as it is today"),
    ],
)
def test_what_nobody_has_confirmed_is_left_to_a_person(now: Plan, memory: dict[str, Any], word: str) -> None:
    before = replace(CONFIRMED, pause_source=False)
    [change] = unlike_confirmed(before, now if "paused" in word else replace(now, pause_source=False), TOUCHED | memory)
    assert word in change


@pytest.mark.parametrize("key", ["datadir_identity", "is_answering", "server_id", "server_uuid", "version", "socket"])
def test_a_target_that_was_not_touched_is_the_same_in_everything(key: str) -> None:
    other = replace(CONFIRMED, target=replace(CONFIRMED.target, **{key: "another"}))
    [change] = unlike_confirmed(CONFIRMED, other, {})
    assert change.startswith(f"target {key}: ")


def test_a_target_that_was_down_before_it_was_touched_is_left_to_a_person() -> None:
    """Its directory and its server look the same whether or not somebody restores into it meanwhile."""
    down = replace(CONFIRMED, target=replace(CONFIRMED.target, is_answering=False))
    [change] = unlike_confirmed(down, down, {})
    assert "was down from the start" in change
    none = replace(down, target=replace(down.target, datadir_identity=""))
    assert unlike_confirmed(none, none, {}) == []


@pytest.mark.parametrize("code", sorted(OF_A_TOUCHED_TARGET))
def test_what_it_has_done_itself_is_excused_where_it_has_done_it(code: str) -> None:
    assert unlike_confirmed(CONFIRMED, with_warning(LEFT, code), TOUCHED) == []
    assert len(unlike_confirmed(CONFIRMED, with_warning(CONFIRMED, code), {})) == 1


def test_a_warning_is_the_accepted_one_by_its_code_or_where_data_is_lost_by_every_word() -> None:
    before = with_warning(with_warning(CONFIRMED, "source.lag", "2 s"), "target.errant", "1 transaction")
    assert unlike_confirmed(before, with_warning(CONFIRMED, "source.lag", "9 s"), {}) == []
    assert len(unlike_confirmed(before, with_warning(CONFIRMED, "target.errant", "2 transactions"), {})) == 1


@pytest.mark.parametrize(("code", "is_one"), [("shared.dropped", True), ("stream.disk_full", False), ("", False)])
def test_only_an_end_on_the_way_is_one_to_do_again(code: str, is_one: bool) -> None:
    assert ended_on_the_way({"code": code} if code else {}) is is_one
