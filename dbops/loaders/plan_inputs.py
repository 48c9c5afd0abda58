"""Load the engine's ``PlanInputs``: the fleet's latest facts and its history."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from dbops.database import clock
from dbops.engine.backups.archives import Archive, is_known_bad
from dbops.engine.backups.restore_test_ends import RestoreTestEnd, last_conclusive
from dbops.engine.facts.instance import HostFacts, from_record
from dbops.engine.phrases import phrase
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.planning.step_estimates import COPY
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import BackupMethod, Role, RunOrigin, RunStatus, Status, StepState
from dbops.engine.tuning.stream_rate import floor_of
from dbops.engine.tuning.transport import MeasuredLink
from dbops.lifecycle import topology_differences
from dbops.loaders.accounts import account_of, shared_logins
from dbops.loaders.doublewrite import attestation_of
from dbops.loaders.members import member_of
from dbops.loaders.step_history import step_histories_of
from dbops.models import (
    BackupRun,
    Cluster,
    ConnectionTest,
    Host,
    Instance,
    InstanceState,
    LoadTest,
    Rebuild,
    RebuildStep,
    RestoreTest,
    RowComparison,
)

#: Number of newest finished backups per cluster to read; enough to include each instance and method.
ARCHIVES = 200
#: Number of newest rebuilds of a target to read; those that changed nothing are passed over.
REBUILDS = 20


def plan_inputs_of(
    target: Instance,
    source: Instance,
    *,
    keep_old_data: bool = False,
    full_certificate: bool = False,
    run_id: str = "RUN",
) -> PlanInputs:
    """Return the inputs of a plan."""
    instances = list(Instance.objects.select_related("host", "cluster", "state"))
    members = {instance.pk: member_of(instance) for instance in instances}
    for instance in instances:
        if instance.pk in (target.pk, source.pk):
            logins = shared_logins(instance, instances)
            members[instance.pk] = replace(members[instance.pk], shared_logins=logins)
    if attested := attestation_of(target):
        members[target.pk] = replace(members[target.pk], attestation=attested.attestation())
    primary = next(
        (item for item in instances if item.cluster_id == target.cluster_id and item.role == Role.PRIMARY), None
    )
    histories = step_histories_of(target.cluster_id)
    addresses = [address for cluster in Cluster.objects.all() for address in cluster.write_addresses]
    return PlanInputs(
        target=members[target.pk],
        source=members[source.pk],
        primary=members[primary.pk] if primary else None,
        members=tuple(members.values()),
        write_addresses=tuple(addresses),
        now=clock.now(),
        fresh_seconds=settings.FACTS_MAX_AGE_SECONDS,
        keep_old_data=keep_old_data,
        full_certificate=full_certificate,
        certificate_seconds=settings.CERTIFICATE_SECONDS,
        run_id=run_id,
        replication_user=account_of(target, "replication").user,
        histories=histories.own,
        fleet=histories.others,
        archives=tuple(archives_of(target.cluster_id)),
        restore_tests=restore_tests_in(target.cluster_id),
        relaxes=settings.RELAX_DURABILITY,
        link=link_between(source.host_id, target.host_id),
        unrestored=unrestored_replication(target),
        source_differs=differs_since(source),
        load_tests=load_tests_on(target.host_id, source.host_id),
        last_write_lock_seconds=last_write_lock_seconds(source),
        differences=topology_differences.open_differences([target.cluster_id]).get(target.cluster_id, ()),
    )


def differs_since(instance: Instance) -> int | None:
    """Return the rebuild of an instance after which rows of its current data were found to differ; ``None`` without one. One query."""
    found = RowComparison.objects.filter(target=instance, is_current=True, differing__gt=0)
    return found.values_list("rebuild_id", flat=True).first()


def load_tests_on(*hosts: int) -> tuple[str, ...]:
    """Return the load tests that run on these hosts, in words. One query."""
    rows = LoadTest.objects.exclude(host_slot=None).filter(Q(host_slot__in=hosts) | Q(generator_host__in=hosts))
    found = rows.order_by("pk").values_list("pk", "host__name")
    return tuple(phrase("Load test {number} runs on {host}", number=pk, host=name) for pk, name in found)


def last_write_lock_seconds(instance: Instance) -> float | None:
    """Return for how long writes on an instance waited for the backup tool when it last ran there, ``None`` if unknown. Two queries."""
    name = "write_lock_seconds"
    steps = RebuildStep.objects.filter(
        rebuild__source=instance, name=COPY, state=StepState.DONE, result__has_key=name
    ).order_by("-finished_at")
    runs = BackupRun.objects.filter(
        instance=instance, method=BackupMethod.PHYSICAL, origin=RunOrigin.MANAGED, status=RunStatus.SUCCEEDED
    ).order_by("-finished_at")
    found = [
        *steps.values_list("finished_at", f"result__{name}")[:1],
        *runs.filter(evidence__has_key=name).values_list("finished_at", f"evidence__{name}")[:1],
    ]
    known = [(at, float(seconds)) for at, seconds in found if at and seconds is not None]
    return max(known)[1] if known else None


def unrestored_replication(target: Instance) -> KeptReplication | None:
    """Return how an instance replicated before a rebuild that changed it and did not succeed; ``None`` without one. One query.

    Empty if that rebuild did not know it: the connection of its incomplete copy is not the instance's own.
    """
    ended = Rebuild.objects.filter(target=target, finished_at__isnull=False).order_by("-pk")
    for status, checkpoint, plan in ended.values_list("status", "checkpoint", "plan__replication")[:REBUILDS]:
        if status == Status.SUCCEEDED or checkpoint.get("verified") or checkpoint.get("rolled_back"):
            return None
        if checkpoint.get("touched") and not checkpoint.get("refused"):
            return from_record(KeptReplication, plan) if plan else KeptReplication()
    return None


def host_facts(host: Host) -> HostFacts | None:
    """Return a host's newest facts; ``None`` if the last probe of none of its instances read it."""
    states = InstanceState.objects.filter(instance__host=host, observed_at__isnull=False).order_by("-observed_at")
    return next((facts.host for state in states if (facts := state.facts()) and facts.host), None)


