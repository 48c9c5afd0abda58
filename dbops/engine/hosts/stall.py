"""Detect stalled jobs by phase: a job without any progress for too long has stalled.

A fixed limit for a whole job would kill healthy long ones; without a limit a dead job would run forever. So only the time without
progress counts: no byte, no log line.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StallLimits:
    """Seconds without progress before a notice, and before a phase counts as stalled.

    Args:
        notice_seconds: after these the history has a notice.
        limit_seconds: after these the work is ended; 0 means never.
    """

    notice_seconds: float
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class StallCheck:
    """Result of a check. Pass ``checkpoint`` to the next one. ``silent_seconds`` is 0 during progress."""

    checkpoint: dict[str, Any]
    silent_seconds: float
    needs_notice: bool
    is_stalled: bool


def signs_of(counters: Mapping[str, int], tails: Mapping[str, str], *more: object) -> str:
    """Return one word that changes with any progress: bytes read and written, the ends of the logs."""
    text = repr((sorted(counters.items()), sorted(tails.items()), more))
    return f"{zlib.crc32(text.encode()):08x}"


def check_stall(before: Mapping[str, Any] | None, signs: str, now: float, patience: StallLimits) -> StallCheck:
    """Compare the signs of life with those of the last check.

    Args:
        before: the checkpoint of the last check, ``None`` for the first one.
        signs: as ``signs_of`` returns them.
        now: seconds on any steady clock.
        patience: of the current phase; it can differ in each check.
    """
    if before is None or before["signs"] != signs:
        return StallCheck({"signs": signs, "since": now, "noticed": False}, 0.0, needs_notice=False, is_stalled=False)
    silent = now - before["since"]
    stalled = 0 < patience.limit_seconds <= silent
    notice = silent >= patience.notice_seconds and not before["noticed"] and not stalled
    checkpoint = {**before, "noticed": bool(before["noticed"] or notice)}
    return StallCheck(checkpoint, silent, needs_notice=notice, is_stalled=stalled)
