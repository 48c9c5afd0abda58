"""Whatever happens to a fleet under a plan, nothing but the confirmed plan's target is stopped or moved.

A plan is confirmed in one world; then things happen; then the live machines are compared with the plan; then more happens;
then the data directory swap runs, for real, on a host that is made like the machine that SSH ends at. The oracle asks
the model of the world alone, which knows whose data each directory holds.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbops.engine.errors import Refused
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight import live_check
from tests.engine.by_name import build_plan
from tests.engine.hosts.target_host import SCRIPT, Ended, SwapArguments, target_host

from .fleet_world import EDITS, EVENTS, NAMES, SOURCE, TARGET, Directory, Machine, Server, World

Event = tuple[str, str, str]


def examples(number: int) -> settings:
    """As many as the time allows: more, where a profile asks for more."""
    return settings(max_examples=max(number, settings().max_examples))


def events(*names: str, most: int) -> st.SearchStrategy[list[Event]]:
    """Most of what happens, happens to the target: else nothing would meet it."""
    members = st.sampled_from([TARGET, TARGET, TARGET, *NAMES])
    return st.lists(st.tuples(st.sampled_from(names), members, st.sampled_from(list(NAMES))), max_size=most)


@dataclass
class Meant:
    """What the operator meant and accepted, by its truth: taken when the plan was confirmed."""

    directory: Directory | None
    machine: Machine
    was_running: bool
    was_running_there: bool
    errant: int | None
    source: Machine | None
    primary: Machine | None


@dataclass
class Story:
    """How a rebuild went: who refused it, or what the script did."""

    world: World
    confirmed: Plan | None = None
    meant: Meant | None = None
    refused_by: str = ""
    machine: Machine | None = None
    ended: Ended | None = None

    def happen(self, events: list[Event]) -> None:
        for event in events:
            self.world.happen(*event)


def compared(before: list[Event], between: list[Event], flavor: str) -> Story:
    """Let a rebuild meet all that, up to the comparison of the live machines with the plan."""
    story = Story(World(flavor))
    story.happen(before)
    story.confirmed = plan_of(story.world, tuple(NAMES))
    if story.confirmed is None or not story.confirmed.is_possible:
        story.refused_by = "the plan"
        return story
    story.meant = what_is_meant(story.world)
    story.happen(between)
    now = plan_of(story.world, story.world.live_names())
    if now is None or live_check.differences(story.confirmed, now):
        story.refused_by = "the comparison"
    return story


def tell(before: list[Event], between: list[Event], after: list[Event], flavor: str, script: str = SCRIPT) -> Story:
    """Let a rebuild meet all that, and run the script where it is let through."""
    story = compared(before, between, flavor)
    if story.refused_by:
        return story
    story.happen(after)
    story.machine = story.world.reached(TARGET)
    if story.machine is None:
        story.refused_by = "ssh"
        return story
    assert story.confirmed
    story.ended = run_script(story.world, story.machine, story.confirmed, script)
    story.refused_by = "the script" if story.ended.left_all_alone else ""
    return story


def plan_of(world: World, live: tuple[str, ...]) -> Plan | None:
    try:
        return build_plan(world.inputs(live))
    except Refused:
        return None


def what_is_meant(world: World) -> Meant:
    machine = world.reached(TARGET)
    assert machine, "a plan is possible only where the target's host answers"
    directory = machine.directories.get(world.members[TARGET].datadir)
    server = machine.server
    is_there = server.running and server.directory is directory
    # of a server that does not answer nothing is known, and the operator accepts that
    errant = server.errant if server.running else None
    return Meant(directory, machine, server.running, is_there, errant, world.reached(SOURCE), the_primary(world))


def the_primary(world: World) -> Machine | None:
    """Return the machine that the inventory's primary address leads to."""
    member = next((member for member in world.members.values() if member.role == "primary"), None)
    return world.network.get(member.address) if member else None


def run_script(world: World, machine: Machine, plan: Plan, script: str) -> Ended:
    """Make a host like ``machine``, and run the script there as the plan has it."""
    target, server = plan.target, machine.server
    with target_host() as host:
        for path, directory in machine.directories.items():
            host.add_directory(directory.truth, path)
        if server.directory.truth not in host.directories:
            host.add_directory(server.directory.truth, "/srv/elsewhere")
        if server.running:
            for number in range(2 if server.doubled else 1):
                host.add_process(f"{server.truth}-{number}", server.directory.truth)
            host.answer(**what_it_says(world, server, str(host.place(server.says_datadir))))
        at_path = machine.directories.get(target.datadir)
        is_same = (at_path.identity if at_path else "") == target.datadir_identity
        told = SwapArguments(
            datadir=target.datadir,
            identity=host.identity(target.datadir) if is_same else target.datadir_identity,
            is_answering=target.is_answering,
            server_id=str(target.server_id or ""),
            server_uuid=target.server_uuid,
        )
        return host.swap_datadir(told, script)


