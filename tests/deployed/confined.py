"""Run programs as an account without a name, where nothing but one folder can be written."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.stack import ROOT

ACCOUNT = 54321
#: an account of every Debian that has a group with its name
OTHER_GROUP = 8


def confined(words: Sequence[Any], writable: Path, *before: str, groups: Sequence[int] = ()) -> list[str]:
    """Return the command that runs these words as the account ``ACCOUNT`` with a read-only root file system.

    Args:
        words: program and arguments.
        writable: the one folder that stays writable, besides /tmp.
        before: shell commands of root before that, in the program's own mount namespace.
        groups: more groups of the account.
    """
    account = [f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    groups_of = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    lines = [
        *_reachable(Path(sys.base_prefix), ROOT, hold=writable.parent),
        *before,
        f"mount --bind {shlex.quote(str(writable))} {shlex.quote(str(writable))}",
        "mount -o remount,bind,ro /",
        "mount -t tmpfs -o mode=1777 tmpfs /tmp",
        f"cd {shlex.quote(str(ROOT))}",
        shlex.join(["exec", "setpriv", *account, groups_of, *map(str, words)]),
    ]
    return ["unshare", "--mount", "sh", "-e", "-c", "\n".join(lines)]


def _reachable(*places: Path, hold: Path) -> list[str]:
    """Return what lets any account enter these places, also below a folder of root alone, as its home is."""
    closed = {place: _closed_above(place) for place in places}
    blocked = {place: above for place, above in closed.items() if above}
    holds = {place: hold / f"hold-{number}" for number, place in enumerate(blocked)}
    return [
        *(f"mkdir -p {kept}\nmount --bind {place} {kept}" for place, kept in holds.items()),
        *(f"mount -t tmpfs -o mode=755 tmpfs {above}" for above in {*blocked.values()}),
        *(f"mkdir -p {place}\nmount --bind {kept} {place}" for place, kept in holds.items()),
    ]


def _closed_above(place: Path) -> Path | None:
    return next((above for above in reversed(place.parents) if not above.stat().st_mode & 0o001), None)
