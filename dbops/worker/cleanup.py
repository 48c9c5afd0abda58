"""Sweep after a rebuild: clean up its hosts once they answer, and update its outcome."""

import logging
from contextlib import ExitStack

from dbops.database import clock
from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import from_record
from dbops.engine.methods import method_named
from dbops.engine.phrases import joined, phrase
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.finish.sweep import needs_sweep, sweep
from dbops.engine.rebuilds.steps.preflight.data_location import describe_data_location
from dbops.lifecycle import cleanups
from dbops.loaders.accounts import secrets_of
from dbops.models.leased import TOKENS_PER_SECOND
from dbops.security.redaction import redact_record
from dbops.worker.journal import SweepJournal
from dbops.worker.wiring import build_run

log = logging.getLogger(__name__)


def sweep_one(rebuild_id: int) -> bool:
    """Sweep one rebuild if due. Return whether everything is clean now. Never raises for host errors."""
    # Taken before the holds are checked: a rebuild that starts later shows the hosts a larger fence.
    token = int(clock.now().timestamp()) * TOKENS_PER_SECOND
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
        outcome: str = ""
        if is_clean:
            parts = (describe_data_location(run), run.checkpoint.get("source_differs", ""))
            outcome = joined(part for part in parts if part)
        if run.checkpoint.get("verified") and is_clean:
            outcome = joined((rebuild.outcome, phrase("What was left on the hosts is cleaned up.")))
        cleanups.end_sweep(rebuild, redact_record(run.checkpoint, secrets, limit=None), outcome)
    return is_clean
