"""Why the form of a plan cannot be submitted now."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.translation import gettext as _

from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.blocker import BlockerKind
from dbops.engine.schedule.start_option_keys import StartMode, StartOption
from dbops.models import Rebuild
from dbops.operations.follow_up_options import follow_up_options
from dbops.operations.start_options import StartOptions
from dbops.queries.fleet.cluster import InstanceRow
from dbops.web.templatetags.phrases import translated


@dataclass(frozen=True, slots=True)
class BlockingReason:
    """One reason why the form cannot be submitted now."""

    code: str
    text: str


def start_blocking_reasons(offered: StartOptions, start: StartOption | None, asked: str) -> list[BlockingReason]:
    """Return why the chosen start option is unavailable, without reasons that the plan's checks already give.

    If the requested option is gone, a person must choose again: no other option replaces it.
    """
    if start is None:
        return []
    if asked not in ("", start.key, StartMode.SOON):
        gone = _("The selected start option is no longer available. Choose again.")
        return [BlockingReason("start_gone", gone)]
    if start.is_possible:
        return []
    blocking = [
        item for item in offered.eligibility.blockers if item.kind in (BlockerKind.MAINTENANCE, BlockerKind.TOPOLOGY)
    ]
    if blocking and not start.not_before:
        return [
            BlockingReason(f"blocker.{item.kind.name.lower()}", f"{translated(item.text)} {translated(item.reason)}")
            for item in blocking
        ]
    return (
        [
            BlockingReason(
                "start",
                _("%(title)s: %(reason)s") % {"title": translated(start.title), "reason": translated(start.reason)},
            )
        ]
        if start.is_deferred and start.reason
        else []
    )


def again_blocking_reasons(again: Rebuild | None) -> list[BlockingReason]:
    """Return why a rebuild cannot be repeated. A plan without it may still be possible."""
    if again is None or (option := follow_up_options(again)["again"]).is_possible:
        return []
    return [BlockingReason(f"again.{option.code}", translated(option.reason))]


def blocking_reasons(request: HttpRequest, found: Plan | None, row: InstanceRow) -> list[BlockingReason]:
    """Return why the form cannot be submitted now."""
    reasons = []
    if not request.may_operate:  # type: ignore[attr-defined]
        reasons.append(BlockingReason("access", _("You have read access. Only operators can start a rebuild.")))
    if row.rebuild:
        status = translated(row.rebuild.status)
        busy = {"number": row.rebuild.pk, "name": row.instance.name, "status": status}
        reasons.append(BlockingReason("busy", _("Rebuild %(number)s of %(name)s is %(status)s.") % busy))
    if found and found.refusals:
        reasons += [
            BlockingReason(
                f"finding.{one.code}",
                _("Check failed: %(title)s. %(seen)s") % {"title": translated(one.title), "seen": translated(one.seen)},
            )
            for one in found.refusals
        ]
    return reasons