def what_it_says(world: World, server: Server, datadir: str) -> dict[str, Any]:
    said = {
        "server_id": server.server_id,
        "read_only": int(server.read_only),
        "datadir": f"{datadir}/",
        "replicas": world.replicas_of(server),
    }
    return said | ({"server_uuid": server.server_uuid} if server.server_uuid else {})


def wrong(story: Story, touched: frozenset[str], *, stops: bool) -> str:
    """The oracle: say what would be wrong with touching these directories, and stopping the server; "" where nothing is."""
    meant, machine, world = story.meant, story.machine, story.world
    assert meant
    assert machine
    if machine is not meant.machine:
        return f"this is {machine.server.truth}'s machine, not {meant.machine.server.truth}'s"
    if strange := touched - ({meant.directory.truth} if meant.directory else set()):
        return f"the data of {', '.join(strange)} is touched"
    if world.members[TARGET].role == "primary":
        return "the target is the primary of the inventory"
    if not stops:
        return ""
    if not machine.server.read_only:
        return "a server that takes writes is stopped"
    if world.replicas_of(machine.server):
        return "a server with replicas is stopped"
    return "" if meant.was_running else "a server that was started since is stopped"


def wrongly_lost(story: Story) -> str:
    assert story.meant
    assert story.machine
    accepted, errant = story.meant.errant, story.machine.server.errant
    return f"{errant} transactions are lost, {accepted} were accepted" if accepted not in (None, errant) else ""


def wrong_end(story: Story) -> str:
    """Ask the oracle about what the script did."""
    ended = story.ended
    if ended is None or ended.left_all_alone:
        return ""
    assert story.meant
    if ended.stopped and not story.meant.was_running_there:
        return "a server that did not run on the data directory is stopped"
    return wrong(story, ended.touched, stops=bool(ended.stopped))


def wrong_let_through(story: Story) -> str:
    """Ask the oracle about what a script that checks nothing would do to what the comparison let through."""
    story.machine = story.world.reached(TARGET)
    if story.refused_by or story.machine is None:
        return ""
    assert story.confirmed
    assert story.meant
    if story.world.reached(SOURCE) is not story.meant.source:
        return "another source is read"
    if the_primary(story.world) is not story.meant.primary:
        return "another primary is followed"
    at_path = story.machine.directories.get(story.confirmed.target.datadir)
    touched = frozenset([at_path.truth] if at_path else [])
    return wrong(story, touched, stops=story.machine.server.running) or wrongly_lost(story)


LATER = tuple(name for name in EVENTS if name not in EDITS)


@given(
    before=events(*EVENTS, most=3),
    between=events(*EVENTS, most=3),
    after=events(*LATER, most=3),
    flavor=st.sampled_from(["mariadb", "mysql"]),
)
@examples(600)
def test_events_never_lead_to_the_wrong_machine(
    before: list[Event], between: list[Event], after: list[Event], flavor: str
) -> None:
    story = tell(before, between, after, flavor)
    assert not wrong_end(story), f"{wrong_end(story)}; {story.world.happened}; {story.ended}"


@given(before=events(*EVENTS, most=4), between=events(*EVENTS, most=5), flavor=st.sampled_from(["mariadb", "mysql"]))
@examples(2000)
def test_comparison_alone_blocks_every_wrong_machine(before: list[Event], between: list[Event], flavor: str) -> None:
    """The script is the second check: the first one must hold alone."""
    story = compared(before, between, flavor)
    assert not wrong_let_through(story), f"{wrong_let_through(story)}; {story.world.happened}"


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_rebuild_continues_when_nothing_happens(flavor: str) -> None:
    """Else every other test here would say nothing."""
    story = tell([], [], [], flavor)
    assert story.refused_by == ""
    assert story.ended
    assert (story.ended.exit_status, story.ended.touched) == (0, {TARGET})


def test_rebuild_continues_with_a_dead_target() -> None:
    story = tell([("stop_server", TARGET, TARGET)], [], [], "mariadb")
    assert story.ended
    assert (story.refused_by, story.ended.touched) == ("", {TARGET})
