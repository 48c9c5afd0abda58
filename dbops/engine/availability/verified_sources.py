"""How old the proof of each source is: a rebuild that was made from it and serves. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

#: A source that was not proven for longer may hold nothing that can be restored, and nobody would know.
STALE_AFTER = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class VerifiedSource:
    """The last rebuild from a source that succeeded; ``rebuild`` and ``at`` are ``None`` where there was none."""

    source: str
    rebuild: int | None = None
    at: datetime | None = None

    def is_stale(self, now: datetime) -> bool:
        """Tell whether it says nothing any more: never proven, or more than ``STALE_AFTER`` ago."""
        return self.at is None or now - self.at > STALE_AFTER


def oldest_first(restore_tests: list[VerifiedSource]) -> list[VerifiedSource]:
    """Return the proofs, those that were never given first."""
    never = [restore_test for restore_test in restore_tests if restore_test.at is None]
    given = [(restore_test.at, restore_test) for restore_test in restore_tests if restore_test.at is not None]
    return [*never, *(restore_test for _, restore_test in sorted(given, key=lambda item: item[0]))]
