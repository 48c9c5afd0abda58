"""Find options that a backup tool ignored: XtraBackup 2.4 takes unknown ones without a word and ends with status 0.

It logs the options that it knows, as ``recognized server arguments: --datadir=/d --parallel=2`` and ``recognized client arguments:``.
"""

import re
from collections.abc import Iterable, Sequence

_RECOGNIZED = re.compile(r"recognized (?:server|client) arguments: (.*)")
#: Read before all others, and not logged.
_FIRST = ("--defaults-file", "--defaults-group-suffix")


def ignored_options(command: Sequence[str], log: Iterable[str]) -> list[str]:
    """Return the options of a command line that the tool's log does not name; empty if the tool does not log its options.

    Args:
        command: program and options.
        log: lines of the tool, with both lists.
    """
    lists = [found[1] for line in log if (found := _RECOGNIZED.search(line))]
    if not lists:
        return []
    known = {_name(word) for line in lists for word in line.split()}
    given = [_name(word) for word in command[1:] if word.startswith("--")]
    return [name for name in dict.fromkeys(given) if name not in known and name not in _FIRST]


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-")
