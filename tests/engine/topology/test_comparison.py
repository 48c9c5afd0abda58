"""The topology against the inventory, one difference after another. No Django here."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.facts.instance import Attached, ProbeProblem
from dbops.engine.planning.checks.topology import topology_is_as_stored
from dbops.engine.states import Severity
from dbops.engine.topology.comparison import Judgement, compare
from dbops.engine.topology.difference_kinds import MEANINGS
from dbops.engine.topology.differences import OpenDifference, describe_difference
from dbops.engine.topology.members import KnownCluster, StoredInstance, transactions_lost
from tests.engine import builders
from tests.engine.builders import NOW, link, server

NUMBERS = {"primary-1": 11, "backup-1": 12, "replica-1": 13, "replica-2": 14}
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FRESH_SINCE = NOW - timedelta(seconds=60)


def stored(name: str, **changes: Any) -> StoredInstance:
    """Return an instance in health; keywords change its server's facts, or ``StoredInstance`` itself."""
    number = NUMBERS[name]
    of_row = {
        key: changes.pop(key)
        for key in ("role", "known_as", "is_ours", "aliases", "facts", "known_files", "lost_gtid")
        if key in changes
    }
    normal: dict[str, Any] = {"read_only": False, "replication": ()} if name == "primary-1" else {}
    facts = builders.facts(number, server=server(number, **(normal | changes)))
    row = StoredInstance(name, name.partition("-")[0], f"10.0.0.{number}", 3306, facts)
    return replace(row, **of_row)


def unread(name: str, *, answers: bool = True) -> StoredInstance:
    """Return an instance whose server did not answer; without ``answers`` it was last read long ago."""
    problem = ProbeProblem("mysql.unreachable", "Connection refused")
    facts = replace(builders.facts(NUMBERS[name]), server=None, server_problem=problem)
    if not answers:
        facts = builders.facts(NUMBERS[name], observed_at=NOW - timedelta(hours=1))
    return replace(stored(name), facts=facts)


def judged(*members: StoredInstance, addresses: tuple[str, ...] = ()) -> dict[tuple[str, str], Judgement]:
    return {(item.code, item.subject): item for item in compare(KnownCluster(members, FRESH_SINCE, addresses))}


