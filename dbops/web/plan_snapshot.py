"""Sign the displayed plan into its form, to show what differs if the plan has changed on submit.

For display only. Decisions use the fingerprint and a newly made plan.
"""

from collections.abc import Sequence

from django.core import signing

from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.planning.plan_diff import PlanChange, ShownPlan, changes
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import StartOption

SALT = "dbops.shown-plan"
#: A plan takes about 5,000 characters. A longer one is not included, and its differences are then not shown.
MOST_CHARACTERS = 60_000


def shown(plan: Plan, start: StartOption | None) -> ShownPlan:
    """Return the displayed parts of a plan and of the chosen start option."""
    if start is None:
        return ShownPlan(plan)
    return ShownPlan(plan, start.title, start.starts.p50, start.finishes.p50)


def packed(seen: ShownPlan) -> str:
    """Return the snapshot signed and compressed, for a form field; ``""`` if it is too long."""
    text = signing.dumps(to_record(seen), salt=SALT, compress=True)
    return text if len(text) <= MOST_CHARACTERS else ""


def unpacked(text: str, fingerprint: str) -> ShownPlan | None:
    """Return a form's snapshot; ``None`` if it is missing or does not match the fingerprint."""
    if not text or len(text) > MOST_CHARACTERS:
        return None
    try:
        seen = from_record(ShownPlan, signing.loads(text, salt=SALT))
    except (signing.BadSignature, TypeError, ValueError, KeyError):
        return None  # not ours, or of another version: nothing to compare
    return seen if seen.plan.fingerprint == fingerprint else None


def differences(then: ShownPlan | None, now: ShownPlan) -> Sequence[PlanChange]:
    """Return the differences; empty if nothing that counts differs. Values that change on their own are ignored."""
    found = changes(then, now) if then else ()
    return found if any(change.counts for change in found) else ()
