"""Keeping facts fresh: the due instances, each in a thread of its own, so that one silent host delays nobody."""

import logging
import random
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.engine.availability.periods import longest_gap
from dbops.engine.errors import Refused, Unreachable
from dbops.engine.facts.instance import InstanceFacts, Problem
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.topology.members import transactions_lost
from dbops.lifecycle import external_runs, instance_periods, topology_differences
from dbops.loaders.plan_inputs import plan_inputs_of, restore_tests_of_runs
from dbops.models import Instance, InstanceState
from dbops.security.redaction import without_nul
from dbops.worker.connections import open_database, open_shell

log = logging.getLogger(__name__)

#: Instances probed side by side in one task.
THREADS = 16
#: After this a probe that is still going on is left behind: its result is not waited for.
PATIENCE_SECONDS = 25
#: The same for a rebuild that looks at its instances once more.
LIVE_PATIENCE_SECONDS = 15


def probe_due() -> int:
    """Probe every instance that is due and not being probed. Return how many were written."""
    now = timezone.now()
    claimed = [instance for instance in _due_instances(now) if _claim(instance, now)]
    return probe_all(claimed)


def _due_instances(now: datetime) -> list[Instance]:
    for instance in Instance.objects.filter(state=None):
        InstanceState.objects.get_or_create(instance=instance, defaults={"probe_due_at": now})
    due = Instance.objects.filter(state__probe_due_at__lte=now).order_by("state__probe_due_at")
    return list(due.select_related("host", "cluster", "state__period")[: 4 * THREADS])


def _claim(instance: Instance, now: datetime) -> bool:
    """Move the instance's next probe: whoever moves it probes. The jitter keeps a thousand of them apart."""
    interval = settings.PROBE_INTERVAL_SECONDS * random.uniform(0.85, 1.15)  # noqa: S311 - jitter, not a secret
    claimed = InstanceState.objects.filter(instance=instance, probe_due_at=instance.state.probe_due_at).update(
        probe_due_at=now + timedelta(seconds=interval)
    )
    return bool(claimed)


def probe_all(instances: list[Instance], *, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Probe instances side by side and store what was found. Threads touch no table. Return how many were stored."""
    if not instances:
        return 0
    pool = ThreadPoolExecutor(max_workers=min(THREADS, len(instances)), thread_name_prefix="probe")
    try:
        running = {pool.submit(read, instance): instance for instance in instances}
        finished, late = wait(running, timeout=patience_seconds)
        for future in late:
            log.warning("probing %s takes longer than %s s", running[future].name, patience_seconds)
        stored = [running[future] for future in finished if _store(running[future], future)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    topology_differences.note_differences({instance.cluster_id for instance in stored})
    return len(stored)


def read(instance: Instance) -> InstanceFacts:
    """Read an instance now and store nothing. Its ``host``, ``cluster`` and ``state`` are those of the row."""
    cluster, state = instance.cluster, getattr(instance, "state", None)
    previous = state.facts() if state else None
    try:
        shell = open_shell(instance.host)
    except Refused as error:
        return InstanceFacts(observed_at=timezone.now(), host_problem=Problem(error.code, error.cause))
    try:
        return probe_instance(
            ProbeTarget(
                datadir=instance.datadir,
                defaults_file=instance.defaults_file,
                address=instance.address,
                port=instance.port,
                work_dir=instance.host.work_dir,
                admin_user=cluster.admin_user,
                replication_user=cluster.replication_user,
                backup_user=cluster.backup_user,
                backup_password=cluster.backup_password,
            ),
            shell,
            lambda: open_database(instance, read_timeout_seconds=5.0),
            timezone.now(),
            previous,
        )
    finally:
        shell.close()


def _store(instance: Instance, future: "Future[InstanceFacts]") -> bool:
    if (error := future.exception()) is not None:
        log.error("probing %s: %s", instance.name, error, exc_info=error)
        return False
    facts = future.result()
    InstanceState.objects.filter(instance=instance).update(
        **without_nul(InstanceState.columns(facts)), **_reading(instance.state, facts), **_gtid(instance.state, facts)
    )
    try:
        external_runs.observe(instance, facts)
    except DatabaseError:  # the next probe sees the same; the other instances of this round are stored all the same
        log.exception("backups seen on %s", instance.name)
    try:
        instance_periods.note_period(instance, facts, gap=longest_gap(settings.PROBE_INTERVAL_SECONDS))
    except DatabaseError:
        log.exception("what was seen of %s", instance.name)
    return True


def probe_now(instance: Instance) -> InstanceFacts:
    """Probe one instance now, store what was found and return it. Raises ``Unreachable`` where its host does not answer."""
    live = Instance.objects.select_related("host", "cluster", "state__period").get(pk=instance.pk)
    stored = probe_all([live], patience_seconds=LIVE_PATIENCE_SECONDS)
    facts = InstanceState.objects.get(instance=instance).facts()
    if stored and facts is not None and facts.host is not None:
        return facts
    problem = facts.host_problem if stored and facts else None
    raise Unreachable(
        "probe.incomplete",
        f"Reading {instance.name} now",
        cause=problem.text if problem else "it did not answer in time",
    )


def _reading(before: InstanceState, facts: InstanceFacts) -> dict[str, datetime | None]:
    """Return since when the host is read without a gap; a gap is what three probes would have filled."""
    if facts.host is None:
        return {}
    gap = longest_gap(settings.PROBE_INTERVAL_SECONDS)
    goes_on = before.host_read_at is not None and facts.observed_at - before.host_read_at <= gap
    return {
        "host_read_at": facts.observed_at,
        "host_read_since": before.host_read_since if goes_on else facts.observed_at,
    }


def _gtid(before: InstanceState, facts: InstanceFacts) -> dict[str, str]:
    """Return the newest GTID history that was read, and what of the one before is not in it; the first loss stays until it is explained."""
    server = facts.server
    if server is None or server.gtid_executed == before.gtid_seen:
        return {}
    lost = "" if before.gtid_lost else transactions_lost(server, before.gtid_seen)
    return without_nul({"gtid_seen": server.gtid_executed} | ({"gtid_lost": lost} if lost else {}))


def replan(target: Instance, source: Instance, before: Plan) -> Plan:
    """Probe target, source and primary now, store what was found, and plan again from it.

    Args:
        before: the frozen plan: the same old data is kept, and the same finished backup is read, though there may be a newer one.

    Raises:
        Refused: too little is known to plan (``plan.no_facts``).
        Unreachable: one of them could not be read in time (``probe.incomplete``): old facts do not count here.
    """
    cluster = target.cluster_id
    live = Instance.objects.select_related("host", "cluster", "state__period").filter(cluster=cluster)
    wanted = [item for item in live if item.pk in (target.pk, source.pk) or item.role == Instance.Roles.PRIMARY]
    if probe_all(wanted, patience_seconds=LIVE_PATIENCE_SECONDS) != len(wanted):
        raise Unreachable(
            "probe.incomplete",
            f"Reading {', '.join(item.name for item in wanted)} now",
            cause="one of them did not answer in time",
        )
    inputs = plan_inputs_of(target, source, keep_old_data=before.keep_old_data)
    method = METHODS.get(before.copied_by or before.method, METHODS[DEFAULT_METHOD])
    if before.archive is None:
        return build_plan(inputs, method)
    # whose file may have been removed meanwhile: what a proof found of it is true of the copy as well
    restore_tests = restore_tests_of_runs([before.archive.run])
    return build_plan(replace(inputs, archives=(before.archive,), restore_tests=restore_tests), method)
