"""Matching of sightings with runs: a table of cases, and properties for any order."""

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.backups.matching import KnownRun, Sighting, Where, joined, sightings_of, which_run
from dbops.engine.facts.backups import BackupConnection, BackupProcess, Reads
from dbops.engine.states import BackupMethod, RunOrigin, knows_better
from tests.engine import builders
from tests.engine.builders import NOW

DUMP, PHYSICAL = BackupMethod.DUMP, BackupMethod.PHYSICAL
OBSERVED, REPORTED, MANAGED = RunOrigin.OBSERVED, RunOrigin.REPORTED, RunOrigin.MANAGED
HERE, ELSEWHERE = Where.HERE, Where.ELSEWHERE


def at(minutes: float) -> Any:
    return NOW + timedelta(minutes=minutes)


def seen(pid: int = 7, start: float = 0, until: float = 10, **changes: Any) -> Sighting:
    values: dict[str, Any] = {"where": HERE, "process": f"boot:{pid}:{pid}00", **changes}
    return Sighting(OBSERVED, values.pop("method", DUMP), at(start), at(until), **values)


def reported(key: str = "run-1", start: float = 0, until: float = 10, **changes: Any) -> Sighting:
    return Sighting(REPORTED, changes.pop("method", DUMP), at(start), at(until), report_key=key, **changes)


def over_net(number: int = 9, start: float = 0, until: float = 10, **changes: Any) -> Sighting:
    values: dict[str, Any] = {"where": ELSEWHERE, "connection": f"{number}:root@10.0.0.9:4000", **changes}
    return Sighting(OBSERVED, DUMP, at(start), at(until), **values)


PARENT = {"parents": ("boot:5:500", "boot:1:1")}
CASES = [
    # the new sighting, the run as known, whether they are one, why
    (seen(), seen(until=9), True, "the same process again"),
    (seen(8), seen(7), False, "two processes side by side"),
    (seen(), seen(until=5, is_over=True), True, "the same process: it was ended by mistake"),
    (seen(8, start=6), seen(7, until=5, is_over=True), False, "one after the other, without a common parent"),
    (seen(8, start=6, family="boot:5:500"), seen(7, until=5, family="boot:5:500"), True, "the next dump of one script"),
    (seen(8, start=20, family="boot:5:500"), seen(7, until=5, family="boot:5:500"), False, "a shell's dump, much later"),
    (seen(method=PHYSICAL), reported(), False, "another method"),
    (reported(), reported(until=5), True, "a report sent twice"),
    (reported("run-2"), reported("run-1"), False, "two reports side by side"),
    (reported("run-1", start=5), reported("run-1", until=5, is_over=True), True, "a late start after the end"),
    (seen(), reported(pid=7, where=HERE), True, "the process that was reported"),
    (seen(**PARENT), reported(pid=5, where=HERE), True, "a child of what was reported"),
    (seen(**PARENT), reported(pid=6, where=HERE), False, "not of what was reported here"),
    (reported(pid=7, where=HERE), seen(), True, "the report comes second"),
    (seen(), reported(pid=7, where=ELSEWHERE), False, "a number of another machine"),
    (seen(), reported(), True, "a report that says no more than instance and time"),
    (seen(start=-240, until=10), reported(), False, "it began hours before the report's command"),
    (reported(start=3, until=13, is_over=True), seen(start=-240, until=10), False, "a short one beside a long one"),
    (reported(start=0, until=10, is_over=True), seen(start=0.5, until=9.5, is_over=True), True, "an end without a start"),
    (reported(start=10, until=10, is_over=True, start_is_unknown=True), seen(start=0, until=9.5, is_over=True), True, "only an end"),
    (seen(start=11, until=12), reported(until=10, is_over=True), False, "it began after the reported one was over"),
    (over_net(), reported(where=ELSEWHERE), True, "a dump from elsewhere, reported from there"),
    (over_net(), reported(where=HERE), False, "a dump from elsewhere beside a reported one here"),
    (over_net(), seen(), False, "a dump from elsewhere beside one here"),
    (over_net(8), over_net(9), False, "two dumps from elsewhere"),
    (over_net(), over_net(until=5), True, "the same connection again"),
    (over_net(start=100, until=110), over_net(until=5, is_over=True), False, "its number was given again"),
    (over_net(where=Where.UNKNOWN), seen(), True, "the server's view of a process that the host does not show now"),
    (seen(), Sighting(MANAGED, DUMP, at(0), at(9)), False, "a foreign one beside our own"),
    (reported(), Sighting(MANAGED, DUMP, at(0), at(9)), False, "a managed run is never reported"),
]  # fmt: skip


