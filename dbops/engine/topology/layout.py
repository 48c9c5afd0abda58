"""Place the servers of a topology: as a tree in which each appears once, and as boxes and arrows of a graph."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Boxes in a row, and the size of a tier from which a row has more of them.
COLUMNS, CROWDED, COLUMNS_CROWDED = 5, 10, 6
#: Percent of the drawing: the widest box, one lane of the gutter and all of them, one step of indentation.
WIDEST, GUTTER, GUTTER_MOST, INDENT = 34.0, 1.5, 12.0, 5.0
#: Tiers that are indented further, and the share of a column that stays free beside its box.
INDENTS, SPACE = 4, 0.06


@dataclass(frozen=True, slots=True)
class TreeNode(Generic[Key]):
    """One node with those drawn below it. ``above`` is its source in the tree.

    ``also_from`` are its other sources, drawn elsewhere; ``closes`` are sources drawn below it (or itself): their arrow closes a
    ring.
    """

    key: Key
    above: Key | None
    below: "tuple[TreeNode[Key], ...]" = ()
    also_from: tuple[Key, ...] = ()
    closes: tuple[Key, ...] = ()


def arrange(
    keys: Sequence[Key], sources: Mapping[Key, Iterable[Key]], tops: Iterable[Key] = ()
) -> tuple[TreeNode[Key], ...]:
    """Return trees in which each key appears exactly once, for any arrows.

    Args:
        keys: every node, in display order.
        sources: the sources of each node. Unknown sources are ignored.
        tops: keys to begin with if several are possible (primaries), as in a ring.

    A node is placed below its first source that is drawn before it, and only once, so every graph ends.
    """
    known = set(keys)
    upward = {key: tuple(dict.fromkeys(item for item in sources.get(key, ()) if item in known)) for key in keys}
    below: dict[Key, list[Key]] = defaultdict(list)
    for key in keys:
        for source in upward[key]:
            below[source].append(key)
    wanted = [key for key in dict.fromkeys(tops) if key in known]
    first = [key for key in wanted if not set(upward[key]) - {key}]
    first += [key for key in keys if not set(upward[key]) - {key}]
    parent: dict[Key, Key | None] = {}
    children: dict[Key, list[Key]] = defaultdict(list)
    order: list[Key] = []
    # Nodes that no root reaches are in a ring, or below one: begin with a primary, else with the first.
    for root in (*first, *wanted, *keys):
        if root not in parent:
            parent[root] = None
            _place(root, below, parent, children, order)
    made: dict[Key, TreeNode[Key]] = {}
    for key in reversed(order):
        others = tuple(source for source in upward[key] if source != parent[key])
        closing = {source for source in others if key in _ancestors(source, parent)}
        made[key] = TreeNode(
            key=key,
            above=parent[key],
            below=tuple(made[child] for child in children[key]),
            also_from=tuple(source for source in others if source not in closing),
            closes=tuple(source for source in others if source in closing),
        )
    return tuple(made[key] for key in order if parent[key] is None)


def _place(
    root: Key,
    below: Mapping[Key, list[Key]],
    parent: dict[Key, Key | None],
    children: dict[Key, list[Key]],
    order: list[Key],
) -> None:
    """Walk down from a root without recursion: a chain may be long. Parents precede their children in ``order``."""
    waiting = [root]
    while waiting:
        key = waiting.pop(0)
        order.append(key)
        for child in below.get(key, ()):
            if child not in parent:
                parent[child] = key
                children[key].append(child)
                waiting.append(child)


def _ancestors(key: Key, parent: Mapping[Key, Key | None]) -> set[Key]:
    """Return the node itself and all nodes above it."""
    found = {key}
    above = parent[key]
    while above is not None:
        found.add(above)
        above = parent[above]
    return found


@dataclass(frozen=True, slots=True)
class PlacedNode(Generic[Key]):
    """The box of one node: ``left`` and ``width`` in percent of the drawing, ``row`` from the top.

    ``sources`` are the nodes that it replicates from, in the order of their arrows.
    """

    key: Key
    tier: int
    row: int
    left: float
    width: float
    sources: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Route(Generic[Key]):
    """The path of one arrow: out of the source's box, along a lane of the gap below it, and into the target's box.

    ``gap`` and ``lane`` are those beside the source, ``into_gap`` and ``into_lane`` those above the target. Both are the same
    where the target is in the next row; else the arrow changes rows in the ``gutter`` lane beside all boxes. ``entry`` counts the
    target's arrows.
    """

    source: Key
    target: Key
    entry: int
    gap: int
    lane: int
    into_gap: int
    into_lane: int
    gutter: int | None = None


@dataclass(frozen=True, slots=True)
class Graph(Generic[Key]):
    """Nodes in rows and the arrows between them. ``gaps`` is the number of lanes above each row, and below the last one."""

    nodes: tuple[PlacedNode[Key], ...]
    routes: tuple[Route[Key], ...]
    gaps: tuple[int, ...]
    gutters: int

    @property
    def rows(self) -> int:
        return len(self.gaps) - 1


def lay_out(
    keys: Sequence[Key], sources: Mapping[Key, Iterable[Key]], tops: Iterable[Key] = (), *, is_narrow: bool = False
) -> Graph[Key]:
    """Place every node in a tier below its source, and give every arrow its own path.

    Args:
        keys: every node, in the order in which they appear.
        sources: the sources of each node. Unknown sources are left out.
        tops: keys to begin with if several are possible (primaries).
        is_narrow: one node in each row, indented below its source, for small screens.
    """
    trees = arrange(keys, sources, tops)
    known = set(keys)
    leads = {key: tuple(dict.fromkeys(one for one in sources.get(key, ()) if one in known)) for key in keys}
    tiers = _tiers(trees)
    rows = _stacked_rows(trees) if is_narrow else _tier_rows(tiers)
    row_of = {key: number for number, row in enumerate(rows) for key in row}
    far = {source for key in keys for source in leads[key] if row_of[key] != row_of[source] + 1}
    gutters = {source: number for number, source in enumerate(key for key in keys if key in far)}
    room = min(GUTTER_MOST, GUTTER * len(gutters))
    tier_of = {key: tier for tier, members in enumerate(tiers) for key in members}
    nodes: list[PlacedNode[Key]] = []
    for number, row in enumerate(rows):
        for key, left, width in _across(row, tier_of, room, widest=max(map(len, rows)), is_narrow=is_narrow):
            nodes.append(PlacedNode(key, tier_of[key], number, left, width, leads[key]))
    return _routed(tuple(nodes), row_of, gutters, len(rows))


def _tiers(trees: Iterable[TreeNode[Key]]) -> list[list[Key]]:
    tiers, level = [], list(trees)
    while level:
        tiers.append([node.key for node in level])
        level = [child for node in level for child in node.below]
    return tiers


def _walk(trees: Iterable[TreeNode[Key]]) -> Iterable[TreeNode[Key]]:
    """Yield each node before those below it, without recursion."""
    waiting = list(trees)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.below[::-1]


def _stacked_rows(trees: Iterable[TreeNode[Key]]) -> list[list[Key]]:
    return [[node.key] for node in _walk(trees)]


def _tier_rows(tiers: Sequence[Sequence[Key]]) -> list[list[Key]]:
    """Break each tier into rows of about the same length."""
    largest = max(map(len, tiers), default=0)
    most = COLUMNS if largest <= CROWDED else COLUMNS_CROWDED
    rows: list[list[Key]] = []
    for tier in tiers:
        count = -(-len(tier) // most)
        size = -(-len(tier) // count)
        rows += [list(tier[start : start + size]) for start in range(0, len(tier), size)]
    return rows


def _across(
    row: Sequence[Key], tier_of: Mapping[Key, int], room: float, *, widest: int, is_narrow: bool
) -> Iterable[tuple[Key, float, float]]:
    """Yield left and width of each box of a row in percent, with the row centred."""
    if is_narrow:
        for key in row:
            left = room + INDENT * min(tier_of[key], INDENTS)
            yield key, left, 100 - left
        return
    width = min(WIDEST, (100 - room) / widest)
    start = room + (100 - room - width * len(row)) / 2
    for number, key in enumerate(row):
        yield key, start + width * (number + SPACE / 2), width * (1 - SPACE)


def _routed(
    nodes: tuple[PlacedNode[Key], ...],
    row_of: Mapping[Key, int],
    gutters: Mapping[Key, int],
    rows: int,
) -> Graph[Key]:
    """Give each source a lane of its own in every gap that its arrows cross."""
    lanes: list[dict[Key, int]] = [{} for _ in range(rows + 1)]

    def lane(gap: int, source: Key) -> int:
        return lanes[gap].setdefault(source, len(lanes[gap]))

    routes: list[Route[Key]] = []
    for node in nodes:
        for entry, source in enumerate(node.sources):
            gap, into = row_of[source] + 1, node.row
            gutter = gutters[source] if gap != into else None
            routes.append(Route(source, node.key, entry, gap, lane(gap, source), into, lane(into, source), gutter))
    return Graph(nodes, tuple(routes), tuple(map(len, lanes)), len(gutters))
