"""Drive one row comparison: a round in each call, then a pause in which the worker is free for others."""

from contextlib import ExitStack

from django.conf import settings

from dbops.engine.errors import Cancelled, DbopsError, Unreachable
from dbops.engine.facts.instance import from_record
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.certificate.record import DIFFERS, RECORD
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.certify.continued import PATIENCE_SECONDS, continue_comparison, stop, waits
from dbops.engine.rebuilds.steps.run import StepOutcome
from dbops.engine.states import Level, RunStatus
from dbops.lifecycle import row_comparisons
from dbops.lifecycle.row_comparisons import ComparisonLease
from dbops.loaders.accounts import secrets_of
from dbops.models import RowComparison
from dbops.worker.driver import Driver
from dbops.worker.journal import ComparisonJournal
from dbops.worker.wiring import build_comparison_run


class ComparisonDriver(Driver[RowComparison, StepOutcome]):
    """Compare the rows that a rebuild's certificate left. It changes nothing but the moment in which the target's replication stops."""

    journal: ComparisonJournal
    take_lease = staticmethod(row_comparisons.take_lease)

    def __init__(self, lease: ComparisonLease, stack: ExitStack) -> None:
        super().__init__(lease, stack)
        rebuild = self.row.rebuild
        self.journal = ComparisonJournal(lease, secrets_of(rebuild.target.cluster), self.checkpoint)
        self.run = build_comparison_run(self.row, from_record(Plan, rebuild.plan), self.journal, stack, self.checkpoint)

    def is_ending(self) -> bool:
        return False

    def finish(self) -> None:
        """Do nothing: a comparison ends in one write."""

    def step(self) -> StepOutcome:
        # a target that a dead driver left stopped replicates first, whatever is in the way
        if not self.checkpoint.get("certify.paused") and (reason := row_comparisons.in_the_way(self.row)):
            return waits(self.run, reason)
        pause = float(settings.COMPARISON_PAUSE_SECONDS)
        return continue_comparison(self.run, lambda: row_comparisons.may_pause(self.lease), pause)

    def record(self, result: StepOutcome) -> float | None:
        if result.done:
            rows = self.checkpoint[RECORD]["rows"]
            text = f"All compared rows are equal: {rows['count']} rows of {rows['tables']} tables after the rebuild."
            self._end(RunStatus.SUCCEEDED, None, text)
            return None
        self.journal.note(waiting_for=str(result.result.get("waits", ""))[:500])
        self.journal.flush()
        return result.wait_seconds or None

    def begin_ending(self, error: DbopsError | None) -> float | None:
        self.journal.cancellable = False
        try:
            stop(self.run)
        except Unreachable as silence:
            return self.ask_again(
                phrase("The comparison ends when the target is known to replicate: {error}", error=silence)
            )
        except DbopsError as trouble:
            self.journal.say(phrase("Ending the comparison of all rows: {error}", error=trouble), level=Level.WARNING)
        status = RunStatus.FAILED if error else RunStatus.CANCELLED
        error = error or Cancelled(
            "comparison.cancelled", phrase("Comparing all rows of {target}", target=self.row.target.name)
        )
        text = (
            str(error)
            if error.code == DIFFERS
            else phrase("The comparison of all rows is not complete. {error}", error=error)
        )
        self._end(status, error, text)
        return None

    def _end(self, status: RunStatus, error: DbopsError | None, text: str) -> None:
        record = self.journal.redact_record(error.as_record()) if error else {}
        row_comparisons.finish(self.lease, status, self.journal.take(), record, self.journal.redact(text))
        self.has_ended = True

    def meet_silence(self, error: Unreachable) -> float | None:
        if self.may_give_up(error):
            return self.begin_ending(error)
        return self.ask_again(phrase("The comparison of all rows waits: {error}", error=error))

    def may_give_up(self, error: Unreachable) -> bool:  # noqa: ARG002 - the same for each
        return self._silent_seconds() > PATIENCE_SECONDS and not self.checkpoint.get("certify.paused")
