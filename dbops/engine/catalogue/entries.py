"""What an entry and a section of the error catalogue contain, and the states that many entries share."""

from dataclasses import dataclass
from typing import Literal

Who = Literal["operator", "host", "none", "dbops"]

UNCHANGED = "Nothing was changed."
NOT_SENT = "Nothing was sent."
NOT_WRITTEN = "Nothing was written."
NOT_RUN = "Nothing was run on the host."
#: Of a reason: a shorter one says nothing later.
REASON_MINIMUM_CHARACTERS = 3
SAY_WHY = f"Enter a reason of at least {REASON_MINIMUM_CHARACTERS} characters. The audit log records it."
REPORT = "Please report this error with the rebuild's commands and the worker's log."


@dataclass(frozen=True, slots=True)
class Entry:
    """One error code.

    Args:
        code: stable, dotted, lower case.
        who: who must act.
        summary: what failed, one short sentence.
        state: what was left as it was. A place that knows more says its own.
        next_step: what to do. A place that knows more says its own.
    """

    code: str
    who: Who
    summary: str
    state: str
    next_step: str


@dataclass(frozen=True, slots=True)
class CatalogueSection:
    """Entries that belong together, with the title and the introduction that the document shows."""

    title: str
    entries: tuple[Entry, ...]
    introduction: str = ""


def operator(code: str, summary: str, state: str, next_step: str) -> Entry:
    """Return an entry for a request that dbops refused."""
    return Entry(code, "operator", summary, state, next_step)


def host(code: str, summary: str, state: str, next_step: str) -> Entry:
    """Return an entry for a host or server that failed."""
    return Entry(code, "host", summary, state, next_step)


def cancelled(code: str, summary: str, state: str, next_step: str) -> Entry:
    """Return an entry for work that a person stopped."""
    return Entry(code, "none", summary, state, next_step)


def ours(code: str, summary: str, state: str, next_step: str) -> Entry:
    """Return an entry for a fault in dbops."""
    return Entry(code, "dbops", summary, state, next_step)
