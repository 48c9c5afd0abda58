"""A difference that has been confirmed, as other pages, plans and the scheduler tell of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class OpenDifference:
    """A difference that was seen in two probes in a row of every server that it rests on, and that was not accepted.

    ``matters``: rebuilds of the cluster wait for it. ``since`` is when it was first seen.
    """

    code: str
    subject: str
    text: str
    since: datetime
    matters: bool = True


def describe_difference(differences: Iterable[OpenDifference]) -> str:
    """Return the reason why rebuilds wait, in one sentence."""
    texts = [item.text.rstrip(".") for item in differences]
    return f"the topology differs from the inventory: {'; '.join(texts)}" if texts else ""
