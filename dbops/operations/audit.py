"""What several verbs write to the audit log: refusals, exports, changes of the inventory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.fleetfile.store import CREATED, UNCHANGED, Item

REASON_MINIMUM_CHARACTERS = 3


def says_why(reason: str) -> bool:
    """Tell whether what a person typed as a reason is one that can be read later."""
    return len(reason.strip()) >= REASON_MINIMUM_CHARACTERS


@contextmanager
def refusals_recorded(
    *, actor: str, action: str, subject: str, reason: str = "", instance: str = "", **detail: Any
) -> Iterator[None]:
    """Write down that what is asked for within was refused: by its code, and what else its raiser says for the record.

    What was found is left out: it may repeat what a person typed, and that may be a password in the wrong field. Not within
    a transaction, which the refusal would undo.

    Args:
        action: whose last word is ``refused``.
    """
    try:
        yield
    except Refused as error:
        append(
            actor=actor,
            action=action,
            subject=subject,
            reason=reason,
            instance=instance,
            detail={"code": error.code, **detail, **error.told},
        )
        raise


def record_export(actor: str, subject: str, *, instance: str = "", **detail: Any) -> None:
    """Write that somebody takes a copy of data: what, and with which filter."""
    append(actor=actor, action="data.exported", subject=subject, instance=instance, detail=detail)


def record_item(actor: str, item: Item, *, via: str) -> None:
    """Write what became of one object of the inventory, with before and after of each field; nothing where it stayed."""
    if item.outcome != UNCHANGED:
        told = {name: _told(change, is_new=item.outcome == CREATED) for name, change in item.changes.items()}
        append(actor=actor, action=f"{item.kind}.{item.outcome}", subject=item.name, detail={"via": via, **told})
        if item.outcome != CREATED and told.get("needs_approval", "").endswith("False"):
            # Seen among what was decided against the rules: it takes the second person away.
            append(
                actor=actor, action="override.approval_switched_off", subject=item.name, cluster=item.name, detail={}
            )


def _told(change: Any, *, is_new: bool) -> str:
    """Return one change in words, as the audit log shows it."""
    if isinstance(change, str):
        return change
    before, after = (", ".join(value) if isinstance(value, list) else str(value) for value in change.values())
    return after if is_new else f"{before or '(empty)'} → {after or '(empty)'}"
