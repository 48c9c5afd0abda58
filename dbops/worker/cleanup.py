"""Sweeps: once a silent host answers again, what an ended rebuild left there is cleaned up and its outcome brought up to date."""

import logging
import time
from contextlib import ExitStack
from typing import Any

from django.utils import timezone

from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.rebuilds.metrics import Figures
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import needs_sweep, sweep
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.engine.states import Level
from dbops.lifecycle import cleanups
from dbops.lifecycle.rebuild_driver import RebuildUpdate
from dbops.models import ExecutedCommand, Rebuild, RebuildEvent
from dbops.security.redaction import redact, redact_record
from dbops.worker.wiring import build_run, secrets_of

log = logging.getLogger(__name__)


class SweepJournal:
    """The engine's ``Journal`` for work after the end: there is no lease to prove, and nothing to cancel."""

    step = "sweep"

    def __init__(self, rebuild: Rebuild, secrets: list[str]) -> None:
        self._rebuild, self._secrets = rebuild, secrets

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        event = RebuildEvent(
            rebuild=self._rebuild,
            at=timezone.now(),
            step=self.step,
            host=host,
            level=level,
            text=redact(text, self._secrets),
        )
        cleanups.write_sweep(self._rebuild, RebuildUpdate(events=[event]))

    def progress(self, **known: Any) -> None:
        """A sweep has no bar."""

    def measured(self, figures: Figures) -> None:
        """A sweep has no charts."""

    def command(self, key: str, place: str, text: str) -> None:
        command = ExecutedCommand(
            rebuild=self._rebuild,
            key=key,
            step=self.step,
            place=place,
            text=redact(text, self._secrets),
            started_at=timezone.now(),
        )
        cleanups.write_sweep(self._rebuild, RebuildUpdate(started_commands={key: command}))

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        known = {key: (exit_status, redact(output, self._secrets), timezone.now())}
        cleanups.write_sweep(self._rebuild, RebuildUpdate(finished_commands=known))

    def check(self) -> None:
        """Nobody else sweeps at this moment, and the hosts refuse whoever comes after a newer rebuild."""


def sweep_one(rebuild_id: int) -> bool:
    """Sweep one rebuild if that is due. Return whether everything is clean now. Never raises for what hosts do."""
    # Taken before the holds are looked at: whatever rebuild starts after that shows the hosts a larger token.
    token = int(time.time()) * 1_000_000
    rebuild = cleanups.claim_sweep(rebuild_id)
    if rebuild is None:
        return False
    secrets = secrets_of(rebuild.target.cluster)
    with ExitStack() as stack:
        plan = from_record(Plan, rebuild.plan)
        run = build_run(rebuild, plan, SweepJournal(rebuild, secrets), stack, token=token)
        try:
            errors = sweep(run, method_named(rebuild.method).steps)
        except DbopsError as error:
            errors = [error]
        for trouble in errors:
            log.info("sweeping rebuild %s: %s", rebuild_id, trouble)
        is_clean = not errors and not needs_sweep(run)
        outcome = (
            f"{describe_data_location(run)} {run.checkpoint.get('source_differs', '')}".strip() if is_clean else ""
        )
        if run.checkpoint.get("verified") and is_clean:
            outcome = f"{rebuild.outcome} What was left on the hosts is cleaned up."
        cleanups.end_sweep(rebuild, redact_record(run.checkpoint, secrets, limit=None), outcome)
    return is_clean