@pytest.mark.parametrize(("new", "known", "is_one", "why"), CASES, ids=[case[3] for case in CASES])
def test_which_run_finds_the_run_of_each_case(new: Sighting, known: Sighting, is_one: bool, why: str) -> None:
    alive = {new.process, known.process} if "side by side" in why else {new.process}
    assert (which_run(new, [KnownRun(1, known)], alive) is not None) is is_one


def test_which_run_ignores_a_second_process_of_a_running_script() -> None:
    first, second = seen(7, family="boot:5:500"), seen(8, start=1, family="boot:5:500")
    assert which_run(second, [KnownRun(1, first)], alive={first.process, second.process}) is None


def test_which_run_picks_the_nearest_start() -> None:
    runs = [KnownRun(1, seen(7, start=0)), KnownRun(2, seen(8, start=3))]
    found = which_run(reported(start=3), runs)
    assert found is not None
    assert found.pk == 2


def test_joined_keeps_known_values_and_the_better_origin() -> None:
    both = joined(seen(**PARENT, family="boot:5:500"), reported(start=-1, until=12, is_over=True, pid=5, where=HERE))
    assert (both.origin, both.started_at, both.until, both.is_over) == (REPORTED, at(-1), at(12), True)
    assert (both.process, both.report_key, both.pid, both.family) == ("boot:7:700", "run-1", 5, "boot:5:500")
    again = joined(both, seen(until=13))
    assert (again.origin, again.until, again.is_over) == (REPORTED, at(12), True), "an older probe does not reopen it"


def test_joined_keeps_the_seen_start_when_only_an_end_is_reported() -> None:
    both = joined(seen(start=0), reported(start=10, until=10, is_over=True, start_is_unknown=True))
    assert (both.started_at, both.until, both.start_is_unknown) == (at(0), at(10), False)


def take_in(runs: list[KnownRun], new: Sighting) -> list[KnownRun]:
    found = which_run(new, runs, alive={new.process})
    if found is None:
        return [*runs, KnownRun(len(runs) + 1, new)]
    return [replace(run, said=joined(run.said, new)) if run is found else run for run in runs]


minutes = st.integers(0, 120)
#: A true run: its process, its beginning and its length.
true_runs = st.lists(st.tuples(minutes, st.integers(2, 60)), min_size=1, max_size=4)


@given(true_runs, st.randoms(use_true_random=False))
def test_take_in_makes_one_row_for_each_run_in_any_order(runs: list[tuple[int, int]], random: Any) -> None:
    """Each run is seen twice by probes, and reported by its start and its end, with its number."""
    words = []
    for number, (start, length) in enumerate(runs, 100):
        end = start + length
        words += [
            seen(number, start, start + length / 3),
            seen(number, start, start + length / 2),
            reported(f"key-{number}", start, start, pid=number, where=HERE),
            reported(f"key-{number}", start, end, is_over=True, pid=number, where=HERE),
        ]
    random.shuffle(words)
    rows: list[KnownRun] = []
    for word in words:
        rows = take_in(rows, word)
    assert len(rows) == len(runs)
    found = sorted((row.said.started_at, row.said.until, row.said.is_over) for row in rows)
    assert found == sorted((at(start), at(start + length), True) for start, length in runs)
    assert {(row.said.report_key[4:], row.said.process.split(":")[1]) for row in rows} == {
        (str(number), str(number)) for number in range(100, 100 + len(runs))
    }


sightings = st.builds(
    lambda kind, number, start, length, over: {
        "seen": lambda: seen(number, start, start + length, is_over=over),
        "reported": lambda: reported(f"key-{number}", start, start + length, is_over=over),
        "net": lambda: over_net(number, start, start + length, is_over=over),
        "physical": lambda: seen(number + 50, start, start + length, method=PHYSICAL),
    }[kind](),
    st.sampled_from(["seen", "reported", "net", "physical"]),
    st.integers(1, 4),
    minutes,
    st.integers(1, 60),
    st.booleans(),
)


