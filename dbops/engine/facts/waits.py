"""What threads waited for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitShare:
    """One wait event: how often, how long together (seconds), and its share of the active time of all threads."""

    event: str
    count: int
    seconds: float
    share: float
