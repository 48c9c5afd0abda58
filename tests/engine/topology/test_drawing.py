"""A replication graph becomes trees that contain each node once."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.topology.layout import TreeNode, arrange

KEYS = st.integers(0, 11)
GRAPHS = st.dictionaries(KEYS, st.lists(KEYS, max_size=4), max_size=12)


def walk(followers: Iterable[TreeNode[int]]) -> list[TreeNode[int]]:
    found = []
    for follower in followers:
        found += [follower, *walk(follower.below)]
    return found


@given(sources=GRAPHS, tops=st.lists(KEYS, max_size=2))
def test_arrange_draws_every_node_once_and_lists_every_arrow(sources: dict[int, list[int]], tops: list[int]) -> None:
    keys = sorted(sources)
    found = walk(arrange(keys, sources, tops))
    assert sorted(follower.key for follower in found) == keys
    for follower in found:
        told = {follower.above, *follower.also_from, *follower.closes} - {None}
        assert told == set(sources[follower.key]) & set(keys)


@given(sources=GRAPHS)
def test_arrange_starts_with_nodes_without_a_source(sources: dict[int, list[int]]) -> None:
    roots = {follower.key for follower in arrange(sorted(sources), sources)}
    assert {key for key, above in sources.items() if not set(above) & set(sources)} <= roots


def test_arrange_starts_a_ring_at_the_primary() -> None:
    (root,) = arrange(["b", "a", "c"], {"a": ["c"], "b": ["a"], "c": ["b"]}, tops=["a"])
    assert (root.key, root.closes, root.also_from) == ("a", ("c",), ())
    assert root.below[0].key == "b"
    assert root.below[0].below[0].key == "c"


def test_arrange_needs_no_recursion_for_a_long_chain() -> None:
    keys = list(range(5000))
    (root,) = arrange(keys, {key: [key - 1] for key in keys if key})
    assert root.key == 0


def test_arrange_lists_a_second_source_without_a_second_node() -> None:
    first, second = arrange(["a", "b", "c"], {"c": ["a", "b"]})
    assert [follower.key for follower in first.below] == ["c"]
    assert second.below == ()
    assert first.below[0].also_from == ("b",)