@given(st.lists(sightings, min_size=1, max_size=8))
def test_take_in_never_merges_runs_or_repeats_a_sighting(words: list[Sighting]) -> None:
    rows: list[KnownRun] = []
    for word in words:
        before = rows
        rows = take_in(rows, word)
        assert len(take_in(rows, word)) == len(rows)
        assert {row.said.method for row in rows} >= {row.said.method for row in before}
        for old, new in itertools.product(before, rows):
            if old.pk == new.pk:
                assert not knows_better(old.said.origin, new.said.origin)
                for name in ("process", "connection", "report_key", "pid"):
                    assert getattr(new.said, name) == getattr(old.said, name) or not getattr(old.said, name)
    keys = [row.said.report_key for row in rows if row.said.report_key]
    processes = [row.said.process for row in rows if row.said.process]
    assert len(keys) == len(set(keys))
    assert len(processes) == len(set(processes))


def process(
    reads: Reads = Reads.THIS, *, pid: int = 7, is_ours: bool = False, method: BackupMethod = DUMP
) -> BackupProcess:
    key = f"boot:{pid}:{pid}00"
    return BackupProcess(key, pid, "mysqldump", method, at(0), "root", "mysqldump", reads, "so", is_ours)


def connection(client: str, number: int = 9, tool: str = "mysqldump", *, is_local: bool = False) -> BackupConnection:
    return BackupConnection(number, "root", client, is_local, tool, DUMP, "SELECT", at(1))


def facts(processes: tuple[BackupProcess, ...] | None = (), connections: tuple[BackupConnection, ...] = ()) -> Any:
    return builders.facts(12, backup_processes=processes, server=builders.server(12, backup_connections=connections))


class TestSightings:
    def test_sightings_omit_own_processes_and_start_nothing_when_unclear(self) -> None:
        found = sightings_of(
            facts((process(), process(Reads.UNCLEAR, pid=8), process(pid=9, is_ours=True))), is_held=True
        )
        assert [(item.process, item.may_begin) for item in found] == [("boot:7:700", True), ("boot:8:800", False)]

    def test_sightings_count_own_processes_when_the_instance_is_free(self) -> None:
        ours = (process(is_ours=True), *(process(reads, pid=8, is_ours=True) for reads in (Reads.UNCLEAR, Reads.OTHER)))
        assert [item.process for item in sightings_of(facts(ours), is_held=False)] == ["boot:7:700"]
        assert sightings_of(facts(ours), is_held=True) == ()

    @pytest.mark.parametrize("is_ours", [True, False])
    def test_sightings_join_a_local_connection_with_its_process(self, is_ours: bool) -> None:
        found = sightings_of(
            facts((process(is_ours=is_ours),), (connection("localhost", is_local=True),)), is_held=False
        )
        assert [item.connection for item in found if item.connection] == []

    def test_sightings_count_a_local_connection_without_process_unless_held(self) -> None:
        seen_by_server = facts(None, (connection("localhost", is_local=True),))
        assert len(sightings_of(seen_by_server, is_held=False)) == 1
        assert sightings_of(seen_by_server, is_held=True) == ()

    def test_sightings_count_a_local_connection_when_the_process_is_unclear(self) -> None:
        here = (connection("localhost", is_local=True),)
        found = sightings_of(facts((process(Reads.UNCLEAR),), here), is_held=False)
        assert [(bool(item.connection), item.may_begin) for item in found] == [(True, True), (False, False)]
        both = (process(Reads.UNCLEAR, pid=7), process(Reads.UNCLEAR, pid=8))
        assert [bool(item.connection) for item in sightings_of(facts(both, here), is_held=False)] == [True]
        assert len(sightings_of(facts((process(Reads.UNCLEAR),), here), is_held=True)) == 1

    def test_sightings_count_a_remote_dump_and_a_local_one(self) -> None:
        found = sightings_of(facts((process(),), (connection("10.0.0.9:4000"),)), is_held=True)
        assert sorted(item.where for item in found) == [ELSEWHERE, HERE]

    def test_sightings_join_the_connections_of_one_mydumper(self) -> None:
        many = tuple(connection(f"10.0.0.9:{4000 + number}", number, "mydumper") for number in range(4))
        assert len(sightings_of(facts((), many), is_held=False)) == 1
        assert len(sightings_of(facts((), tuple(replace(item, tool="mysqldump") for item in many)), is_held=False)) == 4
