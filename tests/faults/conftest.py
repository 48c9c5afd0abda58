"""``--full``, the matrix, one dashboard with its lab for all modules, and the table at the end."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict

import pytest

from tests.faults import outcomes
from tests.faults.matrix import Fault, cases, of_kinds
from tests.faults.run import run_fault
from tests.stack import Stack, running_stack

#: Under this name a test's report carries its row.
PROPERTY = "fault"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="inject each fault in every step that it can hit")


def is_full(config: pytest.Config) -> bool:
    return bool(config.getoption("--full", default=False))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the arguments ``fault`` and ``step`` runs for its module's ``KINDS`` (or its one ``KIND``)."""
    if {"fault", "step"} <= set(metafunc.fixturenames):
        kinds = getattr(metafunc.module, "KINDS", None) or (metafunc.module.KIND,)
        found = cases(of_kinds(*kinds), full=is_full(metafunc.config))
        metafunc.parametrize(("fault", "step"), found, ids=[f"{fault.name}-{step}" for fault, step in found])


class Stage:
    """The running dashboard and lab. After a violation nothing of them is trusted: new ones are made."""

    def __init__(self, flavor: str = "mariadb") -> None:
        self._flavor, self._parts = flavor, ExitStack()
        self._running: Stack | None = None

    @property
    def stack(self) -> Stack:
        if self._running is None:
            self._running = self._parts.enter_context(running_stack(size="64M", flavor=self._flavor))
        return self._running

    def clear(self) -> None:
        self._running = None
        self._parts.close()


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    made = Stage()
    try:
        yield made
    finally:
        made.clear()


class Player:
    """Runs a fault, records the row and asserts that nothing was violated."""

    def __init__(self, stage: Stage, properties: list[tuple[str, object]], *, full: bool) -> None:
        self.stage, self.properties, self.full = stage, properties, full

    def __call__(self, fault: type[Fault], step: str) -> None:
        try:
            row, evidence = run_fault(self.stage.stack, fault, step, full=self.full)
        except BaseException:
            self.stage.clear()
            raise
        self.properties.append((PROPERTY, asdict(row)))
        if row.violations:
            self.stage.clear()
            raise AssertionError("\n".join([*row.violations, evidence]))


@pytest.fixture
def player(stage: Stage, request: pytest.FixtureRequest) -> Player:
    return Player(stage, request.node.user_properties, full=is_full(request.config))


class Collector:
    """Gathers the rows from the reports: those of modules that ran side by side, in processes of their own, come that way too."""

    def __init__(self) -> None:
        self.rows: list[outcomes.Row] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.rows += [outcomes.Row(**row) for name, row in report.user_properties if name == PROPERTY]


COLLECTOR = pytest.StashKey[Collector]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COLLECTOR] = Collector()
    config.pluginmanager.register(config.stash[COLLECTOR])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[COLLECTOR].rows
    if rows:
        outcomes.keep(rows)
        terminalreporter.section("faults")
        for line in outcomes.table(rows):
            terminalreporter.write_line(line)
