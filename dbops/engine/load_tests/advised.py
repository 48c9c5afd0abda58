"""What an A/B test says of an advice: only if its load exercises the setting, and measured in the advised direction."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dbops.engine.capacity.advice_inputs import AdviceKind, MeasuredChange, kind_of
from dbops.engine.load_tests.sql import first_word
from dbops.engine.load_tests.workload import Profile

#: Profiles whose statements change rows that exist, so that purge has work.
_UPDATES = frozenset({Profile.WRITE_ONLY, Profile.READ_WRITE})
#: What exercises a setting: profiles, and the first words of which statements of rotating schemas have one. The few tables of sysbench
#: fit into any cache, and reads write no page. A kind that is not here is exercised by every load.
_EXERCISED_BY: Mapping[AdviceKind, tuple[frozenset[Profile], frozenset[str]]] = {
    AdviceKind.TABLE_CACHES: (frozenset({Profile.ROTATING}), frozenset()),
    AdviceKind.PURGE: (_UPDATES, frozenset({"update", "delete", "replace"})),
    **dict.fromkeys(
        (AdviceKind.REDO_CAPACITY, AdviceKind.DOUBLEWRITE),
        (_UPDATES | {Profile.INSERT}, frozenset({"insert", "update", "delete", "replace"})),
    ),
}
_SIZE = re.compile(r"(\d{1,20})([kmgt]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
#: What doublewrite's words are to the advice to turn it off.
_DOUBLEWRITE = {"on": 0, "1": 0, "true": 0, "detect_and_recover": 0, "off": 1, "0": 1, "false": 1}
#: A setting that a test of table caches can change, and that no advice does: more of them is neither better nor worse.
_UNDIRECTED = "table_open_cache_instances"


def measured_change(
    test: int, request: Mapping[str, Any], server: Sequence[str], ratio: Mapping[str, Any]
) -> MeasuredChange | None:
    """Return what an A/B test measured of an advice; ``None`` if it is a test of none.

    A test in which B has the value from which the advice leads away is that of the advice with its arms exchanged.

    Args:
        test: its number.
        request: as stored.
        server: options of its scratch server, ``--name=value``: an arm without a setting has this one.
        ratio: that of B by A, with its interval (``ratio``, ``low``, ``high``).
    """
    base = {**_of_server(server), **_named(request.get("options", ()))}
    a, b = (_named(request.get(arm, ())) for arm in ("options_a", "options_b"))
    names = {*a, *b}
    kind = kind_of(names)
    if kind is None or not _is_exercised(kind, request.get("workload", {})):
        return None
    direction = _direction([(name, a.get(name, base.get(name)), b.get(name, base.get(name))) for name in names])
    figures = ratio["ratio"], ratio["low"], ratio["high"]
    if not direction or not all(figures):
        return None
    between, low, high = figures if direction > 0 else (1 / figures[0], 1 / figures[2], 1 / figures[1])
    return MeasuredChange(kind, test, between, low, high)


def _named(options: Sequence[Sequence[str]]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in options}


def _of_server(options: Sequence[str]) -> dict[str, str]:
    plain = (one.removeprefix("--").removeprefix("loose-").partition("=") for one in options)
    return {name.replace("-", "_"): value for name, _, value in plain}


def _is_exercised(kind: AdviceKind, workload: Mapping[str, Any]) -> bool:
    if kind not in _EXERCISED_BY:
        return True
    profiles, words = _EXERCISED_BY[kind]
    if workload.get("profile") in profiles:
        return True
    return workload.get("profile") == Profile.ROTATING and any(
        first_word(text) in words for text in workload.get("statements", ())
    )


def _direction(changes: Sequence[tuple[str, str | None, str | None]]) -> int:
    """Return 1 if B is where the advice leads from A, -1 for the opposite, 0 if that is unknown or settings disagree."""
    signs = set()
    for name, old, new in changes:
        if old is None or new is None or old == new:
            continue
        before, after = _place(name, old), _place(name, new)
        if before is None or after is None:
            return 0
        signs.add((after > before) - (after < before))
    signs.discard(0)
    return signs.pop() if len(signs) == 1 else 0


def _place(name: str, value: str) -> int | None:
    """Return a number that is the larger, the further a value is in the advised direction."""
    if name == "innodb_doublewrite":
        return _DOUBLEWRITE.get(value.strip().lower())
    found = _SIZE.fullmatch(value.strip())
    if name == _UNDIRECTED or not found:
        return None
    return int(found.group(1)) * _UNITS[found.group(2).lower()]
