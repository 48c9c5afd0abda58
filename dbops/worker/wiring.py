"""Composition root: build the engine's drivers from rows."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from django.conf import settings

from dbops.drivers.jobs import HostJobs
from dbops.engine.backups.job import BackupContext
from dbops.engine.backups.plan import BackupPlan
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.jobs import RunJournal
from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.stall import StallLimits
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.rebuilds.steps.run import Accounts, InstanceHandle, Run, RunThresholds, Server, StepJournal
from dbops.engine.states import BackupMethod
from dbops.loaders.accounts import account_of, local_account_of
from dbops.loaders.host_authorities import authorities_of
from dbops.loaders.plan_inputs import slowest_rate
from dbops.loaders.shared_reads import RowSharedReadMembers
from dbops.models import BackupRun, Host, Instance, Rebuild, RowComparison
from dbops.worker import prober
from dbops.worker.connections import connect_to, jobs_on, open_database, open_shell
from dbops.worker.run_clock import RunClock


def build_run(rebuild: Rebuild, plan: Plan, journal: StepJournal, stack: ExitStack, *, token: int | None = None) -> Run:
    """Build the drivers of both sides; connections open at the first use and close with the stack.

    ``token`` is the fence shown to the hosts instead of the lease's.
    """
    cluster, checkpoint = rebuild.target.cluster, dict(rebuild.checkpoint)

    def side(instance: Instance, party: PlannedInstance, fence: str = "") -> InstanceHandle:
        return _side(rebuild.uid, rebuild.host_token if token is None else token, instance, party, stack, fence)

    # a leader and its followers work on one source at the same time: each has its own fence there
    fence_of_source = f"{rebuild.source.name}.for.{rebuild.target.name}" if rebuild.leader_id else ""

    def read_only(party: PlannedInstance) -> Server:
        return Server(
            party, lambda seconds: connect_to(party.address, party.port, cluster, read_timeout_seconds=seconds)
        )

    return Run(
        run_id=rebuild.uid,
        plan=plan,
        flavor=flavor_for(plan.source.version, plan.flavor),
        source=side(rebuild.source, plan.source, fence_of_source),
        target=side(rebuild.target, plan.target),
        primary=read_only(plan.primary),
        upstream=read_only(plan.upstream) if plan.upstream else None,
        accounts=Accounts(
            source=local_account_of(rebuild.source),
            target=local_account_of(rebuild.target),
            replication=account_of(rebuild.target, "replication"),
            backup=account_of(rebuild.source, "backup"),
        ),
        checkpoint=checkpoint,
        journal=journal,
        clock=RunClock(checkpoint),
        replan=lambda: prober.replan(rebuild.target, rebuild.source, plan),
        shared_read_members=RowSharedReadMembers(rebuild),
        slowest_rate=lambda: slowest_rate(plan, rebuild.source_id),
        stream_rate=lambda: Rebuild.objects.values_list("stream_rate", flat=True).get(pk=rebuild.pk),
        settings=RunThresholds(
            catch_up_lag_seconds=settings.CATCH_UP_LAG_SECONDS,
            verify_steady_seconds=settings.VERIFY_STEADY_SECONDS,
            guard_paused_seconds=settings.GUARD_HEARTBEAT_SECONDS,
            guard_idle_seconds=settings.GUARD_IDLE_SECONDS,
            start_timeout_seconds=settings.START_TIMEOUT_SECONDS,
            stall_notice_seconds=settings.STALL_NOTICE_SECONDS,
            stall_stop_seconds=settings.STALL_STOP_SECONDS,
            stall_stream_seconds=settings.STALL_STREAM_SECONDS,
            stall_unpack_seconds=settings.STALL_UNPACK_SECONDS,
            stall_prepare_seconds=settings.STALL_PREPARE_SECONDS,
            stall_catch_up_seconds=settings.STALL_CATCH_UP_SECONDS,
            auto_throttle_latency_ms=settings.AUTO_THROTTLE_LATENCY_MS,
            shared_read_wait_seconds=settings.SHARED_READ_WAIT_SECONDS,
            shared_read_stall_seconds=settings.SHARED_READ_STALL_SECONDS,
            shared_read_buffer_bytes=settings.SHARED_READ_BUFFER_BYTES,
        ),
    )


def build_comparison_run(
    comparison: RowComparison, plan: Plan, journal: StepJournal, stack: ExitStack, checkpoint: dict[str, Any]
) -> Run:
    """Build the drivers of a row comparison: those of its rebuild, with its own memory. It opens connections to servers alone."""
    run = build_run(comparison.rebuild, plan, journal, stack)
    return replace(run, run_id=comparison.uid, checkpoint=checkpoint, clock=RunClock(checkpoint))


def build_context(
    run: BackupRun, plan: BackupPlan, checkpoint: dict[str, Any], journal: RunJournal, stack: ExitStack
) -> BackupContext:
    """Build the connection to the host of a backup run."""
    jobs, is_dump = jobs_of(run, run.uid, stack), plan.method is BackupMethod.DUMP
    account = local_account_of(run.instance) if is_dump else account_of(run.instance, "backup")
    flavor = flavor_for(plan.version, plan.flavor)
    return BackupContext(
        plan=plan,
        jobs=jobs,
        clock=RunClock(checkpoint),
        credentials=local_login(flavor, account, jobs.run_directory, socket=plan.socket),
        checkpoint=checkpoint,
        journal=journal,
        stall=StallLimits(settings.STALL_NOTICE_SECONDS, settings.STALL_STOP_SECONDS),
    )


def jobs_of(run: BackupRun, uid: str, stack: ExitStack) -> HostJobs:
    """Return the jobs of the run ``uid`` on the host of this run's instance, under this run's fence."""
    return open_jobs(run.instance.host, uid, stack, fence=run.instance.name, token=run.host_token)


def open_jobs(host: Host, uid: str, stack: ExitStack, *, fence: str, token: int) -> HostJobs:
    """Return the jobs of the run ``uid`` on a host; the stack closes the connection. ``token`` counts in the fence of that name."""
    shell = open_shell(host)
    stack.callback(shell.close)
    return jobs_on(host, shell, instance_key=fence, run_id=uid, token=token)


def _side(
    run_id: str, token: int, instance: Instance, party: PlannedInstance, stack: ExitStack, fence: str
) -> InstanceHandle:
    host = instance.host
    jobs = open_jobs(host, run_id, stack, fence=fence or instance.name, token=token)

    def connect(read_timeout_seconds: float) -> Any:
        return open_database(instance, read_timeout_seconds=read_timeout_seconds)

    return InstanceHandle(
        party=party,
        shell=jobs.shell,
        jobs=jobs,
        connect=connect,
        host_key=host.host_key,
        authorities=authorities_of(host),
        stream_address=host.stream_address or host.ssh_address,
        authorized_keys_file=host.authorized_keys_file,
        sudo=host.sudo,
    )
