"""What a page showed goes with its form, signed: when the plan is another one by then, the person is told what differs.

It is for display alone. What is done rests on the fingerprint, and on a plan that is made anew.
"""

from collections.abc import Sequence

from django.core import signing

from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.planning.plan_diff import PlanChange, ShownPlan, changes
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.start_option_keys import StartOption

SALT = "dbops.shown-plan"
#: A plan takes about 5,000 characters. One that is longer is not sent along: its differences are not shown then.
MOST_CHARACTERS = 60_000


def shown(plan: Plan, start: StartOption | None) -> ShownPlan:
    """Return what a page shows of a plan and of the way to start that is chosen."""
    if start is None:
        return ShownPlan(plan)
    return ShownPlan(plan, start.title, start.starts.p50, start.finishes.p50)


def packed(seen: ShownPlan) -> str:
    """Return it signed and compressed, for a field of a form; ``""`` where it is too long."""
    text = signing.dumps(to_record(seen), salt=SALT, compress=True)
    return text if len(text) <= MOST_CHARACTERS else ""


def unpacked(text: str, fingerprint: str) -> ShownPlan | None:
    """Return what a form says that its page showed, ``None`` where it says nothing that is true of that fingerprint."""
    if not text or len(text) > MOST_CHARACTERS:
        return None
    try:
        seen = from_record(ShownPlan, signing.loads(text, salt=SALT))
    except (signing.BadSignature, TypeError, ValueError, KeyError):
        return None  # not ours, or of another version: there is nothing to compare with
    return seen if seen.plan.fingerprint == fingerprint else None


def differences(then: ShownPlan | None, now: ShownPlan) -> Sequence[PlanChange]:
    """Return what differs, nothing where what counts is the same: what changes by itself is no news."""
    found = changes(then, now) if then else ()
    return found if any(change.counts for change in found) else ()
