"""How a target replicated before a rebuild that did not succeed, for the next plan."""

from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.facts.instance import to_record
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.loaders.plan_inputs import plan_inputs_of, unrestored_replication
from dbops.models import Rebuild
from tests.app import rows

KEPT = KeptReplication(options={"MASTER_SSL": "1", "MASTER_DELAY": "60"})


def ended(status: str, **checkpoint: Any) -> Rebuild:
    rebuild = rows.started_rebuild()
    plan = rebuild.plan | {"replication": to_record(KEPT)}
    Rebuild.objects.filter(pk=rebuild.pk).update(
        status=status, finished_at=timezone.now(), checkpoint=checkpoint, plan=plan
    )
    return rebuild


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("status", "checkpoint", "expected"),
    [
        ("failed", {"touched": True}, KEPT),
        ("cancelled", {"touched": True}, KEPT),
        ("failed", {}, None),
        ("failed", {"touched": True, "refused": True}, None),
        ("failed", {"touched": True, "verified": True}, None),
        ("failed", {"touched": True, "rolled_back": True}, None),
        ("succeeded", {"touched": True}, None),
    ],
)
def test_unsuccessful_rebuild_that_changed_its_target_tells_how_it_replicated(
    status: str, checkpoint: dict[str, Any], expected: KeptReplication | None
) -> None:
    rebuild = ended(status, **checkpoint)
    assert unrestored_replication(rebuild.target) == expected
    assert plan_inputs_of(rebuild.target, rebuild.source).unrestored == expected
    assert unrestored_replication(rebuild.source) is None
