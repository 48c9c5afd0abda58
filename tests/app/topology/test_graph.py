"""The drawn topology: what its boxes and arrows say."""

import re
from typing import Any

import pytest
from django.test import Client

from dbops.engine.facts.instance import Attached
from dbops.queries.fleet.cluster import cluster_page
from dbops.queries.topology import Drawn, ReplicationRow
from dbops.queries.topology import drawing as trees_of
from dbops.web.charts import topology
from tests.app.factories import make_channel, make_facts, make_instance, make_trio, set_facts


def arrows(text: str) -> dict[tuple[str, str], str]:
    """Return the state of the threads of each arrow, which both drawings show alike."""
    found = re.findall(r'data-source="([^"]*)" data-target="([^"]*)" data-threads="(\w+)"', text)
    assert len(found) == 2 * len({(source, target) for source, target, _ in found})
    return {(source, target): threads for source, target, threads in found}


def replica(name: str = "r", **values: Any) -> Drawn:
    return Drawn(key=name, name=name, role="replica", state="healthy", **values)


@pytest.mark.parametrize(
    ("row", "threads", "look"),
    [
        (ReplicationRow("p", "", True, 4.2), "running", "running"),
        (ReplicationRow("p", "", True, 4000), "running", "lagging"),
        (ReplicationRow("p", "", True), "running", "running"),
        (ReplicationRow("p", "", False), "stopped", "stopped"),
        (ReplicationRow("p", "", False, error="Duplicate entry"), "error", "error"),
        (ReplicationRow("p", "", None), "unknown", "unknown"),
    ],
)
def test_arrow_carries_the_state_of_its_threads(row: ReplicationRow, threads: str, look: str) -> None:
    text = topology.drawing([Drawn(key="p", name="p"), replica(arrows=(row,), sources=("p",))])
    assert arrows(text) == {("p", "r"): threads}
    assert f'class="topo-line is-{look}"' in text
    assert f'class="topo-label is-{look}"' in text


def test_arrow_label_carries_the_lag() -> None:
    assert topology.label(ReplicationRow("p", "", True, 4.2)).endswith("4.2 s")
    assert "4" not in topology.label(ReplicationRow("p", "", False, 4.2))


def test_arrow_of_two_connections_shows_the_worse_one() -> None:
    both = (ReplicationRow("p", "", True, 0), ReplicationRow("p", "", False))
    text = topology.drawing([Drawn(key="p", name="p"), replica(arrows=both, sources=("p", "p"))])
    assert arrows(text) == {("p", "r"): "stopped"}


def test_drawing_hides_shapes_from_screen_readers_and_lists_each_server_once() -> None:
    text = topology.drawing([Drawn(key="p", name="p", below=(replica("r-1"), replica("r-2")))])
    assert text.count('<svg class="topo-graph') == text.count('aria-hidden="true" focusable="false">') == 2
    assert text.count("<li>") == 3
    assert "style=" not in text
    assert "<a " not in text


def test_drawing_is_empty_without_servers() -> None:
    assert topology.drawing([]) == ""


def test_drawing_escapes_what_servers_say() -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    row = ReplicationRow(evil, evil, False, error=evil)
    text = topology.drawing([replica(evil, arrows=(row,), sources=(evil,), state_text=evil, lines=(evil,))])
    assert "<script" not in text
    assert "\x1b" not in text


@pytest.mark.django_db
def test_pages_draw_instances_outside_servers_and_attached_replicas(viewer: Client) -> None:
    primary, backup, third = make_trio()
    set_facts(third, make_facts(replication=(make_channel(source_host="10.9.9.9", io_running="No"),), server_id=3))
    set_facts(primary, make_facts(read_only=False, server_id=1, replicas=(Attached(77, "", 3306),)))
    expected = {
        ("primary-1", "backup-1"): "running",
        ("outside 10.9.9.9:3306", "replica-1"): "stopped",
        ("primary-1", "attached primary-1 77 "): "unknown",
    }
    for address in ("/clusters/shop/", "/clusters/shop/topology/"):
        assert arrows(viewer.get(address).content.decode()) == expected
    assert backup.name == "backup-1"


@pytest.mark.django_db
def test_drawing_shows_thirty_replicas() -> None:
    primary, _, _ = make_trio()
    for number in range(30):
        facts = make_facts(replication=(make_channel(source_host=primary.address),), server_id=number + 10)
        make_instance(f"more-{number}", cluster=primary.cluster, facts=facts)
    assert len(arrows(topology.drawing(trees_of(cluster_page(primary.cluster))))) == 32
