"""Journals: collect reports of the work and write them at most once a second, with the heartbeat and the cancel check."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

from dbops.database import clock
from dbops.engine.errors import Cancelled, DbopsError
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.certificate.record import RECORD
from dbops.engine.rebuilds.metrics import Figures
from dbops.engine.states import Level, Status, StepState
from dbops.lifecycle import cleanups, leases, rebuild_driver, row_comparisons
from dbops.lifecycle.events import new_event
from dbops.lifecycle.leases import Lease, Run, Update
from dbops.lifecycle.rebuild_driver import RebuildLease, RebuildUpdate
from dbops.lifecycle.row_comparisons import ComparisonLease, ComparisonUpdate
from dbops.models import BackupRun, ExecutedCommand, LoadTest, Rebuild, RebuildEvent, RestoreTest
from dbops.security.redaction import RecordRedactor, redact, redact_record

WRITE_INTERVAL_SECONDS = 1.0


class BufferedJournal(ABC):
    """Collect news. A subclass's ``write`` writes them and returns whether a person requested the end."""

    def __init__(self, secrets: Sequence[str], checkpoint: dict[str, Any] | None = None) -> None:
        self.checkpoint = {} if checkpoint is None else checkpoint
        self.cancellable = True
        self._secrets = secrets
        self._redactor = RecordRedactor(secrets)
        self._written_at, self._written_memory = 0.0, ""

    @abstractmethod
    def say(self, text: str, *, level: Level = Level.INFO) -> None:
        """Add one line to the history."""

    @abstractmethod
    def write(self) -> bool:
        """Write the collected news. Return whether a person requested the end. Raises ``LeaseLost``."""

    @abstractmethod
    def cancelled(self) -> Cancelled:
        """Return the error that ends the work."""

    @property
    def is_due(self) -> bool:
        """Return whether the next ``check`` writes, and so checks the lease."""
        return time.monotonic() - self._written_at >= WRITE_INTERVAL_SECONDS

    def check(self) -> None:
        if self.is_due:
            self.flush()

    def flush(self) -> None:
        """Write the collected news now.

        Raises:
            LeaseLost: another driver owns the row.
            Cancelled: a person requested the end.
        """
        cancel = self.write()
        self._written_at = time.monotonic()
        if cancel and self.cancellable:
            raise self.cancelled()

    def redact(self, text: str) -> str:
        return redact(text, self._secrets)

    def redact_record(self, record: Any) -> Any:
        return redact_record(record, self._secrets)

    def changed_memory(self) -> dict[str, Any] | None:
        """Return the checkpoint if it differs from the stored one: a step can change it without news."""
        cleaned: dict[str, Any] = self._redactor.clean(self.checkpoint)
        text = json.dumps(cleaned, sort_keys=True)
        if text == self._written_memory:
            return None
        self._written_memory = text
        return cleaned