def there(*members: StoredInstance, addresses: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    return {key for key, item in judged(*members, addresses=addresses).items() if item.is_there}


def on_files(known: str, now: str) -> StoredInstance:
    """Return replica-1 on files that are, or are not, those that it was known by."""
    row = stored("replica-1", known_files=known)
    assert row.facts is not None
    assert row.facts.datadir is not None
    return replace(row, facts=replace(row.facts, datadir=replace(row.facts.datadir, files=now)))


P, B, R = stored("primary-1"), stored("backup-1"), stored("replica-1")
FROM_R = (link("10.0.0.13"),)
NEW = stored("replica-1", read_only=False, replication=())


def test_healthy_cluster_has_no_difference() -> None:
    found = judged(P, B, R)
    assert {item.is_there for item in found.values()} == {False}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            (stored("primary-1", read_only=True), stored("backup-1", replication=FROM_R), NEW),
            {("failover", "replica-1"), ("primary_read_only", "primary-1"), ("chain", "backup-1")},
            id="a failover, the old primary is read-only",
        ),
        pytest.param(
            (stored("primary-1", read_only=True, replication=FROM_R), stored("backup-1", replication=FROM_R), NEW),
            {("failover", "replica-1"), ("primary_read_only", "primary-1"), ("chain", "backup-1")},
            id="a failover, the old primary follows",
        ),
        pytest.param(
            (unread("primary-1"), stored("backup-1", replication=FROM_R), NEW),
            {("failover", "replica-1"), ("chain", "backup-1")},
            id="a failover, the old primary is gone",
        ),
        pytest.param(
            (P, stored("backup-1", replication=FROM_R), NEW),
            {("two_primaries", "replica-1"), ("chain", "backup-1")},
            id="two primaries",
        ),
        pytest.param((P, B, NEW), {("writes_alone", "replica-1")}, id="promoted, without replicas yet"),
        pytest.param(
            (unread("primary-1", answers=False), stored("backup-1", replication=FROM_R), NEW),
            {("chain", "backup-1")},
            id="a failover or two primaries, as the stored one was not read lately",
        ),
        pytest.param((P, stored("backup-1", replication=FROM_R), R), {("chain", "backup-1")}, id="a chain"),
        pytest.param(
            (P, B, stored("replica-1", read_only=False)), {("takes_writes", "replica-1")}, id="a replica takes writes"
        ),
        pytest.param(
            (P, B, stored("replica-1", replication=())), {("not_replicating", "replica-1")}, id="no replication"
        ),
        pytest.param(
            (stored("primary-1", read_only=True), B, R),
            {("primary_read_only", "primary-1")},
            id="the primary is read-only",
        ),
        pytest.param(
            (P, B, stored("replica-1", replication=(link("172.16.0.1"),))),
            {("outside_source", "replica-1")},
            id="from outside",
        ),
        pytest.param(
            (stored("primary-1", replication=(link("172.16.0.1"),)), B, R),
            {("outside_source", "primary-1")},
            id="it, too",
        ),
        pytest.param(
            (stored("primary-1", replication=FROM_R), B, stored("replica-1", read_only=False)),
            {("loop", "primary-1"), ("takes_writes", "replica-1")},
            id="a ring with the primary",
        ),
        pytest.param(
            (P, stored("backup-1", replication=FROM_R), stored("replica-1", replication=(link("10.0.0.12"),))),
            {("loop", "backup-1"), ("chain", "backup-1"), ("chain", "replica-1")},
            id="a ring without the primary",
        ),
        pytest.param(
            (stored("primary-1", replicas=(Attached(12, ""), Attached(99, "10.9.9.9", 3306))), B, R),
            {("unknown_replica", "primary-1")},
            id="an unknown replica",
        ),
        pytest.param(
            (P, B, stored("replica-1", known_as="server id 77")), {("identity", "replica-1")}, id="another server"
        ),
        pytest.param(
            (P, B, on_files("ibdata1 7 170", "ibdata1 9 171")), {("data_replaced", "replica-1")}, id="other files"
        ),
        pytest.param((P, B, on_files("ibdata1 7 170", "ibdata1 7 170")), set(), id="the same files"),
        pytest.param((P, B, on_files("", "ibdata1 9 171")), set(), id="files unknown before"),
        pytest.param(
            (P, B, stored("replica-1", lost_gtid="0-11-40")), {("history_lost", "replica-1")}, id="lost transactions"
        ),
    ],
)
def test_each_difference_is_found_alone(members: tuple[StoredInstance, ...], expected: set[tuple[str, str]]) -> None:
    assert there(*members) == expected


def test_unknown_address_with_a_down_connection_makes_no_difference() -> None:
    quiet = stored("replica-1", replication=(link("other-name", io_running="Connecting"),))
    assert judged(P, B, quiet)[("outside_source", "replica-1")].is_there is None


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(stored("replica-1", replication=(link("shop-db"),)), id="the write address"),
        pytest.param(stored("replica-1", replication=(link("nat", source_server_id=11),)), id="both ends say so"),
    ],
)
def test_member_under_another_name_makes_no_difference(member: StoredInstance) -> None:
    primary = stored("primary-1", replicas=(Attached(13, "10.0.0.13", 3306),))
    assert there(primary, B, member, addresses=("shop-db:3306",)) == set()


def test_alias_of_a_host_is_the_member() -> None:
    assert there(replace(P, aliases=("db-11",)), B, stored("replica-1", replication=(link("db-11"),))) == set()


def test_uuid_precedes_the_address() -> None:
    """The virtual address has moved to the new primary: the replica is where the uuid says."""
    via = (link("10.0.0.11", source_uuid="u-13"),)
    new = stored("replica-1", read_only=False, replication=(), server_uuid="u-13")
    old = stored("primary-1", read_only=True, server_uuid="u-11")
    backup = stored("backup-1", replication=via, server_uuid="u-12")
    assert ("failover", "replica-1") in there(old, backup, new)


