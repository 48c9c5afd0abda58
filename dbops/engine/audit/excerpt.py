"""Some entries of the audit log, with what of the chain goes with them: for a file that leaves the others out.

A hash covers the whole entry, so what lies between two of them cannot be proven without showing it. The file says where such holes
are, and from which hash to which; the full export closes them.
"""

from collections.abc import Sequence
from typing import Any

from dbops.engine.audit.chain import GENESIS, ChainEntry, ChainHead, covered


def excerpt(links: Sequence[ChainEntry], head: ChainHead) -> dict[str, Any]:
    """Return whole entries, the holes between them, and the log's head, as plain data.

    Args:
        links: the chosen entries, oldest first, none above the head.
        head: the end of the log when they were read.
    """
    return {
        "entries": [{**covered(link), "hash": link.hash} for link in links],
        "holes": holes(links, head),
        "head": {"sequence": head.sequence, "hash": head.hash},
    }


def holes(links: Sequence[ChainEntry], head: ChainHead) -> list[dict[str, Any]]:
    """Return where other entries stand: their first and last number, the hash that the first follows, and that of the last."""
    found: list[dict[str, Any]] = []
    expected, last = 1, GENESIS
    for link in links:
        if link.sequence > expected:
            found.append({"from": expected, "to": link.sequence - 1, "follows": last, "ends_with": link.previous})
        expected, last = link.sequence + 1, link.hash
    if head.sequence >= expected:
        found.append({"from": expected, "to": head.sequence, "follows": last, "ends_with": head.hash})
    return found
