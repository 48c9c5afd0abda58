"""No text makes a pattern slow: hosts, tools and holders of tokens choose what patterns read."""

import importlib
import pkgutil
import re
import signal
from collections.abc import Iterable, Iterator
from itertools import product
from re import _parser  # type: ignore[attr-defined]  # there is no public way to the parts of a pattern
from types import FrameType
from typing import Any

import pytest

import dbops

CHARACTERS = 8_000
#: A pattern that is linear needs milliseconds for so many characters, and one that is not needs far longer.
LONGEST_SECONDS = 0.1
MOST_PARTS = 9
#: for a class of characters
OF_CATEGORY = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}


def patterns() -> dict[str, re.Pattern[str]]:
    """Return every pattern of a module, by its text."""
    found: dict[str, re.Pattern[str]] = {}
    for module in pkgutil.walk_packages(dbops.__path__, "dbops."):
        if "hosts.scripts" not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                found |= {pattern.pattern: pattern for pattern in _patterns_in(value)}
    return found


def _patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, dict):
        yield from _patterns_in(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _patterns_in(item)


def parts(pattern: re.Pattern[str]) -> list[str]:
    """Return texts that the pattern, or a repeated part of it, accepts: what it can be pumped with."""
    found: list[str] = []
    whole: list[str] = []
    _collect(_parser.parse(pattern.pattern, pattern.flags), found, whole)
    return [*dict.fromkeys(text for text in ("a", "1", " ", "-", "".join(whole), *found) if text)][:MOST_PARTS]


def _collect(tree: Iterable[Any], found: list[str], whole: list[str]) -> None:
    for code, value in tree:
        name = str(code)
        if name == "LITERAL":
            whole.append(chr(value))
        elif name in ("ANY", "NOT_LITERAL"):
            whole.append("a")
        elif name == "IN":
            whole.append(_one_of(value))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            inner: list[str] = []
            _collect(value[2], found, inner)
            whole += inner
            found += ["".join(inner), "".join(whole)]
        elif name in ("SUBPATTERN", "ASSERT"):
            _collect(value[-1], found, whole)
        elif name == "BRANCH":
            for branch in value[1]:
                inner = list(whole)
                _collect(branch, found, inner)
                found.append("".join(inner))


def _one_of(members: list[Any]) -> str:
    code, value = members[0]
    name = str(code)
    if name == "LITERAL":
        return chr(value)
    if name == "RANGE":
        return chr(value[0])
    return OF_CATEGORY.get(str(value), "a")


def pumped(pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield long texts that make a pattern try the same characters again and again."""
    found = parts(pattern)
    for one, other in product(found, ("", *found)):
        both = one + other
        yield both * (CHARACTERS // len(both))
        yield other + one * (CHARACTERS // len(one)) + "\x00"


class TooSlowError(Exception): ...


def is_slow(pattern: re.Pattern[str], texts: Iterable[str]) -> bool:
    """Return whether the pattern needs longer than ``LONGEST_SECONDS`` of the processor for one of the texts."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for text in texts:
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SECONDS)
            pattern.sub("", text)
    except TooSlowError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return False


@pytest.mark.filterwarnings("ignore:No directory at")
def test_no_pattern_is_slow() -> None:
    found = patterns()
    assert len(found) > 50
    assert [text for text, pattern in found.items() if is_slow(pattern, pumped(pattern))] == []


@pytest.mark.parametrize("slow", [r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+(?=@)", r"(a|aa)+$"])
def test_slow_pattern_is_found(slow: str) -> None:
    pattern = re.compile(slow, re.IGNORECASE)
    assert is_slow(pattern, pumped(pattern))
