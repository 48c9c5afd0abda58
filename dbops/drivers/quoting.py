"""The one place where text becomes part of a command line."""

import shlex
from collections.abc import Iterable

from dbops.engine.errors import Refused


def quote(arguments: Iterable[str]) -> str:
    """Return a POSIX command line in which each argument is one word and nothing is expanded.

    Raises:
        Refused: an argument holds a NUL byte, which no command line can carry (``ssh.nul_byte``).
    """
    words = list(arguments)
    for word in words:
        if "\0" in word:
            raise Refused(
                "ssh.nul_byte",
                "Building a command for a host",
                cause=f"a NUL byte in {word[:40]!r}",
            )
    return shlex.join(words)
