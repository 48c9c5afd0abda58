"""Keep facts fresh: probe due instances, each in its own thread, so that a silent host delays no other."""

import logging
import random
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q

from dbops.database import clock
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.engine.availability.periods import longest_gap
from dbops.engine.errors import Bug, DbopsError, Unreachable
from dbops.engine.facts.instance import InstanceFacts, ProbeProblem
from dbops.engine.facts.newest import newest
from dbops.engine.methods import DEFAULT_METHOD, METHODS
from dbops.engine.phrases import phrase
from dbops.engine.planning.planner import build_plan
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import RUN_AT_WORK, Role
from dbops.engine.topology.members import transactions_lost
from dbops.lifecycle import capacity_readings, external_runs, instance_periods, topology_differences
from dbops.lifecycle.host_certificates import note_certificates
from dbops.loaders.accounts import account_of, local_account_of
from dbops.loaders.plan_inputs import plan_inputs_of, restore_tests_of_runs
from dbops.loaders.ssh_addresses import JUMPS, jump_hosts_of
from dbops.models import Instance, InstanceState, RowComparison
from dbops.models.fleet import ACCOUNTS
from dbops.security.redaction import without_nul
from dbops.worker.connections import open_database, open_shell

log = logging.getLogger(__name__)

#: Instances probed at the same time in one task.
THREADS = 16
#: Seconds after which a running probe is abandoned.
PATIENCE_SECONDS = 25
#: The same for a rebuild's repeated probe of its instances.
LIVE_PATIENCE_SECONDS = 15
#: How long a row comparison may stop replication for a moment, and when the instance is then probed again.
PAUSE_SECONDS, AFTER_PAUSE_SECONDS = 10, 2


def probe_due() -> int:
    """Probe every due instance that is not being probed. Return the number of instances that were read."""
    now = clock.now()
    claimed = [instance for instance in _due_instances(now) if _claim(instance, now)]
    return probe_all(claimed)


def _due_instances(now: datetime) -> list[Instance]:
    for instance in Instance.objects.filter(state=None):
        InstanceState.objects.get_or_create(instance=instance, defaults={"probe_due_at": now})
    # A time beyond every interval was written before the clock was set back.
    latest = now + timedelta(seconds=2 * settings.PROBE_INTERVAL_SECONDS + AFTER_PAUSE_SECONDS)
    is_due = Q(state__probe_due_at__lte=now) | Q(state__probe_due_at__gt=latest)
    due = Instance.objects.filter(is_due).order_by("state__probe_due_at")
    return list(due.select_related(f"host__{JUMPS}", "cluster", "state__period")[: 4 * THREADS])


def _claim(instance: Instance, now: datetime) -> bool:
    """Claim an instance's next probe by moving its time. The jitter spreads a thousand of them."""
    interval = settings.PROBE_INTERVAL_SECONDS * random.uniform(0.85, 1.15)  # noqa: S311 - jitter, not a secret
    claimed = InstanceState.objects.filter(instance=instance, probe_due_at=instance.state.probe_due_at).update(
        probe_due_at=now + timedelta(seconds=interval)
    )
    return bool(claimed)


