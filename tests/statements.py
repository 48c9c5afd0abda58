"""Which statements the tests of `tests/app` send to their database, and which of these tests another database needs.

A run on SQLite records the statements in a file. On another database, a test needs not run if others send each of its
statements, with the same end. That holds only while the code is as it was recorded, and never for a test without a record.
"""

import functools
import hashlib
import heapq
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.db.backends.signals import connection_created

from dbops.database.config import SQLITE
from tests import run_folder

ROOT = Path(__file__).parents[1]
#: Not in pytest's cache: runs that follow each other have caches of their own.
RECORD = ROOT / "var" / "statements-of-tests.json"
FOLDER = "tests/app/"
#: About the database itself: their tests run on each.
WHOLE = tuple(f"{FOLDER}{name}/" for name in ("audit", "database", "lifecycle", "loaders", "queries"))
#: What decides which statements are sent.
SOURCES = ("dbops/**/*.py", "tests/**/*.py", "templates/**/*.*", "*requirements*.txt", "constraints.txt")
#: Seconds of a processor, and what was sent: a test's record.
Sent = tuple[float, frozenset[str]]


@functools.lru_cache(maxsize=10_000)
def shape(sql: str) -> str:
    """Return a statement as it is with values of any number: a short text that differs where the statement does."""
    plain = re.sub(r"\(%s(, %s)*\)", "(%s)", sql)
    plain = re.sub(r"\(%s\)(, \(%s\))+", "(%s)", plain)
    plain = re.sub(r'"s\d+_x\d+"', '"savepoint"', plain)
    return hashlib.blake2b(re.sub(r"\d+", "0", plain).encode(), digest_size=6).hexdigest()


class Recorder:
    """A plugin that writes a line for each passed test of `tests/app`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._sent: set[str] = set()
        self._began = 0.0
        connection_created.connect(self._watch)

    def _watch(self, connection: Any, **_: Any) -> None:
        if self._note not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._note)

    def _note(self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        end = ""
        try:
            return execute(sql, parameters, many, context)
        except Exception as error:
            end = type(error).__name__
            raise
        finally:
            self._sent.add(f"{shape(str(sql))}{'*' * many}{end}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._sent, self._began = set(), time.process_time()
        for connection in connections.all(initialized_only=True):
            self._watch(connection)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield
        if item.nodeid.startswith(FOLDER):
            line = json.dumps([item.nodeid, time.process_time() - self._began, sorted(self._sent)])
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def begin(config: pytest.Config) -> None:
    """Record in this process if its database is SQLite's."""
    if settings.DATABASES["default"]["ENGINE"] == SQLITE:
        config.pluginmanager.register(Recorder(run_folder.shared() / f"statements-{os.getpid()}"))


def keep() -> None:
    """Keep what the processes of this run have recorded, beside what earlier runs recorded of the same code."""
    lines = [line for file in run_folder.shared().glob("statements-*") for line in file.read_text().splitlines()]
    if lines:
        code = _code()
        tests = _recorded(code) | {test: (seconds, sent) for test, seconds, sent in map(json.loads, lines)}
        RECORD.parent.mkdir(exist_ok=True)
        new = RECORD.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"code": code, "tests": tests}))
        new.replace(RECORD)


def left_out() -> list[str]:
    """Return the tests that a database other than SQLite does not need."""
    tests = {test: (seconds, frozenset(sent)) for test, (seconds, sent) in _recorded(_code()).items()}
    return sorted(tests.keys() - needed(tests))


def _recorded(code: str) -> dict[str, Any]:
    """Return what was recorded of this code."""
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {"code": ""}
    return found["tests"] if found["code"] == code else {}


def needed(tests: Mapping[str, Sent]) -> set[str]:
    """Return tests that together send all that all of them send: cheap ones first, and each of ``WHOLE``."""
    chosen = {test for test in tests if test.startswith(WHOLE)}
    covered = {statement for test in chosen for statement in tests[test][1]}
    waiting = [(-_worth(sent, covered), test) for test, sent in sorted(tests.items()) if test not in chosen]
    heapq.heapify(waiting)
    while waiting:
        known, test = heapq.heappop(waiting)
        worth = _worth(tests[test], covered)
        if not worth:
            continue
        if worth < -known:  # a chosen one sends part of it, too
            heapq.heappush(waiting, (-worth, test))
        else:
            chosen.add(test)
            covered |= tests[test][1]
    return chosen


def _worth(sent: Sent, covered: set[str]) -> float:
    """Return how many new statements a test sends per second; each test has a cost of its own."""
    return len(sent[1] - covered) / (sent[0] + 0.01)


def _code() -> str:
    """Return a text that differs where the code does."""
    files = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern))
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests that the file of ``--left-out`` names out of the run."""
    if place := config.getoption("--left-out"):
        names = set(json.loads(Path(place).read_text()))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in names])
        items[:] = [item for item in items if item.nodeid not in names]
