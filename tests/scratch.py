"""Scratch directories that programs on a host make in /tmp. A test run that was killed leaves its own, which are not ours."""

from pathlib import Path

_BEFORE = set(Path("/tmp").iterdir())


def left_in_tmp(pattern: str) -> list[Path]:
    """Return what matches the pattern in /tmp and appeared since this process began."""
    return [path for path in Path("/tmp").glob(pattern) if path not in _BEFORE]
