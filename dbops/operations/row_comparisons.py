"""End the comparison of all rows that continues after a rebuild."""

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.lifecycle import row_comparisons
from dbops.messaging.wakeups import nudge
from dbops.models import RowComparison
from dbops.security.permissions import require_operator


def cancel_comparison(*, actor: User, comparison: RowComparison) -> None:
    """Request the end of a comparison: at once while queued, by its driver within seconds while running.

    Raises:
        Refused: ``access.denied``, or it has ended or is ending (``comparison.ended``).
    """
    operation = phrase("Ending the comparison of all rows of rebuild {rebuild_id}", rebuild_id=comparison.rebuild_id)
    require_operator(actor, operation, comparison.rebuild.target.cluster_id)
    name = actor.get_username()
    with transaction.atomic():
        asked = row_comparisons.cancel(comparison, name)
        if asked:
            append(
                actor=name,
                action="comparison.cancel_requested",
                subject=comparison.target.name,
                detail={"rebuild": comparison.rebuild_id, "comparison": comparison.pk},
            )
            nudge()
    comparison.refresh_from_db()
    if not asked:
        raise Refused.unchanged("comparison.ended", operation, phrase("it is {status}", status=comparison.status))
