"""How long a rebuild will take, from this fleet's own history. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dbops.engine.schedule.backup_windows import Duration, learn


@dataclass(frozen=True, slots=True)
class Past:
    """One rebuild that succeeded: its seconds from start to end, and the bytes that it copied, where they are known."""

    seconds: float
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds from start to end. ``duration`` is ``None`` where nothing is known; ``words`` say what it rests on, or why not."""

    duration: Duration | None
    words: str


def predict(own: Sequence[Past], others: Sequence[Past] = (), *, bytes_to_copy: int | None = None) -> Prediction:
    """Return how long a rebuild of a cluster takes.

    Args:
        own: rebuilds of this cluster, the latest first. Scaled to ``bytes_to_copy`` where both sizes are known.
        others: rebuilds of the other clusters, the latest first. They count where there is none of its own, and only by
            their bytes a second.
        bytes_to_copy: of the source, ``None`` where it was not measured.
    """
    if own:
        duration = learn([_scaled(past, bytes_to_copy) for past in own])
        count = duration.runs if duration else 0
        what = "the last rebuild" if count == 1 else f"the last {count} rebuilds"
        return Prediction(duration, f"from {what} of this cluster")
    measured = [past for past in others if past.bytes and past.seconds > 0]
    if not measured:
        return Prediction(None, "How long it takes is not known: no rebuild has succeeded here yet.")
    if bytes_to_copy is None:
        return Prediction(None, "How long it takes is not known: the size of the source was not measured yet.")
    duration = learn([_scaled(past, bytes_to_copy) for past in measured])
    return Prediction(duration, "from the size of the source and the speed of this fleet's other rebuilds")


def _scaled(past: Past, bytes_to_copy: int | None) -> float:
    return past.seconds * bytes_to_copy / past.bytes if past.bytes and bytes_to_copy else past.seconds
