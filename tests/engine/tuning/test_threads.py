"""How many threads read and unpack a copy, from cores and disks, and what is said of it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.rebuilds.steps.commands import unpack_command
from dbops.engine.tuning.threads import PARALLEL_MAXIMUM, StreamSide, choose_threads, threads_reason
from tests.engine.builders import datadir, facts, host, inputs
from tests.engine.by_name import build_plan

WORK = {StreamSide.SOURCE: "copy", StreamSide.TARGET: "unpacking"}

FLASH = StorageFacts("ext4", 4096, "nvme0n1", 0, turns=False)
DISK = StorageFacts("xfs", 4096, "sda", None, turns=True)
VIRTUAL = StorageFacts("ext4", 4096, "vda", 0, turns=None)
NETWORK = StorageFacts("nfs4", 1048576, "-", None, turns=None)


@pytest.mark.parametrize(("cores", "threads"), [(1, 2), (2, 2), (4, 2), (6, 3), (8, 4), (64, 4)])
@pytest.mark.parametrize("storage", [None, FLASH, VIRTUAL, NETWORK])
def test_half_of_the_cores_at_least_two_at_most_four(cores: int, threads: int, storage: StorageFacts | None) -> None:
    machine = host(1, cpu_count=cores)
    assert choose_threads(machine, storage) == threads


@given(st.integers(1, 512), st.sampled_from([None, FLASH, DISK, VIRTUAL, NETWORK]))
def test_threads_reason_states_the_chosen_number(cores: int, storage: StorageFacts | None) -> None:
    machine = host(1, cpu_count=cores)
    chosen = choose_threads(machine, storage)
    assert 1 <= chosen <= PARALLEL_MAXIMUM
    for end, work in ((StreamSide.SOURCE, "copy"), (StreamSide.TARGET, "unpacking")):
        said = threads_reason(end, machine, storage)
        assert said.startswith(f"{chosen} {work} thread{'' if chosen == 1 else 's'}: ")
        assert said.endswith(".")


def test_threads_are_one_on_a_rotating_disk() -> None:
    machine = host(1, cpu_count=32)
    assert choose_threads(machine, DISK) == 1
    for end in StreamSide:
        assert threads_reason(end, machine, DISK).startswith(f"1 {WORK[end]}")
        assert "sda" in threads_reason(end, machine, DISK)


def test_threads_reason_covers_both_ends() -> None:
    machine = host(1, cpu_count=8)
    for end in StreamSide:
        said = threads_reason(end, machine, FLASH)
        assert said.startswith(f"4 {WORK[end]}")
        assert end.value in said
        assert re.findall(r"\d+", said) == ["4", "8", "2", "4"], "threads, cores, minimum, maximum"


def test_threads_reason_names_a_virtual_disk() -> None:
    assert "vda" in threads_reason(StreamSide.SOURCE, host(1), VIRTUAL)
    assert "nvme0n1" not in threads_reason(StreamSide.SOURCE, host(1), FLASH)


@pytest.mark.parametrize("end", list(StreamSide))
def test_threads_reason_names_the_file_system_without_a_device(end: StreamSide) -> None:
    said = threads_reason(end, host(1), NETWORK)
    assert "nfs4" in said
    assert " - " not in said


def on(number: int, storage: StorageFacts, cores: int) -> InstanceFacts:
    return facts(number, host=host(number, cpu_count=cores), datadir=datadir(number, storage=storage))


def test_plan_has_threads_and_reasons_for_each_end() -> None:
    base = inputs()
    source, target = base.source, base.target
    world = replace(
        base,
        source=replace(source, facts=replace(source.facts, **parts(source.facts, DISK, 16))),
        target=replace(target, facts=replace(target.facts, **parts(target.facts, FLASH, 8))),
    )
    plan = build_plan(world)
    assert (plan.parallel, plan.unpack_threads) == (1, 4)
    found = " ".join(plan.stream_reasons)
    assert f"1 {WORK[StreamSide.SOURCE]}" in found
    assert "sda" in found
    assert f"4 {WORK[StreamSide.TARGET]}" in found
    commands = [command.text for step in plan.steps if step.name == "stream" for command in step.commands]
    assert any("--parallel=1" in text for text in commands)
    assert any(text.endswith("-p 4") for text in commands)
    words = unpack_command(replace(plan, unpack_threads=0), flavor_for("10.11.19-MariaDB"))
    assert words[-1] == "1", "a plan of before has as many as copy"


def parts(known: InstanceFacts | None, storage: StorageFacts, cores: int) -> dict[str, object]:
    assert known
    assert known.host
    assert known.datadir
    return {"host": replace(known.host, cpu_count=cores), "datadir": replace(known.datadir, storage=storage)}


def test_stored_facts_without_disk_type_load_as_unknown() -> None:
    record = to_record(on(2, DISK, 4))
    del record["datadir"]["storage"]["turns"]
    found = from_record(InstanceFacts, record)
    assert found.datadir
    assert found.datadir.storage == replace(DISK, turns=None)
