"""Errors, split by who must act: the operator, the host, nobody (cancelled), or us.

Each carries a stable code (an entry in ``docs/reference/errors.md``), what was being done, what is left as it was, and what to do next.
"""

from typing import Any, ClassVar, Self


class DbopsError(Exception):
    """Base of every error that the product raises on purpose.

    Args:
        code: stable, dotted, lower case, for example ``stream.truncated``.
        doing: what was being done, one sentence that starts with a capital letter.
        found: what was seen, in the words of the tool or host where there are any.
        left: what is left as it was, or where things stand now.
        next_step: what the reader should do next.
    """

    who: ClassVar[str] = "nobody"

    def __init__(self, code: str, doing: str, *, found: str = "", left: str = "", next_step: str = "") -> None:
        super().__init__(code, doing, found, left, next_step)
        self.code = code
        self.doing = doing
        self.found = found
        self.left = left
        self.next_step = next_step
        #: Plain data for the audit log: codes and fingerprints, nothing that anybody typed.
        self.told: dict[str, Any] = {}

    def __str__(self) -> str:
        parts = [f"{self.doing}" + (f": {self.found}" if self.found else ".")]
        parts += [part for part in (self.left, self.next_step) if part]
        return f"[{self.code}] " + " ".join(part if part.endswith((".", "!", "?")) else part + "." for part in parts)

    def as_record(self) -> dict[str, str]:
        """Return the fields as plain data, for a row or a JSON answer."""
        return {
            "code": self.code,
            "who": self.who,
            "doing": self.doing,
            "found": self.found,
            "left": self.left,
            "next": self.next_step,
        }


class Refused(DbopsError):
    """The operator must act: the request is unsafe, stale or not allowed. Nothing was changed."""

    who = "operator"

    @classmethod
    def unchanged(cls, code: str, doing: str, found: str, next_step: str) -> Self:
        """Return a refusal that left everything as it was. Arguments as of ``DbopsError``."""
        return cls(code, doing, found=found, left="Nothing was changed.", next_step=next_step)


class RemoteFailure(DbopsError):
    """A host or server did not do what was asked."""

    who = "host"


class Unreachable(RemoteFailure):
    """Nothing is known: the host or server could not be reached. The work there may be going on.

    ``took_no_connection`` where not even a connection came about, so that nothing was asked; a server that is too busy takes one.
    """

    took_no_connection = False


class Cancelled(DbopsError):
    """A person asked for the end."""

    who = "nobody"


class Bug(DbopsError):
    """We must act: a state that the code holds impossible."""

    who = "dbops"
