"""The negative controls of ``test_wrong_machine.py``: with a check taken away, its oracle sees the wrong machine."""

import inspect
from collections.abc import Callable

import pytest

from dbops.engine.planning import planner
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.steps.preflight import live_check
from tests.engine.by_name import run_checks
from tests.engine.hosts.target_host import SCRIPT

from .fleet_world import PRIMARY, SOURCE, TARGET, THIRD
from .test_wrong_machine import Event, compared, tell, wrong_end, wrong_let_through

Story = tuple[list[Event], list[Event]]


def on_target(event: str) -> Event:
    return (event, TARGET, THIRD)


#: what happens before the plan and after it, and who must refuse that
STORIES: dict[str, tuple[Story, str]] = {
    "a failover, of which the inventory knows nothing": (([], [("fail_over", TARGET, PRIMARY)]), "the comparison"),
    "a failover, and the inventory knows": (
        ([], [("fail_over", TARGET, PRIMARY), ("follow_failover", TARGET, PRIMARY)]),
        "the comparison",
    ),
    "a failover to another one, and the inventory knows": (
        ([], [("fail_over", THIRD, PRIMARY), ("follow_failover", THIRD, PRIMARY)]),
        "the comparison",
    ),
    "it takes writes": (([], [on_target("take_writes")]), "the comparison"),
    "it took writes for a moment": (([], [on_target("write_for_a_moment")]), "the comparison"),
    "it took writes before and after": (
        ([on_target("write_for_a_moment")], [on_target("write_for_a_moment")]),
        "the comparison",
    ),
    "a replica is attached": (([], [on_target("attach_stranger")]), "the comparison"),
    "another one of the fleet reads from it": (([], [("replicate_from", THIRD, TARGET)]), "the comparison"),
    "two machines swap addresses": (([], [("swap_addresses", TARGET, THIRD)]), "the comparison"),
    "its address is used again": (([], [("reuse_address", TARGET, PRIMARY)]), "the comparison"),
    "its address is used again, and the key accepted": (
        ([], [("reuse_address", TARGET, THIRD), on_target("accept_host_key")]),
        "the comparison",
    ),
    "its address is used again by a dead clone": (
        (
            [("clone_machine", THIRD, TARGET), on_target("stop_server"), ("stop_server", THIRD, TARGET)],
            [("reuse_address", TARGET, THIRD)],
        ),
        "the comparison",
    ),
    "its SQL address is another one's": (([("edit_address", TARGET, THIRD)], []), "the plan"),
    "its SQL address becomes another one's": (([], [("edit_address", TARGET, THIRD)]), "the comparison"),
    "its directories are swapped": (([], [on_target("swap_directories")]), "the comparison"),
    "its data was restored": (([], [on_target("restore_elsewhere")]), "the comparison"),
    "its server moved": (([], [on_target("move_datadir")]), "the comparison"),
    "a dead target came up": (([on_target("stop_server")], [on_target("start_server")]), "the comparison"),
    "the target died": (([], [on_target("stop_server")]), "the comparison"),
    "a server id is used twice": (([("duplicate_server_id", THIRD, TARGET)], []), "the plan"),
    "the source is another machine": (([], [("reuse_address", SOURCE, THIRD)]), "the comparison"),
    "the source is another machine, and the key accepted": (
        ([], [("reuse_address", SOURCE, THIRD), ("accept_host_key", SOURCE, THIRD)]),
        "the comparison",
    ),
    "the primary's address is another machine's": (([], [("reuse_address", PRIMARY, THIRD)]), "the comparison"),
}


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
@pytest.mark.parametrize("name", STORIES)
def test_known_stories_are_refused_at_the_expected_check(name: str, flavor: str) -> None:
    (before, between), refused_by = STORIES[name]
    assert compared(before, between, flavor).refused_by == refused_by


def seen_in() -> str:
    """Return the first story in which the oracle sees the wrong machine, "" where it sees none."""
    return next(
        (
            name
            for name, (story, _) in STORIES.items()
            for flavor in ("mariadb", "mysql")
            if wrong_let_through(compared(*story, flavor))
        ),
        "",
    )


def test_oracle_finds_nothing_with_every_check() -> None:
    assert seen_in() == ""


PARTIES = '("target", "source", "primary")'
WEAKER = {
    "the target is not compared": (PARTIES, '("source", "primary")'),
    "the source is not compared": (PARTIES, '("target", "primary")'),
    "the primary is not compared": (PARTIES, '("target", "source")'),
    "the directory is not compared": ("for key in old if", 'for key in old if key != "datadir_identity" and'),
    "the machine is not compared": ("for key in old if", 'for key in old if key != "machine" and'),
    "refusals of now do not count": ("in now.refusals", "in ()"),
    "warnings of now do not count": ("in now.warnings", "in ()"),
    "a warning is known by its code alone": (".accepted_as", ".code"),
    "nothing is compared": ("    return changes", "    return []"),
}


@pytest.mark.parametrize("name", WEAKER)
def test_weakened_comparison_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = WEAKER[name]
    source = inspect.getsource(live_check.differences)
    assert old in source, "the comparison was changed: change this mutation too"
    names = dict(vars(live_check))
    exec(source.replace(old, new), names)
    monkeypatch.setattr(live_check, "differences", names["differences"])
    assert seen_in()


def without(*codes: str) -> Callable[[PlanInputs], object]:
    return lambda inputs, _: tuple(finding for finding in run_checks(inputs) if finding.code not in codes)


@pytest.mark.parametrize("code", ["target.read_only", "target.replicas", "target.errant"])
def test_missing_check_is_detected(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "run_checks", without(code))
    assert seen_in()


def test_wrong_data_is_moved_without_comparison_and_script_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the oracle that looks at what the script did."""
    before, between = STORIES["its directories are swapped"][0]
    monkeypatch.setattr(live_check, "differences", lambda before, now: [])
    assert tell(before, between, [], "mariadb").refused_by == "the script"
    script = SCRIPT.replace('refuse "', ': "').replace('fail "$1 is no longer', ': "$1 is no longer')
    assert "is touched" in wrong_end(tell(before, between, [], "mariadb", script))
