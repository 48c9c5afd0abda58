"""Quote text for command lines; the only place that does."""

import shlex
from collections.abc import Iterable

from dbops.engine.errors import Refused


def quote(arguments: Iterable[str]) -> str:
    """Return a POSIX command line in which each argument is one word without expansion.

    Raises:
        Refused: An argument contains a NUL byte, which command lines do not support (``ssh.nul_byte``).
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
