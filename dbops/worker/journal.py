"""What steps tell, gathered and written at most once a second; that same write is the heartbeat and the cancel check."""

import json
import time
from typing import Any

from django.utils import timezone

from dbops.engine.errors import Cancelled, DbopsError
from dbops.engine.rebuilds.metrics import Figures
from dbops.engine.states import Level, Status, StepState
from dbops.lifecycle import rebuild_driver
from dbops.lifecycle.rebuild_driver import RebuildLease, RebuildUpdate
from dbops.models import ExecutedCommand, RebuildEvent
from dbops.security.redaction import RecordRedactor, redact, redact_record

WRITE_INTERVAL_SECONDS = 1.0


class RowJournal:
    """The engine's ``Journal`` over rows."""

    def __init__(self, lease: RebuildLease, secrets: list[str]) -> None:
        self.step = ""
        self.cancellable = True
        self.checkpoint: dict[str, Any] = {}
        self.figures = Figures()
        self._lease, self._secrets = lease, secrets
        self._news = RebuildUpdate()
        self._written_at = 0.0
        self._written_memory = ""
        self._cleaner = RecordRedactor(secrets)

    def begin(self, step: str) -> None:
        """Tell of this step from now on. What was measured of another one is not its own."""
        if step != self.step:
            self.step, self.figures = step, Figures()

    def say(self, text: str, *, level: Level = Level.INFO, host: str = "") -> None:
        self._news.events.append(
            RebuildEvent(
                rebuild=self._lease.rebuild,
                at=timezone.now(),
                step=self.step,
                host=host,
                level=level,
                text=redact(text, self._secrets),
            )
        )

    def progress(self, **known: Any) -> None:
        self._news.progress = (self.step, known)

    def measured(self, figures: Figures) -> None:
        self.figures = figures

    def command(self, key: str, place: str, text: str) -> None:
        """Written at once: a command is a row before it runs."""
        self._news.started_commands[key] = ExecutedCommand(
            rebuild=self._lease.rebuild,
            key=key,
            step=self.step,
            place=place,
            text=redact(text, self._secrets),
            started_at=timezone.now(),
        )
        self.flush()

    def finished(self, key: str, exit_status: int | None, output: str = "") -> None:
        self._news.finished_commands[key] = (exit_status, redact(output, self._secrets), timezone.now())

    @property
    def is_due(self) -> bool:
        """Whether the next ``check`` writes, and so proves the lease."""
        return time.monotonic() - self._written_at >= WRITE_INTERVAL_SECONDS

    def check(self) -> None:
        if self.is_due:
            self.flush()

    def flush(self) -> None:
        """Write what is gathered, now.

        Raises:
            LeaseLost: another driver owns the rebuild.
            Cancelled: a person asked for the end.
        """
        news, self._news = self._news, RebuildUpdate()
        checkpoint = self._changed_memory()
        cancel = rebuild_driver.heartbeat_rebuild(self._lease, news, checkpoint)
        self._written_at = time.monotonic()
        if cancel and self.cancellable:
            raise Cancelled("rebuild.cancelled", "Rebuilding", cause="a user requested it")

    def _changed_memory(self) -> dict[str, Any] | None:
        """Return the memory when it differs from what is written: a step may remember without having news."""
        cleaned = self._cleaner.clean(self.checkpoint)
        text = json.dumps(cleaned, sort_keys=True)
        if text == self._written_memory:
            return None
        self._written_memory = text
        return cleaned

    def end_step(self, state: StepState, result: dict[str, Any]) -> None:
        """Close the current step together with what is gathered. Raises ``LeaseLost``."""
        news, self._news = self._news, RebuildUpdate()
        checkpoint, result = self._cleaner.clean(self.checkpoint), redact_record(result, self._secrets)
        rebuild_driver.end_step(self._lease, self.step, state, result, news, checkpoint)
        self._written_at = time.monotonic()

    def end_badly(self, status: Status, result: dict[str, Any], *, last_step: str, error: DbopsError | None) -> None:
        """Close the current step and begin the ending, in one transaction. Raises ``LeaseLost``."""
        news, self._news = self._news, RebuildUpdate()
        self.cancellable = False
        rebuild_driver.end_badly(
            self._lease,
            self.step,
            status,
            redact_record(result, self._secrets),
            news,
            self._cleaner.clean(self.checkpoint),
            last_step=last_step,
            error=redact_record(error.as_record(), self._secrets) if error else {},
            text=redact(str(error), self._secrets) if error else "",
        )
        self._written_at = time.monotonic()
