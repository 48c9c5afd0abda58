"""Find the last successful rebuild from each source."""

from dataclasses import dataclass
from datetime import datetime, timedelta

#: An older verification is stale: the source may have become unusable unnoticed.
STALE_AFTER = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class VerifiedSource:
    """The last successful rebuild from a source; ``rebuild`` and ``at`` are ``None`` if there is none."""

    source: str
    rebuild: int | None = None
    at: datetime | None = None

    def is_stale(self, now: datetime) -> bool:
        """Return whether the source was never verified, or more than ``STALE_AFTER`` ago."""
        return self.at is None or now - self.at > STALE_AFTER


def oldest_first(sources: list[VerifiedSource]) -> list[VerifiedSource]:
    """Return the sources, those never verified first."""
    never = [source for source in sources if source.at is None]
    given = [(source.at, source) for source in sources if source.at is not None]
    return [*never, *(source for _, source in sorted(given, key=lambda item: item[0]))]
