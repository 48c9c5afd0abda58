"""Detect stalled jobs by phase: a job without any progress for too long has stalled.

A fixed limit for a whole job kills healthy long ones; none at all lets a dead one look alive for ever. So only the time in
which nothing moved counts: no byte, no line of a log.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StallLimits:
    """Seconds without any sign of life after which a phase is told to be silent, and after which it counts as stalled.

    Args:
        notice_seconds: the history says that nothing moves.
        limit_seconds: the work is ended; 0 where silence is never a reason to end it.
    """

    notice_seconds: float
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class StallCheck:
    """``checkpoint`` is to be given back with the next look. ``silent_seconds`` is 0 while something moves."""

    checkpoint: dict[str, Any]
    silent_seconds: float
    is_to_be_told: bool
    is_stalled: bool


def signs_of(counters: Mapping[str, int], tails: Mapping[str, str], *more: object) -> str:
    """Return one word for all that would change if the work moved: bytes read and written, the ends of its logs."""
    text = repr((sorted(counters.items()), sorted(tails.items()), more))
    return f"{zlib.crc32(text.encode()):08x}"


def check_stall(before: Mapping[str, Any] | None, signs: str, now: float, patience: StallLimits) -> StallCheck:
    """Compare the signs of life with those of the last look.

    Args:
        before: the memory of the last verdict, ``None`` at the first look.
        signs: as ``signs_of`` returns them.
        now: seconds on any steady clock.
        patience: of the phase that the work is in; it may be another one at each look.
    """
    if before is None or before["signs"] != signs:
        return StallCheck({"signs": signs, "since": now, "told": False}, 0.0, is_to_be_told=False, is_stalled=False)
    silent = now - before["since"]
    stalled = 0 < patience.limit_seconds <= silent
    tell = silent >= patience.notice_seconds and not before["told"] and not stalled
    checkpoint = {**before, "told": bool(before["told"] or tell)}
    return StallCheck(checkpoint, silent, is_to_be_told=tell, is_stalled=stalled)
