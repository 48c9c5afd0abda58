"""Find jobs that would share a host with a test."""

from collections.abc import Iterable
from typing import NoReturn

from django.db.models import Q

from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import RUN_AT_WORK
from dbops.models import BackupRun, ConnectionTest, Hold, Host, LoadTest, RestoreTest

Statuses, Kinds = ConnectionTest.Statuses, ConnectionTest.Kinds


def why_in_use(hosts: Iterable[Host], *, besides: int | None = None) -> str:
    """Return a job on these hosts that would share bandwidth with a stream test; empty if there is none.

    Args:
        besides: the calling test, which does not count.
    """
    wanted = list(hosts)
    holds = Hold.objects.filter(instance__host__in=wanted).select_related("instance")
    for hold in holds.order_by("pk")[:1]:
        if hold.rebuild_id:
            return phrase("rebuild {number} uses {instance}", number=hold.rebuild_id, instance=hold.instance.name)
        return phrase("backup run {number} uses {instance}", number=hold.backup_run_id, instance=hold.instance.name)
    runs = BackupRun.objects.filter(instance__host__in=wanted, status__in=RUN_AT_WORK).select_related("instance")
    for run in runs.order_by("pk")[:1]:
        return phrase("backup run {number} reads {instance}", number=run.pk, instance=run.instance.name)
    others = ConnectionTest.objects.filter(kind=Kinds.STREAM, status__in=(Statuses.QUEUED, Statuses.RUNNING))
    others = others.filter(Q(host__in=wanted) | Q(source_host__in=wanted)).exclude(pk=besides or 0)
    for test in others.select_related("host", "source_host", "instance").order_by("pk")[:1]:
        return phrase("another stream test is running ({subject})", subject=test.subject)
    return ""


def why_at_work(host: Host, *, besides: int | None = None) -> str:
    """Return what dbops does on a host that would share its CPU and disk with a load test; empty for nothing. Five queries at most.

    Args:
        besides: the load test that asks, which does not count.
    """
    for restore_test in RestoreTest.objects.filter(host_slot=host.pk):
        return phrase("restore test {number} runs on {host}", number=restore_test.pk, host=host.name)
    at_work = LoadTest.objects.exclude(host_slot=None).filter(Q(host_slot=host.pk) | Q(generator_host=host))
    for load_test in at_work.exclude(pk=besides or 0).order_by("pk")[:1]:
        return phrase("load test {number} runs on {host}", number=load_test.pk, host=host.name)
    return why_in_use([host])


def refuse_in_use(operation: str, why: str) -> NoReturn:
    raise Refused(
        "test.busy",
        operation,
        cause=phrase("{reason}: a test would share its bandwidth and measure too little", reason=why),
    )
