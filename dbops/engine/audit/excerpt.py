"""Extract audit entries together with their part of the hash chain.

A hash covers the whole entry, so omitted entries can't be verified. The excerpt lists these holes with the hashes at
both ends; the full export has the entries.
"""

from collections.abc import Sequence
from typing import Any

from dbops.engine.audit.chain import GENESIS, ChainEntry, ChainHead, covered


def excerpt(links: Sequence[ChainEntry], head: ChainHead) -> dict[str, Any]:
    """Return entries, the holes between them, and the head, as plain data.

    Args:
        links: the chosen entries, oldest first, up to the head.
        head: the head of the log at the time of reading.
    """
    return {
        "entries": [{**covered(link), "hash": link.hash} for link in links],
        "holes": holes(links, head),
        "head": {"sequence": head.sequence, "hash": head.hash},
    }


def holes(links: Sequence[ChainEntry], head: ChainHead) -> list[dict[str, Any]]:
    """Return the omitted ranges: first and last number, the hash before the first, and the hash of the last."""
    found: list[dict[str, Any]] = []
    expected, last = 1, GENESIS
    for link in links:
        if link.sequence > expected:
            found.append({"from": expected, "to": link.sequence - 1, "follows": last, "ends_with": link.previous})
        expected, last = link.sequence + 1, link.hash
    if head.sequence >= expected:
        found.append({"from": expected, "to": head.sequence, "follows": last, "ends_with": head.hash})
    return found
