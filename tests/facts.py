"""What probes have read, as the dashboard keeps it."""

from datetime import UTC, datetime
from typing import Any

#: Between two probes that make a rate, and a little more.
RATE_SECONDS = 1.2


def has_rate(facts: dict[str, Any]) -> bool:
    return (facts.get("server") or {}).get("redo_bytes_per_second") is not None


def is_news(facts: dict[str, Any], known: str | None) -> bool:
    """Say whether a server's answer is another than that of the time ``known``, and old enough: rates take a second."""
    if not facts.get("server") or facts["observed_at"] == known:
        return False
    return (datetime.now(UTC) - datetime.fromisoformat(facts["observed_at"])).total_seconds() > RATE_SECONDS
