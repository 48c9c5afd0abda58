"""Record the observed periods of an instance; a row is written only on a change."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, QuerySet

from dbops.database import clock
from dbops.engine.availability.periods import ProbedState, end_of_period
from dbops.engine.facts.instance import InstanceFacts
from dbops.engine.facts.summary import judge, summarize
from dbops.engine.states import Role
from dbops.lifecycle.availability_rollups import recount
from dbops.models import Instance, InstancePeriod, InstanceState


def note_period(instance: Instance, facts: InstanceFacts, *, gap: timedelta) -> bool:
    """Record the result of a probe, only if it differs from the last one. Return whether a period began.

    Of two simultaneous probes the second changes nothing: the state names the open period, and is updated conditionally.

    Args:
        instance: with its state and the state's period from before this probe.
        gap: ``engine.availability.periods.longest_gap``.
    """
    state, role = instance.state, Role(instance.role)
    word, because = judge(summarize(facts), role, is_fresh=True)
    now = ProbedState(word, role, str(instance.cluster_id))
    ended_at = None
    if row := state.period:
        before = ProbedState(row.state, Role(row.role), str(row.cluster_id))
        ended_at = end_of_period(before, now, last_seen_at=state.observed_at, at=facts.observed_at, gap=gap)
        if ended_at is None:
            return False
    with transaction.atomic():
        begun = InstancePeriod.objects.create(
            cluster_id=instance.cluster_id,
            instance=instance,
            name=instance.name,
            role=role.value,
            state=word,
            because=because.replace("\x00", ""),
            started_at=facts.observed_at,
        )
        was = InstanceState.objects.filter(instance=instance, period=row)
        if not was.update(period=begun):
            transaction.set_rollback(True)
            return False
        if row:
            InstancePeriod.objects.filter(pk=row.pk, ended_at=None).update(ended_at=ended_at)
        _recount(begun, row, ended_at)
    return True


def _recount(begun: InstancePeriod, before: InstancePeriod | None, ended_at: datetime | None) -> None:
    """Request a recount of days from before the instance was known to belong to its present cluster."""
    if before and before.cluster_id == begun.cluster_id:
        return
    same = InstancePeriod.objects.filter(cluster=begun.cluster_id, name=begun.name, ended_at__lte=begun.started_at)
    since = ended_at or same.aggregate(newest=Max("ended_at"))["newest"] or begun.started_at
    recount({begun.cluster_id, before.cluster_id if before else begun.cluster_id}, since, clock.now())


def end_periods(states: QuerySet[InstanceState]) -> None:
    """End the open periods of removed or replaced instances, at the last probe."""
    for state in states.select_related("period", "instance"):
        ended_at = None
        if state.period:
            ended_at = max(state.observed_at or state.period.started_at, state.period.started_at)
            InstancePeriod.objects.filter(pk=state.period.pk, ended_at=None).update(ended_at=ended_at)
        recount([state.instance.cluster_id], ended_at or _last_seen(state.instance), clock.now())
    states.update(period=None)


def _last_seen(instance: Instance) -> datetime | None:
    return InstancePeriod.objects.filter(instance=instance).aggregate(newest=Max("ended_at"))["newest"]


def rename_periods(instance: Instance) -> None:
    """Rename the periods of a renamed instance, like its runs and rebuilds, because they are counted together."""
    InstancePeriod.objects.filter(instance=instance).update(name=instance.name)
