"""Quote text for command lines; the only place that does."""

import re
import shlex
from collections.abc import Iterable

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase


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
                phrase("Building a command for a host"),
                cause=phrase("a NUL byte in {word}", word=repr(word[:40])),
            )
    return shlex.join(words)


#: csh allows no line break inside quotes and expands ``!`` there; fish reads ``\\`` and ``\'`` there; both depend on the locale
NOT_IN_EVERY_SHELL = re.compile(rb"[^ -~]|[!'\\]")
DECODE = 'eval "$(printf %b "$0")"'


def for_any_shell(command: str) -> str:
    """Return a command line that runs a POSIX command line, whatever the login shell is: sh, csh, fish.

    Every login shell can pass one word of plain characters to ``sh``, which decodes and runs it.
    """
    word = NOT_IN_EVERY_SHELL.sub(lambda found: b"\\0%03o" % found[0][0], command.encode()).decode()
    return f"exec sh -c '{DECODE}' '{word}'"
