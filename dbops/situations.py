"""From rows to the engine's ``Situation``: the whole fleet as it was last read, and this fleet's history."""

from statistics import median

from django.conf import settings
from django.utils import timezone

from dbops import lifecycle
from dbops.connections import member_of
from dbops.engine.situation import History, Situation
from dbops.engine.states import Role, StepState
from dbops.models import Cluster, Instance, Step

#: How many finished steps of each name speak for the next one.
HISTORY_STEPS = 10
#: Steps whose time follows the bytes that are copied.
STEPS_BY_BYTES = ("stream", "prepare", "own")


def situation_of(target: Instance, source: Instance, *, keep_old_data: bool = False, run_id: str = "RUN") -> Situation:
    """Return what a plan is made from. Reads tables only."""
    instances = list(Instance.objects.select_related("host", "cluster", "state"))
    members = {instance.pk: member_of(instance) for instance in instances}
    primary = next(
        (item for item in instances if item.cluster_id == target.cluster_id and item.role == Role.PRIMARY), None
    )
    addresses = [address for cluster in Cluster.objects.all() for address in cluster.write_addresses]
    return Situation(
        target=members[target.pk],
        source=members[source.pk],
        primary=members[primary.pk] if primary else None,
        members=tuple(members.values()),
        write_addresses=tuple(addresses),
        now=timezone.now(),
        fresh_seconds=settings.FACTS_FRESH_SECONDS,
        keep_old_data=keep_old_data,
        run_id=run_id,
        replication_user=target.cluster.replication_user,
        history=history_of(target.cluster_id),
        differences=lifecycle.open_differences([target.cluster_id]).get(target.cluster_id, ()),
    )


def history_of(cluster_id: int) -> History:
    """Return medians over the last finished steps of the cluster's rebuilds."""
    rows = Step.objects.filter(
        state=StepState.DONE, rebuild__status="succeeded", rebuild__target__cluster_id=cluster_id
    ).order_by("-finished_at")
    seconds: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for step in rows.select_related("rebuild")[: HISTORY_STEPS * 12]:
        if not (step.started_at and step.finished_at):
            continue
        taken = (step.finished_at - step.started_at).total_seconds()
        size = step.rebuild.memory.get("stream.bytes")
        if step.name in STEPS_BY_BYTES and size and taken > 0:
            rates.setdefault(step.name, []).append(size / taken)
        else:
            seconds.setdefault(step.name, []).append(taken)
    return History(
        bytes_per_second={name: median(values) for name, values in rates.items()},
        seconds={name: median(values) for name, values in seconds.items()},
    )
