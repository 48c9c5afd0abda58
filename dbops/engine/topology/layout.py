"""From arrows to a tree that can be drawn: each node once, rings and second sources told in words where they close."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TreeNode(Generic[Key]):
    """One node with those drawn below it. ``above`` is the source that it hangs from.

    ``also_from`` are its other sources, drawn elsewhere; ``closes`` those that hang below it (or are itself): the arrow closes a ring.
    """

    key: Key
    above: Key | None
    below: "tuple[TreeNode[Key], ...]" = ()
    also_from: tuple[Key, ...] = ()
    closes: tuple[Key, ...] = ()


def arrange(
    keys: Sequence[Key], sources: Mapping[Key, Iterable[Key]], tops: Iterable[Key] = ()
) -> tuple[TreeNode[Key], ...]:
    """Return trees in which each key appears exactly once, whatever the arrows are.

    Args:
        keys: every node, in the order in which they are to appear.
        sources: from whom each replicates. Sources that are no key are passed over.
        tops: keys to begin with where a choice is left (primaries), as in a ring.

    A node hangs from its first source that is drawn before it. It ends for every graph: a node is placed once and never again.
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
    # What is not reached from a root lies in a ring, or below one: begin with a primary, else with the first.
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
    """Walk down from a root without recursion: a chain may be long. Parents come before their children in ``order``."""
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
    """Return the node itself and all that it hangs from."""
    found = {key}
    above = parent[key]
    while above is not None:
        found.add(above)
        above = parent[above]
    return found