def probe_all(instances: list[Instance], *, patience_seconds: float = PATIENCE_SECONDS, is_fresh: bool = False) -> int:
    """Probe instances at the same time and store the facts. Threads access no table.

    Return the number of instances that were read since the call: by this one, or by a later probe that ended earlier.

    Args:
        is_fresh: read also what changes rarely, such as engines and tablespaces.
    """
    if not instances:
        return 0
    pool = ThreadPoolExecutor(max_workers=min(THREADS, len(instances)), thread_name_prefix="probe")
    try:
        running = {pool.submit(read, instance, is_fresh=is_fresh): instance for instance in instances}
        finished, late = wait(running, timeout=patience_seconds)
        for future in late:
            log.warning("probing %s takes longer than %s s", running[future].name, patience_seconds)
        done = [running[future] for future in finished if _store(running[future], future)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    topology_differences.note_differences({instance.cluster_id for instance in done})
    return len(done)


def read(instance: Instance, *, is_fresh: bool = False) -> InstanceFacts:
    """Read an instance now and store nothing. Its ``host``, ``cluster`` and ``state`` are from the row."""
    state = getattr(instance, "state", None)
    previous = state.facts() if state else None
    try:
        shell = open_shell(instance.host)
    except DbopsError as error:
        return InstanceFacts(
            observed_at=clock.now(),
            host_problem=ProbeProblem(error.code, error.cause),
            replication_seen=previous.replication_seen if previous else None,
            replication_seen_at=previous.replication_seen_at if previous else None,
            growth=previous.growth if previous else None,
        )
    try:
        return probe_instance(
            ProbeTarget(
                datadir=instance.datadir,
                defaults_file=instance.defaults_file,
                group_suffix=instance.group_suffix,
                address=instance.address,
                port=instance.port,
                work_dir=instance.host.work_dir,
                local=local_account_of(instance),
                backup=account_of(instance, "backup"),
                our_users=tuple({account_of(instance, kind).user for kind in ACCOUNTS} - {""}),
                is_tidb=instance.role == Role.TIDB,
            ),
            shell,
            lambda: open_database(instance, read_timeout_seconds=5.0),
            clock.now(),
            previous,
            is_fresh=is_fresh,
        )
    finally:
        shell.close()


def _store(instance: Instance, future: "Future[InstanceFacts]") -> bool:
    """Store what a probe read. Return whether the row is as new as that; not while a row comparison stops replication."""
    error = future.exception()
    if error is None:
        facts = future.result()
    else:
        log.error("probing %s: %s", instance.name, type(error).__name__, exc_info=error)
        facts = _nothing_read(instance, error)
    if _was_paused(instance, facts):
        again = clock.now() + timedelta(seconds=AFTER_PAUSE_SECONDS)
        InstanceState.objects.filter(instance=instance).update(probe_due_at=again)
        return False
    if _write(instance, facts):
        _observe(instance, facts)
    return True


def _write(instance: Instance, facts: InstanceFacts) -> bool:
    """Write the facts. Return whether they are the newest: two workers can probe at once, and the first to begin can end last.

    What is of the future was read before the clock was set back.
    """
    with transaction.atomic():
        rows = InstanceState.objects.filter(instance=instance)
        row = rows.select_for_update().first()
        if row is None:
            return False
        known = row.facts()
        result = newest(facts, known) if known and known.observed_at <= clock.now() else facts
        if result is known:
            return False
        is_newest = result.observed_at == facts.observed_at
        more = _reading(instance.state, facts) | _gtid(instance.state, facts) if is_newest else {}
        rows.update(**without_nul(InstanceState.columns(result)), **more)
    return is_newest


def _observe(instance: Instance, facts: InstanceFacts) -> None:
    try:
        external_runs.observe(instance, facts)
    except DatabaseError:  # the next probe repeats it; the other instances of this round are still stored
        log.exception("backups seen on %s", instance.name)
    try:
        instance_periods.note_period(instance, facts, gap=longest_gap(settings.PROBE_INTERVAL_SECONDS))
    except DatabaseError:
        log.exception("what was seen of %s", instance.name)
    try:
        capacity_readings.note_reading(instance, facts)
    except DatabaseError:
        log.exception("capacity of %s", instance.name)
    try:
        note_certificates((instance.host, *jump_hosts_of(instance.host)))
    except DatabaseError:
        log.exception("certificates of %s", instance.host.name)


def _was_paused(instance: Instance, facts: InstanceFacts) -> bool:
    """Return whether replication is stopped because a row comparison stopped it for a moment. One query if it is stopped."""
    channels = facts.server.replication if facts.server else ()
    if not channels or all(channel.is_running for channel in channels):
        return False
    since = facts.observed_at - timedelta(seconds=PAUSE_SECONDS)
    return RowComparison.objects.filter(target=instance, status__in=RUN_AT_WORK, paused_at__gte=since).exists()


def _nothing_read(instance: Instance, error: BaseException) -> InstanceFacts:
    """Return facts that show a fault of dbops as the problem: without them, old facts would only grow older."""
    before = instance.state.facts()
    # only its type: its text can contain a secret
    if isinstance(error, DbopsError):  # a secret that Vault does not give
        problem = ProbeProblem(error.code, error.cause)
    else:
        fault = Bug("probe.fault", phrase("Reading {instance}", instance=instance.name), cause=type(error).__name__)
        problem = ProbeProblem(fault.code, f"{fault.operation}: {fault.cause}")
    return InstanceFacts(
        observed_at=clock.now(),
        found_schedules=before.found_schedules if before else None,
        host_problem=problem,
        server_problem=problem,
        growth=before.growth if before else None,
    )


def probe_now(instance: Instance) -> InstanceFacts:
    """Probe one instance now, store its facts and return them. Raises ``Unreachable`` if its host does not answer."""
    live = Instance.objects.select_related(f"host__{JUMPS}", "cluster", "state__period").get(pk=instance.pk)
    stored = probe_all([live], patience_seconds=LIVE_PATIENCE_SECONDS)
    facts = InstanceState.objects.get(instance=instance).facts()
    if stored and facts is not None and facts.host is not None:
        return facts
    problem = facts.host_problem if stored and facts else None
    raise Unreachable(
        "probe.incomplete",
        phrase("Reading {instance} now", instance=instance.name),
        cause=problem.text if problem else phrase("it did not answer in time"),
    )


def _reading(before: InstanceState, facts: InstanceFacts) -> dict[str, datetime | None]:
    """Return since when the host was probed without a gap; a gap is as long as three probe intervals."""
    if facts.host is None:
        return {}
    gap = longest_gap(settings.PROBE_INTERVAL_SECONDS)
    continues = before.host_read_at is not None and facts.observed_at - before.host_read_at <= gap
    return {
        "host_read_at": facts.observed_at,
        "host_read_since": before.host_read_since if continues else facts.observed_at,
    }


def _gtid(before: InstanceState, facts: InstanceFacts) -> dict[str, str]:
    """Return the newest GTID history, and the part of the older one that it lacks; the first loss stays until it is explained."""
    server = facts.server
    if server is None or server.gtid_executed == before.gtid_seen:
        return {}
    lost = "" if before.gtid_lost else transactions_lost(server, before.gtid_seen)
    return without_nul({"gtid_seen": server.gtid_executed} | ({"gtid_lost": lost} if lost else {}))


def replan(target: Instance, source: Instance, before: Plan) -> Plan:
    """Probe target, source and primary now, store the facts, and plan again.

    Args:
        before: the frozen plan: it decides on the old data and on the finished backup, even if there is a newer one.

    Raises:
        Refused: facts are missing (``plan.no_facts``).
        Unreachable: one of them could not be probed in time (``probe.incomplete``): old facts do not count here.
    """
    cluster = target.cluster_id
    live = Instance.objects.select_related(f"host__{JUMPS}", "cluster", "state__period").filter(cluster=cluster)
    wanted = [item for item in live if item.pk in (target.pk, source.pk) or item.role == Instance.Roles.PRIMARY]
    if probe_all(wanted, patience_seconds=LIVE_PATIENCE_SECONDS, is_fresh=True) != len(wanted):
        raise Unreachable(
            "probe.incomplete",
            phrase("Reading {instances} now", instances=", ".join(item.name for item in wanted)),
            cause=phrase("one of them did not answer in time"),
        )
    inputs = plan_inputs_of(
        target, source, keep_old_data=before.keep_old_data, full_certificate=before.full_certificate
    )
    method = METHODS.get(before.copied_by or before.method, METHODS[DEFAULT_METHOD])
    if before.archive is None:
        return build_plan(inputs, method)
    # its file may have been removed since; the result of a restore test is also true of the copy
    restore_tests = restore_tests_of_runs([before.archive.run])
    return build_plan(replace(inputs, archives=(before.archive,), restore_tests=restore_tests), method)
