"""What every test shares."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as properties

from dbops.database.config import MARIADB, SQLITE
from tests import order, ran, run_folder, statements, turns

# The same examples on every machine and in every run, and no clock that judges them: a shared machine is slow at times.
# `--hypothesis-profile=long` looks for new ones: after a change of what they are about, and in a quiet hour.
COMMON = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
properties.register_profile("short", derandomize=True, max_examples=100, **COMMON)
properties.register_profile("long", max_examples=2000, print_blob=True, **COMMON)
properties.load_profile("short")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """The audit log refuses to be emptied: what empties the tests' database afterwards takes that away first."""
    from tests.audit_guards import let_tests_empty_their_database  # models can be imported when Django is set up

    let_tests_empty_their_database()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tests' database is as in production.

    SQLite in a file: threads that share one in-memory database lock each other's tables. MariaDB with the collation that
    tells upper from lower case, which dbops asks for.
    """
    database = settings.DATABASES["default"]
    for_tests = database.setdefault("TEST", {})
    if database["ENGINE"] == SQLITE:
        for_tests["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
    elif database["ENGINE"] == MARIADB:
        for_tests["CHARSET"], for_tests["COLLATION"] = "utf8mb4", "utf8mb4_bin"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--left-out", help="a JSON file with the names of tests that do not run")
    turns.add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    run_folder.begin(config)
    ran.begin(config)
    statements.begin(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    return turns.header(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in turns.left_out(config.getoption("--turn")) else None


def pytest_keyboard_interrupt() -> None:
    run_folder.end_workers()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without the garbage collector (measured: it took a third of the time, in each process of a run)."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    statements.deselect(config, items)
    ran.claim(items)
    order.put_in_order(items)


def pytest_collection_finish() -> None:
    """Keep modules and collected tests from the garbage collector (measured: it took 10 to 20 % of the processor in tests of pages)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran.print_runs(terminalreporter, config)
    statements.keep()
