"""What is proposed for worlds of all kinds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.facts.server_kind import GALERA, MemberGroup, ServerKind
from dbops.engine.states import Role
from dbops.engine.topology.nodes import Node, ReplicationLink, Silent
from dbops.engine.topology.proposals import ProposedCluster, ProposedMember, propose


def node(name: str, *sources: str, **values: Any) -> Node:
    links = tuple(ReplicationLink("", source, 3306, source, is_running=True) for source in sources)
    given_values: dict[str, Any] = {
        "addresses": ((f"{name}.example", 3306),),
        "hostname": f"{name}.example",
        "server_id": sum(map(ord, name)),
        "read_only": bool(sources),
        "links": links,
        "attached": 0,
    }
    return Node(key=name, **(given_values | values))


def members(cluster: ProposedCluster) -> dict[str, ProposedMember]:
    return {member.node.key: member for member in cluster.members}


def roles(*nodes: Node) -> dict[str, Role | None]:
    return {key: member.role for cluster in propose(nodes) for key, member in members(cluster).items()}


PRIMARY, REPLICA, BACKUP = Role.PRIMARY, Role.REPLICA, Role.BACKUP


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([node("p"), node("r", "p")], {"p": PRIMARY, "r": REPLICA}, id="a pair"),
        pytest.param(
            [node("p"), node("m", "p"), node("r", "m")], {"p": PRIMARY, "m": REPLICA, "r": REPLICA}, id="a chain"
        ),
        pytest.param(
            [node("p"), node("db-backup-1", "p")], {"p": PRIMARY, "db-backup-1": BACKUP}, id="a backup by its name"
        ),
        pytest.param(
            [node("p"), node("r", "p", backups=("a dump reads tables",))],
            {"p": PRIMARY, "r": BACKUP},
            id="a backup at work",
        ),
        pytest.param(
            [node("p"), node("backup", "p"), node("r", "backup")],
            {"p": PRIMARY, "backup": REPLICA, "r": REPLICA},
            id="who has replicas is no backup",
        ),
        pytest.param(
            [node("p"), node("backup", "p", read_only=False)],
            {"p": PRIMARY, "backup": REPLICA},
            id="who takes writes is none",
        ),
        pytest.param([node("p", read_only=True), node("r", "p")], {"p": None, "r": REPLICA}, id="a read-only top"),
        pytest.param([node("alone")], {"alone": None}, id="alone"),
        pytest.param([node("p", silent=(Silent("10.0.0.9"),))], {"p": PRIMARY}, id="a replica that could not be found"),
        pytest.param(
            [node("a", "b", read_only=False), node("b", "a")], {"a": PRIMARY, "b": REPLICA}, id="a ring with one writer"
        ),
        pytest.param([node("r", "elsewhere")], {"r": REPLICA}, id="a source that was not looked at"),
        pytest.param(
            [node("r", "p"), node("p", problem=ProbeProblem("x", "denied"), links=None)],
            {"r": REPLICA, "p": None},
            id="no login",
        ),
        pytest.param(
            [node("p"), node("r", "p", links=None)], {"p": None, "r": None}, id="an account that sees nothing"
        ),
    ],
)
def test_propose_sets_roles(nodes: list[Node], expected: dict[str, Role | None]) -> None:
    assert roles(*nodes) == expected


def test_propose_names_two_writers_and_chooses_no_primary() -> None:
    (cluster,) = propose([node("a", "b", read_only=False), node("b", "a", read_only=False), node("r", "a")])
    assert set(cluster.co_primaries) == {"a", "b"}
    assert cluster.primary is None
    assert any("a, b" in remark for remark in cluster.remarks)


def test_propose_separates_unconnected_clusters() -> None:
    first, second = propose([node("p"), node("r", "p"), node("q"), node("s", "q")])
    assert (first.name, second.name) == ("p-cluster", "q-cluster")


def test_propose_names_the_source_of_a_replica_of_an_unknown_host() -> None:
    (cluster,) = propose([node("r", "gone.example")])
    assert any("gone.example:3306" in remark for remark in cluster.members[0].remarks)


def test_propose_remarks_a_shared_server_uuid() -> None:
    (cluster,) = propose([node("p", server_uuid="u"), node("r", "p", server_uuid="u")])
    assert any("server_uuid u" in remark for remark in cluster.remarks)


def test_propose_makes_valid_unique_names() -> None:
    same = [node(f"n{number}", hostname="db", addresses=((f"10.0.0.{number}", 3306),)) for number in range(3)]
    odd = node("odd", hostname="", addresses=(("[fe80::1]", 3306),))
    names = [member.name for cluster in propose([*same, odd]) for member in cluster.members]
    assert names[:3] == ["10.0.0.0-3306", "10.0.0.1-3306", "10.0.0.2-3306"]
    assert names[3] == "fe80-1"


KEYS = [f"n{number}" for number in range(9)]


@st.composite
def worlds(draw: st.DrawFn) -> list[Node]:
    found = []
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        sources = draw(st.lists(st.sampled_from(KEYS), max_size=3))
        values: dict[str, Any] = {
            "read_only": draw(st.sampled_from([True, False, None])),
            "attached": draw(st.integers(0, 2)),
            "hostname": draw(st.sampled_from(["db", "backup", "", "db.x"])),
        }
        if draw(st.integers(0, 5)) == 0:
            values |= {"problem": ProbeProblem("x", "denied"), "links": None}
        found.append(node(key, *sources, **values))
    return found


@given(worlds())
def test_propose_puts_every_node_into_one_cluster(nodes: list[Node]) -> None:
    clusters = propose(nodes)
    found = [member.node.key for cluster in clusters for member in cluster.members]
    assert sorted(found) == sorted(node.key for node in nodes)
    names = [member.name.casefold() for cluster in clusters for member in cluster.members]
    assert len(set(names)) == len(names)
    for cluster in clusters:
        primaries = {member.node.key for member in cluster.members if member.role is PRIMARY}
        assert len(primaries) <= 1 or primaries == set(cluster.co_primaries)
        assert all(member.why for member in cluster.members)
        assert not any(member.role and member.node.problem for member in cluster.members)


def test_proposal_remarks_on_groups_and_services() -> None:
    group = MemberGroup(GALERA, "shop", size=2, members=("10.0.0.1:3306", "10.0.0.2:3306"))
    nodes = [
        node("p", kind=ServerKind("MariaDB", group=group)),
        node("r", "p", kind=ServerKind("Amazon RDS (MariaDB)", managed_by="Amazon RDS")),
        node("s", "p", kind=ServerKind("MariaDB")),
    ]
    [cluster] = propose(nodes)
    remarks = {key: member.remarks for key, member in members(cluster).items()}
    assert [len(remarks[key]) for key in "prs"] == [1, 1, 0]
    assert all(place in remarks["p"][0] for place in group.members)
    assert "Amazon RDS" in remarks["r"][0]