def test_outside_source_is_not_judged_beside_an_unprobed_member() -> None:
    strange = stored("replica-1", replication=(link("nat", source_server_id=12),))
    assert judged(P, unread("backup-1"), strange)[("outside_source", "replica-1")].is_there is None
    other = stored("replica-1", replication=(link("nat", source_server_id=99),))
    assert judged(P, unread("backup-1"), other)[("outside_source", "replica-1")].is_there is True


def test_target_of_an_active_rebuild_is_not_judged() -> None:
    target = stored("replica-1", replication=(link("10.0.0.12"),), read_only=False, is_ours=True)
    found = judged(P, B, target)
    assert {item.is_there for (_, subject), item in found.items() if subject == "replica-1"} == {None}


@pytest.mark.parametrize("name", ["primary-1", "backup-1", "replica-1"])
@pytest.mark.parametrize("answers", [True, False])
def test_one_failed_probe_makes_no_difference(name: str, answers: bool) -> None:
    members = [unread(item.name, answers=answers) if item.name == name else item for item in (P, B, R)]
    assert there(*members) == set()


READ = st.sampled_from(["10.0.0.11", "10.0.0.12", "10.0.0.13", "172.16.0.1", "", "none"])


@given(
    sources=st.tuples(READ, READ, READ),
    read_only=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    lost=st.sets(st.sampled_from(["primary-1", "backup-1", "replica-1"])),
)
def test_unprobed_server_makes_no_difference(
    sources: tuple[str, ...], read_only: tuple[bool, ...], lost: set[str]
) -> None:
    members = []
    for name, source, only in zip(("primary-1", "backup-1", "replica-1"), sources, read_only, strict=True):
        links = () if source == "none" else (link(source),)
        members.append(unread(name) if name in lost else stored(name, replication=links, read_only=only))
    found = judged(*members)
    assert len(found) == len(compare(KnownCluster(tuple(members), FRESH_SINCE)))  # one judgement for each
    for (code, subject), item in found.items():
        assert code in MEANINGS
        if subject in lost and code != "loop":
            assert item.is_there is None
        assert item.rests_on or item.is_there is None


def test_failover_rests_on_new_primary_followers_and_old_primary() -> None:
    item = judged(unread("primary-1"), stored("backup-1", replication=FROM_R), NEW)[("failover", "replica-1")]
    assert len(item.rests_on) == 3
    assert item.about == "primary-1"


def test_plan_is_refused_only_by_relevant_differences() -> None:
    inputs = builders.inputs()
    assert [item.severity for item in topology_is_as_stored(inputs)] == [Severity.OK]
    chain = OpenDifference("chain", "replica-1", "replica-1 replicates from backup-1.", NOW, matters=False)
    failover = OpenDifference("failover", "replica-1", "replica-1 takes writes.", NOW)
    assert [item.severity for item in topology_is_as_stored(replace(inputs, differences=(chain,)))] == [Severity.OK]
    (finding,) = topology_is_as_stored(replace(inputs, differences=(chain, failover)))
    assert (finding.code, finding.severity, finding.seen) == (
        "topology.differs",
        Severity.REFUSAL,
        "replica-1 takes writes.",
    )
    assert describe_difference([failover]).endswith(failover.text.rstrip("."))


def test_unreadable_files_neither_begin_nor_end_a_difference() -> None:
    assert judged(P, B, on_files("ibdata1 7 170", ""))["data_replaced", "replica-1"].is_there is None


@pytest.mark.parametrize(
    ("version", "seen", "now", "lost"),
    [
        ("10.11.19", "0-11-40", "0-11-41", ""),
        ("10.11.19", "0-11-40,1-12-7", "0-11-30,1-12-7", "0-11-40"),
        ("10.11.19", "0-11-40", "", "0-11-40"),
        ("10.11.19", "", "0-11-40", ""),
        ("8.0.46", f"{UUID}:1-40", f"{UUID}:1-39", f"{UUID}:40"),
        ("8.0.46", "0-11-40", f"{UUID}:1-39", ""),  # MariaDB was here: its words say nothing to MySQL
    ],
)
def test_arrange_draws_a_tree(version: str, seen: str, now: str, lost: str) -> None:
    flavor = "mariadb" if version.startswith("10") else "mysql"
    assert transactions_lost(server(13, version=version, flavor=flavor, gtid_executed=now), seen) == lost
