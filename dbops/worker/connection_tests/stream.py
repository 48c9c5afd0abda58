"""A test of the stream between two hosts: what each cipher that both know carries, on the way of a rebuild's data."""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import NoReturn

from django.db.models import Q

from dbops.drivers.jobs import HostJobs
from dbops.engine.backup_states import RUN_AT_WORK
from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts.instance import HostFacts
from dbops.engine.hosts.access import End, HostWay
from dbops.engine.hosts.stream_test import Measured, pull_zeros
from dbops.engine.tuning.transport import choose_ciphers
from dbops.loaders.plan_inputs import host_facts
from dbops.models import BackupRun, ConnectionTest, Hold, Host
from dbops.worker.connection_tests.report import Report
from dbops.worker.connections import end_of_way, open_shell

#: Fence and locks of stream tests on a host. No instance has this name: names begin with a letter or digit.
STREAM_KEY = "_stream-test"
#: No other cipher is begun after so many seconds: the whole must end long before ``RUNS_AT_MOST_SECONDS``.
BEGINS_WITHIN_SECONDS = 30
Statuses, Kinds = ConnectionTest.Statuses, ConnectionTest.Kinds


def why_in_use(hosts: Iterable[Host], *, besides: int | None = None) -> str:
    """Return what runs on these hosts and would share its bandwidth with a test of the stream; empty when nothing does.

    Args:
        besides: the test that asks.
    """
    wanted = list(hosts)
    holds = Hold.objects.filter(instance__host__in=wanted).select_related("instance")
    for hold in holds.order_by("pk")[:1]:
        what = f"rebuild {hold.rebuild_id}" if hold.rebuild_id else f"backup run {hold.backup_run_id}"
        return f"{what} uses {hold.instance.name}"
    runs = BackupRun.objects.filter(instance__host__in=wanted, status__in=RUN_AT_WORK).select_related("instance")
    for run in runs.order_by("pk")[:1]:
        return f"backup run {run.pk} reads {run.instance.name}"
    others = ConnectionTest.objects.filter(kind=Kinds.STREAM, status__in=(Statuses.QUEUED, Statuses.RUNNING))
    others = others.filter(Q(host__in=wanted) | Q(source_host__in=wanted)).exclude(pk=besides or 0)
    for test in others.select_related("host", "source_host", "instance").order_by("pk")[:1]:
        return f"another test of the stream runs there ({test.subject})"
    return ""


def refuse_in_use(doing: str, why: str) -> NoReturn:
    raise Refused(
        "test.busy",
        doing,
        found=f"{why}: a test would take its bandwidth, and measure too little",
        left="Nothing was sent.",
        next_step="Wait for its end, then test again.",
    )


def facts_of(host: Host) -> HostFacts:
    """Return what the last probe that reached the host saw of it. Raises ``Refused`` (``test.no_facts``)."""
    if facts := host_facts(host):
        return facts
    raise Refused(
        "test.no_facts",
        f"Choosing the cipher for {host.name}",
        found="no probe has read this host yet, so the ciphers that it knows are not known",
        left="Nothing was sent.",
        next_step="Test SSH first; a host is read once it has an instance.",
    )


def test_stream(row: ConnectionTest, report: Report) -> None:
    """Send zeros with each cipher that both hosts know, one after the other, and keep the rates.

    Raises:
        Refused: something else uses a host (``test.busy``), or one was never read (``test.no_facts``).
        RemoteFailure: with no cipher anything arrived. Unreachable: a host does not answer.
    """
    source, target = row.source_host, row.host
    assert source is not None  # noqa: S101 - of this kind
    assert target is not None  # noqa: S101 - of this kind
    if why := why_in_use((source, target), besides=row.pk):
        refuse_in_use(f"Testing the stream from {source.name} to {target.name}", why)
    seen = {host.pk: facts_of(host) for host in (source, target)}
    offered = choose_ciphers(seen[source.pk], seen[target.pk])
    report.measured |= {"ciphers_offered": offered, "rates": {}}
    best: Measured | None = None
    problem: RemoteFailure | None = None
    began = time.monotonic()
    for number, cipher in enumerate(offered.split(",")):
        if number and time.monotonic() - began > BEGINS_WITHIN_SECONDS:
            break
        try:
            found = _measure(row, source, target, seen, report, cipher=cipher, number=number)
        except RemoteFailure as error:
            problem = error  # the source's sshd may not allow this one; it may allow another
            report.check(cipher, f"not measured: {error.found}", ok=False)
            continue
        report.measured["rates"][cipher] = found.bytes_per_second
        best = found if best is None or found.bytes_per_second > best.bytes_per_second else best
    if best is None:
        assert problem is not None  # noqa: S101 - the list of ciphers is not empty
        raise problem
    report.measured |= {
        "bytes": best.byte_count,
        "seconds": best.seconds,
        "bytes_per_second": best.bytes_per_second,
        "cipher": best.cipher,
        "mac": best.mac,
    }


def _measure(
    row: ConnectionTest,
    source: Host,
    target: Host,
    seen: dict[int, HostFacts],
    report: Report,
    *,
    cipher: str,
    number: int,
) -> Measured:
    """Pull once. Each pull is a run of its own on the hosts; no name of one is a part of another's, by which keys are taken away."""
    run_id = f"{number}-{row.uid}"
    with ExitStack() as stack:

        def end_of(host: Host) -> End:
            return _end_of(host, seen[host.pk].local_address, row, run_id, stack)

        way = HostWay(run_id, source=end_of(source), target=end_of(target))
        return pull_zeros(way, ciphers=cipher, say=report.command)


def _end_of(host: Host, local_address: str, row: ConnectionTest, run_id: str, stack: ExitStack) -> End:
    shell = open_shell(host)
    stack.callback(shell.close)
    started = int(row.started_at.timestamp()) if row.started_at else 0
    jobs = HostJobs(shell, work_dir=host.work_dir, instance_key=STREAM_KEY, run_id=run_id, token=started)
    return end_of_way(host, local_address, jobs)
