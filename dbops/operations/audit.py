"""Write audit entries shared by several operations: refusals, exports and inventory changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbops.audit.log import append
from dbops.engine.catalogue.entries import REASON_MINIMUM_CHARACTERS
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.fleetfile.store import CREATED, UNCHANGED, Item

NO_REASON = phrase(
    "the reason has fewer than {reason_minimum_characters} characters",
    reason_minimum_characters=REASON_MINIMUM_CHARACTERS,
)


def says_why(reason: str) -> bool:
    """Return whether a reason has enough characters to be useful later."""
    return len(reason.strip()) >= REASON_MINIMUM_CHARACTERS


@contextmanager
def refusals_recorded(
    *, actor: str, action: str, subject: str, reason: str = "", instance: str = "", **detail: Any
) -> Iterator[None]:
    """Record a refusal raised within the block, with its code and the details that it offers for the log.

    The error's ``found`` is left out: it may repeat input, even a password in a wrong field. Do not use within a
    transaction, which the refusal would roll back.

    Args:
        action: the action's name, ending in ``refused``.
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
            detail={"code": error.code, **detail, **error.audit_detail},
        )
        raise


def record_export(actor: str, subject: str, *, instance: str = "", **detail: Any) -> None:
    """Record an export of data with its subject and filter."""
    append(actor=actor, action="data.exported", subject=subject, instance=instance, detail=detail)


def record_item(actor: str, item: Item, *, via: str) -> None:
    """Record the change of one inventory object with each field before and after; nothing if unchanged."""
    if item.outcome != UNCHANGED:
        changes = {name: _as_text(change, is_new=item.outcome == CREATED) for name, change in item.changes.items()}
        append(actor=actor, action=f"{item.kind}.{item.outcome}", subject=item.name, detail={"via": via, **changes})
        if item.outcome != CREATED and (weaker := _weaker_rules(item)):
            # Listed with the overrides: fewer people decide, or others.
            append(
                actor=actor,
                action="override.approval_switched_off",
                subject=item.name,
                cluster=item.name,
                detail={name: changes[name] for name in weaker if name != "needs_approval"},
            )


def _weaker_rules(item: Item) -> list[str]:
    """Return the changed rules of a cluster that ask for less than before."""
    asked = [name for name in ("needs_approval", "approval_count", "approvers_only") if name in item.changes]
    return [name for name in asked if item.changes[name]["after"] < item.changes[name]["before"]]


def _as_text(change: Any, *, is_new: bool) -> str:
    """Return one change as text for the audit log."""
    if isinstance(change, str):
        return change
    before, after = (", ".join(value) if isinstance(value, list) else str(value) for value in change.values())
    return after if is_new else f"{before or '(empty)'} → {after or '(empty)'}"
