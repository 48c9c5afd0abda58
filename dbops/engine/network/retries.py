"""How long to wait before another attempt."""


def wait_after(failures: int, *, first: int, longest: int) -> int:
    """Return how many seconds to wait after so many failures in a row: twice as long each time, from ``first`` up to ``longest``."""
    return min(longest, first * 2 ** min(failures - 1, 10)) if failures else 0
