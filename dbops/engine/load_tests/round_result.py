"""What one round measured."""

from dataclasses import dataclass, field
from datetime import datetime

from dbops.engine.facts.waits import WaitShare as WaitShare

#: A generator that used more than this share of the cores it may use measures itself.
SATURATED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Second:
    """One second of a round: statements and errors in it, and its 95th percentile of latency in ms, if known."""

    second: int
    queries: float
    errors: float
    p95_ms: float | None = None


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One finished round.

    ``buckets``: latency histogram, (upper bound in ms, statements), ascending. ``generator_cores`` and ``server_cores``: CPU used, as
    cores. ``tunnel_cores``: that of the busiest process of the connection to a generator on another host. ``counters``: differences of
    status counters over the round. ``waits``: largest first; empty if they were not read.
    ``events``: transactions, or statements where a profile has none. ``unserved``: events that were due at the wanted rate and not begun.
    ``schemas_visited``: copies that were used. ``errors_by_number``: 0 for other numbers; ``last_error`` is one of their texts.
    """

    number: int
    started_at: datetime
    finished_at: datetime
    queries: int
    errors: int
    buckets: tuple[tuple[float, int], ...]
    seconds: tuple[Second, ...] = ()
    min_ms: float | None = None
    max_ms: float | None = None
    average_ms: float | None = None
    generator_cores: float | None = None
    server_cores: float | None = None
    waits: tuple[WaitShare, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    events: int = 0
    unserved: int = 0
    schemas_visited: int = 0
    errors_by_number: dict[int, int] = field(default_factory=dict)
    last_error: str = ""
    tunnel_cores: float | None = None
