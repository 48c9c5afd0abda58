"""Drive a row that is one detached job: plan it once, follow its job, and clean up however it ends."""

from abc import abstractmethod
from functools import cached_property
from typing import Any, Generic, TypeVar

from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.engine.facts.instance import to_record
from dbops.engine.phrases import phrase
from dbops.engine.states import Level, RunStatus
from dbops.lifecycle.leases import Run
from dbops.worker.driver import Driver, Result
from dbops.worker.journal import RunRows

Context = TypeVar("Context")


class RunDriver(Driver[Run, Result], Generic[Run, Result, Context]):
    """Drive a backup run or restore test.

    The coming end is stored before the clean-up, so that the next driver continues with the clean-up. A new driver finds the
    job by its name instead of starting a second one.
    """

    journal: RunRows[Run]

    # --- hooks ----------------------------------------------------------------------------------------------------
    @abstractmethod
    def make_plan(self) -> Any:
        """Remove the leftovers of earlier runs, then plan this one from a new probe."""

    @abstractmethod
    def connect(self) -> Context:
        """Connect to the host with the stored plan, and raise the fence there."""

    @abstractmethod
    def clean_up(self) -> bool:
        """Stop the job and remove its files. Return whether that is done; ``False``: call again."""

    @abstractmethod
    def end(self, status: RunStatus, error: dict[str, Any], *, is_clean: bool) -> None:
        """Set the final status. ``is_clean``: no file of the run is left."""

    # --- for subclasses -------------------------------------------------------------------------------------------
    @cached_property
    def context(self) -> Context:
        """The connection to the host with the plan, which is made once."""
        if "plan" not in self.checkpoint:
            self.checkpoint["plan"] = to_record(self.make_plan())
        return self.connect()

    def set_pending_status(self, status: RunStatus, error: DbopsError | None = None) -> None:
        """Store the coming end: from now on every driver only cleans up."""
        self.checkpoint["pending_status"] = {
            "status": status.value,
            "error": self.journal.redact_record(error.as_record()) if error else {},
            "text": str(error) if error else "",
        }
        self.journal.cancellable = False
        self.journal.flush()

    # --- the hooks of every driver --------------------------------------------------------------------------------
    def is_ending(self) -> bool:
        return "pending_status" in self.checkpoint

    def may_give_up(self, error: Unreachable) -> bool:
        if self.checkpoint.get("asked"):
            return False
        error.state = phrase("Nothing was written.")
        if not isinstance(error, NoAccess):  # it names its own
            error.next_step = phrase("Check the host, then try again.")
        return True

    def begin_ending(self, error: DbopsError | None) -> None:
        self.set_pending_status(RunStatus.FAILED if error else RunStatus.CANCELLED, error)

    def finish(self) -> None:
        """Clean up, a part in each call, then end."""
        self.journal.cancellable = False
        pending_status, is_done, is_clean = self.checkpoint["pending_status"], True, True
        try:
            if "plan" in self.checkpoint:
                is_done = self.clean_up()
        except Unreachable:
            raise
        except DbopsError as error:
            self.journal.say(phrase("Clean-up: {error}", error=error), level=Level.WARNING)
            is_clean = False
        if not is_done:
            self.journal.check()
            return
        if self.checkpoint.get("asked"):  # the clean-up reached the host
            self.mark_reachable()
        if pending_status["text"]:
            self.journal.say(pending_status["text"], level=Level.ERROR)
        self.end(RunStatus(pending_status["status"]), pending_status["error"], is_clean=is_clean)
        self.has_ended = True
