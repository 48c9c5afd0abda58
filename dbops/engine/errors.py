"""Errors, split by who must act: the operator, the host, no one (cancelled), or us.

Each carries a stable code (an entry of ``dbops.engine.catalogue``), the operation, its cause, the current state and the next step.
"""

from typing import Any, ClassVar, Self

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.phrases import Phrase, joined, phrase


class DbopsError(Exception):
    """Base of every error that the product raises on purpose.

    Args:
        code: of an entry in the catalogue, for example ``stream.truncated``.
        operation: what failed, a phrase that starts with a capital letter.
        cause: the cause, in the words of the tool or host if there are any.
        state: the current state. Empty: as the catalogue says.
        next_step: what the reader should do. Empty: as the catalogue says.
    """

    who: ClassVar[str] = "none"

    def __init__(self, code: str, operation: str, *, cause: str = "", state: str = "", next_step: str = "") -> None:
        super().__init__(code, operation, cause, state, next_step)
        # A test holds that every code has an entry; at run time a missing text must not hide the error.
        entry = CATALOGUE.get(code)
        self.code = code
        self.operation = operation
        self.cause = cause
        self.state = state or (entry.state if entry else "")
        self.next_step = next_step or (entry.next_step if entry else "")
        #: Plain data for the audit log: codes and fingerprints, nothing that anybody typed.
        self.audit_detail: dict[str, Any] = {}

    def __str__(self) -> Phrase:
        # A phrase also in other texts and histories: ``str()`` returns what this returns.
        first = (
            phrase("{operation}: {cause}", operation=self.operation, cause=self.cause) if self.cause else self.operation
        )
        # The catalogue's texts are patterns of their own.
        rest = [part if isinstance(part, Phrase) else Phrase(part, {}) for part in (self.state, self.next_step) if part]
        ended = [part if part.endswith((".", "!", "?")) else phrase("{text}.", text=part) for part in (first, *rest)]
        return phrase("[{code}] {text}", code=self.code, text=joined(ended))

    @property
    def cause_sentence(self) -> str:
        """The cause as a sentence."""
        return f"{self.cause[:1].upper()}{self.cause[1:]}."

    def as_record(self) -> dict[str, str]:
        """Return the fields as plain data, for a row or a JSON answer."""
        return {
            "code": self.code,
            "who": self.who,
            "operation": self.operation,
            "cause": self.cause,
            "state": self.state,
            "next_step": self.next_step,
        }


class Refused(DbopsError):
    """The operator must act: the request is unsafe, stale or not allowed. Nothing was changed."""

    who = "operator"

    @classmethod
    def unchanged(cls, code: str, operation: str, cause: str, next_step: str = "") -> Self:
        """Return a refusal with the catalogue's state, which says that nothing was changed. Arguments as of ``DbopsError``."""
        return cls(code, operation, cause=cause, next_step=next_step)


class RemoteFailure(DbopsError):
    """A host or server reported an error."""

    who = "host"


class Unreachable(RemoteFailure):
    """The host or server could not be reached. Jobs there may still be running.

    ``took_no_connection`` where not even a connection came about, so that nothing was asked; a server that is too busy takes one.
    """

    took_no_connection = False


class NoAccess(Unreachable):
    """The host answers, but does not let dbops in, or is not the accepted host. Its state is as unknown as of a silent one."""

    who = "operator"


class Cancelled(DbopsError):
    """A person cancelled the job."""

    who = "none"


class Bug(DbopsError):
    """A bug in dbops: a state that must not occur."""

    who = "dbops"
