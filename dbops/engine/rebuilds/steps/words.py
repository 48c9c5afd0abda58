"""Splitting a stored command into words. The inventory accepts only what splits."""

import shlex


def split_command(command: str) -> list[str]:
    """Return the words of a start or stop command. Raises ``ValueError`` for an open quote."""
    return shlex.split(command)
