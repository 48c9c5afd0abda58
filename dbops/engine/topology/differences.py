"""A confirmed difference for pages, plans and the scheduler."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dbops.engine.phrases import phrase


@dataclass(frozen=True, slots=True)
class OpenDifference:
    """A difference that two successive probes of every server involved have seen, and that was not accepted.

    ``matters``: rebuilds of the cluster wait for it. ``since`` is when it was first seen.
    """

    code: str
    subject: str
    text: str
    since: datetime
    matters: bool = True


def describe_difference(differences: Iterable[OpenDifference]) -> str:
    """Return the reason why rebuilds wait, in one sentence."""
    texts = "; ".join(item.text.rstrip(".") for item in differences)
    return phrase("the topology differs from the inventory: {texts}", texts=texts) if texts else ""
