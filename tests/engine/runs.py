"""A run over fakes, for steps that are looked at alone."""

from dataclasses import dataclass, field
from typing import Any

from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Clock, Database, Jobs
from dbops.engine.rebuilds.metrics import Figures
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.run import Accounts, InstanceHandle, Run, RunThresholds, Server
from dbops.engine.states import Level
from tests.fakes import FakeDatabase, FakeShell


@dataclass
class RecordedJournal:
    """A journal that keeps the keys of commands, the lines and their levels, and the last progress."""

    step: str = "step"
    commands: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    known: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        self.lines.append(text)
        self.levels.append(level)

    def progress(self, **known: Any) -> None:
        self.known = known

    def measured(self, figures: Figures) -> None:
        self.figures = figures

    def command(self, key: str, place: str, text: str) -> None:
        self.commands.append(key)

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None: ...
    def check(self) -> None: ...


def make_run(
    plan: Plan,
    jobs: Jobs,
    *,
    source: Database,
    target: Database,
    journal: RecordedJournal,
    clock: Clock,
    **checkpoint: Any,
) -> Run:
    """Return a run whose two hosts share their jobs. ``checkpoint`` is what it remembers."""

    def side(party: Any, database: Database) -> InstanceHandle:
        return InstanceHandle(party, FakeShell(), jobs, lambda _: database, host_key="ssh-ed25519 AAAA")

    account = Account("user", "password")
    return Run(
        run_id="0123456789abcdef",
        plan=plan,
        flavor=flavor_for(plan.source.version, plan.flavor),
        source=side(plan.source, source),
        target=side(plan.target, target),
        primary=Server(plan.primary, lambda _: FakeDatabase()),
        accounts=Accounts(account, account, account, account),
        checkpoint=dict(checkpoint),
        journal=journal,
        clock=clock,
        replan=lambda: plan,
        settings=RunThresholds(),
    )
