"""A shared read whose follower can be dropped: what its tests begin with."""

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from dbops.engine.facts.instance import InstanceFacts, ProbeProblem
from dbops.engine.states import Status, StepState
from dbops.lifecycle import rebuild_driver
from dbops.models import Instance, InstanceState, Rebuild
from dbops.operations.rebuild_group import ConfirmedTarget, plan_group, request_group
from dbops.worker import scheduler
from tests.app import rows

MADE = "64769:99"
#: The checkpoint of a follower whose data directory was emptied and now has an incomplete copy.
TOUCHED = {
    "touched": True,
    "new_identity": MADE,
    "aside_path": "/var/lib/mysql.dbops-old-RUN",
    "left_tree": "0f" * 32,
}


def see(instance: Instance, facts: InstanceFacts) -> None:
    InstanceState.objects.filter(pk=instance.pk).update(**InstanceState.columns(facts))


def fresh(row: Rebuild) -> Rebuild:
    return Rebuild.objects.get(pk=row.pk)


class Read:
    """replica-1 reads backup-1, also for replica-2; both run."""

    def __init__(self, olga: User, **values: Any) -> None:
        self.fleet = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2")
        self.source, self.target = self.fleet["backup-1"], self.fleet["replica-2"]
        self.see_source()
        confirmed = [
            ConfirmedTarget(one.target, one.target.name, one.plan.fingerprint)
            for one in plan_group([self.fleet["replica-1"], self.target], self.source)
            if one.plan
        ]
        self.leader, self.follower = request_group(
            actor=olga, source=self.source, confirmed=confirmed, reason="the rack burned", request_key=str(uuid.uuid4())
        )
        Rebuild.objects.filter(pk__in=(self.leader.pk, self.follower.pk)).update(approval="")
        assert scheduler.start_what_can() == [self.leader.pk]
        assert scheduler.start_what_can() == [self.follower.pk]

    def see_source(self, **changes: Any) -> None:
        facts = rows.facts_of("backup-1", timezone.now())
        assert facts.host
        tools = {**facts.host.tools, "python3": replace(facts.host.tools["bash"], path="/usr/bin/python3")}
        see(self.source, replace(facts, host=replace(facts.host, tools=tools), **changes))

    def see_target(
        self,
        name: str = "replica-2",
        *,
        runs: bool = False,
        identity: str = MADE,
        at: datetime | None = None,
        **changes: Any,
    ) -> None:
        """As the prober reads it after the end: stopped, with the directory that the failed rebuild made."""
        facts = rows.facts_of(name, timezone.now())
        assert facts.datadir
        facts = replace(facts, observed_at=at or timezone.now(), datadir=replace(facts.datadir, identity=identity))
        if not runs:
            facts = replace(facts, server=None, server_problem=ProbeProblem("mysql.unreachable", "Connection refused"))
        see(self.fleet[name], replace(facts, **changes))

    def copied(self, row: Rebuild) -> None:
        row.steps.filter(name="stream").update(state=StepState.DONE)

    def end(self, row: Rebuild, status: Status = Status.SUCCEEDED, **values: Any) -> Rebuild:
        Rebuild.objects.filter(pk=row.pk).update(**values)
        lease = rebuild_driver.take_lease(row.pk)
        assert lease is not None
        rebuild_driver.finish(lease, status, "for the test")
        return fresh(row)

    def drop(self, code: str = "shared.dropped", **values: Any) -> Rebuild:
        """The follower fails as its target is dropped, and both are read again."""
        given = {"pending_status": Status.FAILED, "error": {"code": code}, "checkpoint": TOUCHED} | values
        self.end(self.follower, Status.FAILED, **given)
        self.see_target()
        self.see_source()
        return fresh(self.follower)