def link_between(source_host: int, target_host: int) -> MeasuredLink | None:
    """Return the newest stream test's measurement between two hosts, ``None`` if there is none. One query."""
    tests = ConnectionTest.objects.filter(kind=ConnectionTest.Kinds.STREAM, status=ConnectionTest.Statuses.PASSED)
    found = tests.filter(source_host=source_host, host=target_host).values_list("result", "finished_at").first()
    if found is None or found[1] is None or not found[0].get("rates"):
        return None
    return MeasuredLink(found[0]["rates"], found[1])


def slowest_rate(plan: Plan, source_id: int) -> int:
    """Return a stream's minimum rate in bytes per second, from the newest facts of its source. One query."""
    source = Instance.objects.select_related("host", "cluster", "state").get(pk=source_id)
    facts = member_of(source).facts
    server = facts.server if facts else None
    return floor_of(
        bytes_to_copy=plan.bytes_to_copy,
        redo_capacity_bytes=server.redo_capacity_bytes if server else None,
        redo_bytes_per_second=server.redo_bytes_per_second if server else None,
        parallel=plan.parallel,
    )


def archives_of(cluster_id: int) -> Iterator[Archive]:
    """Yield a cluster's complete, existing backups made by dbops, newest first. One query."""
    rows = readable_runs().filter(instance__cluster=cluster_id).order_by("-started_at", "-pk")
    for values in rows.values_list(*_OF_ARCHIVE)[:ARCHIVES]:
        if archive := _archive(*values):
            yield archive


def archives_to_read(cluster_id: int) -> list[Archive]:
    """Return a cluster's finished backups without a failed restore test, newest first. Two queries."""
    restore_tests = restore_tests_in(cluster_id)
    return [one for one in archives_of(cluster_id) if not is_known_bad(one, restore_tests)]


def restore_tests_in(cluster_id: int) -> dict[int, RestoreTestEnd]:
    """Return the last conclusive restore test by run, for a cluster's readable backups. One query."""
    return restore_tests_of_runs(readable_runs().filter(instance__cluster=cluster_id).order_by().values("pk"))


def restore_tests_of_runs(runs: Iterable[int] | QuerySet[Any, Any]) -> dict[int, RestoreTestEnd]:
    """Return the last conclusive restore test by run. One query.

    Args:
        runs: primary keys, or a query for them.
    """
    ended = RestoreTest.objects.filter(run__in=runs, status__in=(RunStatus.SUCCEEDED, RunStatus.FAILED)).order_by("pk")
    return last_conclusive(
        RestoreTestEnd(
            run,
            is_good=status == RunStatus.SUCCEEDED,
            at=finished or requested,
            code=error.get("code", ""),
            found=error.get("cause", ""),
        )
        for run, status, finished, requested, error in ended.values_list(
            "run_id", "status", "finished_at", "requested_at", "error"
        )
    )


def readable_runs() -> QuerySet[BackupRun]:
    """Return the runs of complete, existing backups made by dbops."""
    rows = BackupRun.objects.filter(origin=RunOrigin.MANAGED, status=RunStatus.SUCCEEDED, removed_at__isnull=True)
    return rows.exclude(path="")


def archive_of_run(run_id: int) -> Archive | None:
    """Return a run's backup file for a rebuild or restore test; ``None`` if it no longer exists. One query."""
    values = readable_runs().filter(pk=run_id).values_list(*_OF_ARCHIVE).first()
    return _archive(*values) if values else None


_OF_ARCHIVE = ("pk", "uid", "method", "instance__name", "path", "started_at", "evidence", "checkpoint__plan")


def _archive(
    pk: int, uid: str, method: str, instance: str, path: str, started_at: datetime | None, evidence: Any, plan: Any
) -> Archive | None:
    flavor, _, version = str(evidence.get("server", "")).partition(" ")
    if not (evidence.get("sha256") and evidence.get("bytes") and version and started_at):
        return None
    return Archive(
        run=pk,
        uid=str(evidence.get("run", uid)),
        method=BackupMethod(method),
        instance=instance,
        path=path,
        bytes=int(evidence["bytes"]),
        sha256=evidence["sha256"],
        flavor=flavor,
        version=version,
        taken_at=started_at,
        data_bytes=(plan or {}).get("data_bytes"),
        gtid=str((evidence.get("position") or {}).get("gtid", "")),
    )
