"""Any graph becomes trees with each node once, and boxes with arrows between them."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.topology.layout import TreeNode, arrange, lay_out

KEYS = st.integers(0, 11)
GRAPHS = st.dictionaries(KEYS, st.lists(KEYS, max_size=4), max_size=12)


def walk(followers: Iterable[TreeNode[int]]) -> list[TreeNode[int]]:
    found = []
    for follower in followers:
        found += [follower, *walk(follower.below)]
    return found


@given(sources=GRAPHS, tops=st.lists(KEYS, max_size=2))
def test_every_node_appears_once_and_every_arrow_is_listed(sources: dict[int, list[int]], tops: list[int]) -> None:
    keys = sorted(sources)
    found = walk(arrange(keys, sources, tops))
    assert sorted(follower.key for follower in found) == keys
    for follower in found:
        shown = {follower.above, *follower.also_from, *follower.closes} - {None}
        assert shown == set(sources[follower.key]) & set(keys)


@given(sources=GRAPHS)
def test_node_without_a_known_source_is_at_the_top(sources: dict[int, list[int]]) -> None:
    roots = {follower.key for follower in arrange(sorted(sources), sources)}
    assert {key for key, above in sources.items() if not set(above) & set(sources)} <= roots


def test_a_ring_begins_with_the_primary_and_says_where_it_closes() -> None:
    (root,) = arrange(["b", "a", "c"], {"a": ["c"], "b": ["a"], "c": ["b"]}, tops=["a"])
    assert (root.key, root.closes, root.also_from) == ("a", ("c",), ())
    assert root.below[0].key == "b"
    assert root.below[0].below[0].key == "c"


def test_a_long_chain_needs_no_recursion_to_be_arranged() -> None:
    keys = list(range(5000))
    (root,) = arrange(keys, {key: [key - 1] for key in keys if key})
    assert root.key == 0


def test_second_source_is_listed_and_not_drawn_twice() -> None:
    first, second = arrange(["a", "b", "c"], {"c": ["a", "b"]})
    assert [follower.key for follower in first.below] == ["c"]
    assert second.below == ()
    assert first.below[0].also_from == ("b",)


@given(sources=GRAPHS, tops=st.lists(KEYS, max_size=2), is_narrow=st.booleans())
def test_lay_out_gives_every_node_a_box_and_every_arrow_a_route(
    sources: dict[int, list[int]], tops: list[int], is_narrow: bool
) -> None:
    keys = sorted(sources)
    graph = lay_out(keys, sources, tops, is_narrow=is_narrow)
    assert sorted(node.key for node in graph.nodes) == keys
    arrows = {(source, target) for target, above in sources.items() for source in above if source in sources}
    assert sorted((route.source, route.target) for route in graph.routes) == sorted(arrows)
    assert graph == lay_out(keys, sources, tops, is_narrow=is_narrow)


@given(sources=GRAPHS, tops=st.lists(KEYS, max_size=2), is_narrow=st.booleans())
def test_lay_out_keeps_boxes_apart_and_within_the_drawing(
    sources: dict[int, list[int]], tops: list[int], is_narrow: bool
) -> None:
    graph = lay_out(sorted(sources), sources, tops, is_narrow=is_narrow)
    rows: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for node in graph.nodes:
        assert node.width > 0
        assert node.left >= 0
        assert node.left + node.width <= 100 + 1e-9
        rows[node.row].append((node.left, node.left + node.width))
    assert sorted(rows) == list(range(graph.rows))
    for boxes in rows.values():
        boxes.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(boxes))


@given(sources=GRAPHS, is_narrow=st.booleans())
def test_lay_out_gives_each_source_lanes_of_its_own(sources: dict[int, list[int]], is_narrow: bool) -> None:
    graph = lay_out(sorted(sources), sources, is_narrow=is_narrow)
    row_of = {node.key: node.row for node in graph.nodes}
    owner: dict[tuple[int, int], int] = {}
    for route in graph.routes:
        assert (route.gap, route.into_gap) == (row_of[route.source] + 1, row_of[route.target])
        assert (route.gutter is None) is (route.gap == route.into_gap)
        assert route.gutter is None or 0 <= route.gutter < graph.gutters
        for gap, lane in ((route.gap, route.lane), (route.into_gap, route.into_lane)):
            assert lane < graph.gaps[gap]
            assert owner.setdefault((gap, lane), route.source) == route.source


def test_lay_out_puts_the_primary_on_top_of_thirty_replicas() -> None:
    keys = ["primary", *(f"replica-{number}" for number in range(30))]
    graph = lay_out(keys, {key: ["primary"] for key in keys[1:]}, ["primary"])
    assert [node.key for node in graph.nodes if node.row == 0] == ["primary"]
    assert graph.rows == 6
    assert {route.gutter for route in graph.routes if route.into_gap > 1} == {0}


def test_lay_out_lets_a_node_have_two_sources() -> None:
    graph = lay_out(["a", "b", "c"], {"c": ["a", "b"]})
    (node,) = [node for node in graph.nodes if node.key == "c"]
    assert node.sources == ("a", "b")
    assert [(route.source, route.entry) for route in graph.routes] == [("a", 0), ("b", 1)]


def test_lay_out_needs_no_recursion_for_a_long_chain() -> None:
    keys = list(range(2000))
    assert lay_out(keys, {key: [key - 1] for key in keys if key}).rows == 2000
