"""How a target replicated before a rebuild that did not succeed, for the next plan."""

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from dbops.engine.facts.instance import to_record
from dbops.engine.planning.upstream import intermediate_of
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.loaders.plan_inputs import plan_inputs_of, unrestored_replication
from dbops.models import InstanceState, Rebuild
from tests.app import rows

KEPT = KeptReplication(options={"MASTER_SSL": "1", "MASTER_DELAY": "60"})


def ended(status: str, kept: KeptReplication | None = KEPT, **checkpoint: Any) -> Rebuild:
    rebuild = rows.started_rebuild()
    plan = rebuild.plan | {"replication": to_record(kept)}
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


@pytest.mark.django_db
def test_connection_of_an_incomplete_copy_is_not_followed_again() -> None:
    """A copy follows the source until it has caught up; the rebuild before did not know what the target followed."""
    rebuild = ended("failed", None, touched=True)
    facts = rows.facts_of("replica-1", timezone.now())
    assert facts.server is not None
    [link] = facts.server.replication
    ahead = replace(link, source_host=rebuild.source.address, source_port=rebuild.source.port, source_server_id=None)
    state = replace(facts, server=replace(facts.server, replication=(ahead,)))
    InstanceState.objects.filter(instance=rebuild.target).update(**InstanceState.columns(state))
    inputs = plan_inputs_of(rebuild.target, rebuild.source)
    assert inputs.unrestored == KeptReplication()
    assert intermediate_of(inputs) is None