class RunRows(BufferedJournal, Generic[Run]):
    """The journal of a backup run, restore test or load test: lines of one history, and columns of one row."""

    def __init__(self, lease: Lease[Run], secrets: Sequence[str], checkpoint: dict[str, Any]) -> None:
        super().__init__(secrets, checkpoint)
        self._lease: Lease[Run] = lease
        self._update = Update()

    def say(self, text: str, *, level: Level = Level.INFO) -> None:
        self._update.events.append(new_event(self._lease.row, self.redact(text), level=level))

    def progress(self, **known: Any) -> None:
        """Do nothing: the row's columns show the progress."""

    def note(self, **changes: Any) -> None:
        """Write columns of the row with the next news."""
        self._update.changes.update(changes)

    def take(self) -> Update:
        """Return the news to write, with the checkpoint if it has changed."""
        update, self._update = self._update, Update()
        checkpoint = self.changed_memory()
        if checkpoint is not None:
            update.changes |= self.columns_of(checkpoint)
        return update

    def columns_of(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        """Return the columns that follow from the checkpoint."""
        return {"checkpoint": checkpoint}


class BackupJournal(RunRows[BackupRun]):
    """The journal of one backup run."""

    def progress(self, **known: Any) -> None:
        self.note(progress=known)
        if known.get("bytes") is not None:
            self.note(bytes_written=known["bytes"])

    def write(self) -> bool:
        return leases.heartbeat(self._lease, self.take()) and not self.checkpoint.get("publishing")

    def cancelled(self) -> Cancelled:
        return Cancelled("backup.cancelled", phrase("Running the backup"), cause=phrase("a person requested the stop"))


class RestoreTestJournal(RunRows[RestoreTest]):
    """The journal of one restore test: its lines are in the history of the run that it tests."""

    def say(self, text: str, *, level: Level = Level.INFO) -> None:
        super().say(phrase("Restore test {test}: {text}", test=self._lease.row.pk, text=text), level=level)

    def columns_of(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        return {"checkpoint": checkpoint, "steps": checkpoint.get("steps", [])}

    def write(self) -> bool:
        return leases.heartbeat(self._lease, self.take())

    def cancelled(self) -> Cancelled:
        return Cancelled(
            "restore_test.cancelled",
            phrase("Testing the restore of the backup"),
            cause=phrase("a person requested the stop"),
        )


class LoadTestJournal(RunRows[LoadTest]):
    """The journal of one load test."""

    def columns_of(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        return {"checkpoint": checkpoint, "steps": checkpoint.get("steps", [])}

    def write(self) -> bool:
        return leases.heartbeat(self._lease, self.take())

    def cancelled(self) -> Cancelled:
        return Cancelled(
            "load_test.cancelled", phrase("Running the load test"), cause=phrase("a person requested the stop")
        )


class _RebuildRows(BufferedJournal):
    """The engine's ``StepJournal`` over rows: events, commands and progress of one rebuild."""

    step = ""

    def __init__(self, rebuild: Rebuild, secrets: Sequence[str]) -> None:
        super().__init__(secrets)
        self.figures = Figures()
        self._rebuild, self._update = rebuild, RebuildUpdate()

    def cancelled(self) -> Cancelled:
        return Cancelled("rebuild.cancelled", phrase("Rebuilding"), cause=phrase("a person requested the stop"))

    def take(self) -> RebuildUpdate:
        update, self._update = self._update, RebuildUpdate()
        return update

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        line = self.redact(text)
        event = RebuildEvent(rebuild=self._rebuild, at=clock.now(), step=self.step, host=host, level=level, text=line)
        self._update.events.append(event)

    def progress(self, **known: Any) -> None:
        self._update.progress = (self.step, known)

    def measured(self, figures: Figures) -> None:
        self.figures = figures

    def command(self, key: str, place: str, text: str) -> None:
        """Write at once: a command has a row before it runs."""
        line = self.redact(text)
        self._update.started_commands[key] = ExecutedCommand(
            rebuild=self._rebuild, key=key, step=self.step, place=place, text=line, started_at=clock.now()
        )
        self.flush()

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        self._update.finished_commands[key] = (exit_status, self.redact(output), clock.now())


class RebuildJournal(_RebuildRows):
    """The journal of a rebuild's driver."""

    def __init__(self, lease: RebuildLease, secrets: Sequence[str]) -> None:
        super().__init__(lease.rebuild, secrets)
        self._lease = lease

    def begin(self, step: str) -> None:
        """Report for this step from now on. Measurements of another step are dropped."""
        if step != self.step:
            self.step, self.figures = step, Figures()

    def write(self) -> bool:
        return rebuild_driver.heartbeat(self._lease, self.take(), self.changed_memory())

    def end_step(self, state: StepState, result: dict[str, Any]) -> None:
        """End the current step with the collected news. Raises ``LeaseLost``."""
        checkpoint, result = self._redactor.clean(self.checkpoint), self.redact_record(result)
        rebuild_driver.end_step(self._lease, self.step, state, result, self.take(), checkpoint)
        self._written_at = time.monotonic()

    def end_badly(self, status: Status, result: dict[str, Any], *, last_step: str, error: DbopsError | None) -> None:
        """End the current step and begin the ending, in one transaction. Raises ``LeaseLost``."""
        self.cancellable = False
        rebuild_driver.end_badly(
            self._lease,
            self.step,
            status,
            self.redact_record(result),
            self.take(),
            self._redactor.clean(self.checkpoint),
            last_step=last_step,
            error=self.redact_record(error.as_record()) if error else {},
            text=self.redact(str(error)) if error else "",
        )
        self._written_at = time.monotonic()


class ComparisonJournal(BufferedJournal):
    """The journal of a row comparison: lines of its rebuild's history, and columns of its row.

    A call takes some seconds, so each check writes: it is the check of the lease before the target's replication stops.
    """

    step = ""

    def __init__(self, lease: ComparisonLease, secrets: Sequence[str], checkpoint: dict[str, Any]) -> None:
        super().__init__(secrets, checkpoint)
        self._lease, self._update = lease, ComparisonUpdate()

    def cancelled(self) -> Cancelled:
        operation = phrase("Comparing all rows of {target}", target=self._lease.comparison.target.name)
        return Cancelled("comparison.cancelled", operation, cause=phrase("a person requested the end"))

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        event = RebuildEvent(
            rebuild_id=self._lease.comparison.rebuild_id,
            at=clock.now(),
            host=host,
            level=level,
            text=self.redact(text),
        )
        self._update.events.append(event)

    def progress(self, **known: Any) -> None:
        """Do nothing: the record in the checkpoint shows the progress."""

    def measured(self, figures: Figures) -> None:
        """Do nothing: a comparison has no charts."""

    def command(self, key: str, place: str, text: str) -> None:
        """Check the lease. The statements of thousands of rounds have no rows."""
        self.flush()

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        """Do nothing: see ``command``."""

    def check(self) -> None:
        self.flush()

    def note(self, **changes: Any) -> None:
        """Write columns of the row with the next news."""
        self._update.changes.update(changes)

    def take(self) -> ComparisonUpdate:
        """Return the news to write, with the checkpoint and what follows from it."""
        update, self._update = self._update, ComparisonUpdate()
        checkpoint = self.changed_memory()
        if checkpoint is not None:
            differing = checkpoint.get(RECORD, {}).get("differing", 0)
            update.changes |= {"checkpoint": checkpoint, "differing": differing}
        update.changes["is_pausing"] = bool(self.checkpoint.get("certify.paused"))
        return update

    def write(self) -> bool:
        return row_comparisons.heartbeat(self._lease, self.take())


class SweepJournal(_RebuildRows):
    """The journal of a sweep, which has no lease and no cancellation: every line is written at once."""

    step = "sweep"

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        super().say(text, level=level, host=host)
        self.flush()

    def progress(self, **known: Any) -> None:
        """Do nothing: a sweep has no progress bar."""

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        super().finished(key, exit_status, output)
        self.flush()

    def check(self) -> None:
        """Do nothing: one sweep runs at a time, and the hosts refuse a sweep after a newer rebuild."""

    def write(self) -> bool:
        cleanups.write_sweep(self._rebuild, self.take())
        return False
