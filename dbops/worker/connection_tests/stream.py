"""Test the stream between two hosts with each cipher that both know, in the way of a rebuild."""

import time
from contextlib import ExitStack

from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts.instance import HostFacts
from dbops.engine.hosts.access import Endpoint, HostAccess
from dbops.engine.hosts.stream_test import MeasuredStream, pull_zeros
from dbops.engine.phrases import phrase
from dbops.engine.tuning.transport import choose_ciphers
from dbops.loaders.host_usage import refuse_in_use, why_in_use
from dbops.loaders.plan_inputs import host_facts
from dbops.models import ConnectionTest, Host
from dbops.worker.connection_tests.report import TestReport
from dbops.worker.connections import endpoint_of, jobs_on, open_shell

#: Name for fences and locks of stream tests on a host. No instance has it: instance names begin with a letter or digit.
STREAM_KEY = "_stream-test"
#: No further cipher starts after these seconds: the test must end long before ``RUNS_AT_MOST_SECONDS``.
BEGINS_WITHIN_SECONDS = 30


def facts_of(host: Host) -> HostFacts:
    """Return the host's facts from the last successful probe. Raises ``Refused`` (``test.no_facts``)."""
    if facts := host_facts(host):
        return facts
    raise Refused(
        "test.no_facts",
        phrase("Choosing the cipher for {host}", host=host.name),
        cause=phrase("no probe has read this host, so its ciphers are unknown"),
    )


def test_stream(row: ConnectionTest, report: TestReport) -> None:
    """Send zeros with each cipher that both hosts know, one after the other, and store the rates.

    Raises:
        Refused: a host is in use (``test.busy``), or was never probed (``test.no_facts``).
        RemoteFailure: nothing arrived with any cipher. Unreachable: a host does not answer.
    """
    source, target = row.source_host, row.host
    assert source is not None  # noqa: S101 - of this kind
    assert target is not None  # noqa: S101 - of this kind
    if why := why_in_use((source, target), besides=row.pk):
        refuse_in_use(f"Testing the stream from {source.name} to {target.name}", why)
    seen = {host.pk: facts_of(host) for host in (source, target)}
    offered = choose_ciphers(seen[source.pk], seen[target.pk])
    report.measured |= {"ciphers_offered": offered, "rates": {}}
    best: MeasuredStream | None = None
    problem: RemoteFailure | None = None
    began = time.monotonic()
    for number, cipher in enumerate(offered.split(",")):
        if number and time.monotonic() - began > BEGINS_WITHIN_SECONDS:
            break
        try:
            found = _measure(row, source, target, seen, report, cipher=cipher, number=number)
        except RemoteFailure as error:
            problem = error  # the source's sshd may refuse this cipher and allow another
            report.check(cipher, f"not measured: {error.cause}", ok=False)
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
    report: TestReport,
    *,
    cipher: str,
    number: int,
) -> MeasuredStream:
    """Measure once. Each measurement is a run of its own on the hosts; no run's name is part of another's, because keys are removed
    by name.
    """
    run_id = f"{number}-{row.uid}"
    with ExitStack() as stack:

        def end_of(host: Host) -> Endpoint:
            return _end_of(host, seen[host.pk].local_address, row, run_id, stack)

        way = HostAccess(run_id, source=end_of(source), target=end_of(target))
        return pull_zeros(way, ciphers=cipher, say=report.command)


def _end_of(host: Host, local_address: str, row: ConnectionTest, run_id: str, stack: ExitStack) -> Endpoint:
    shell = open_shell(host)
    stack.callback(shell.close)
    started = int(row.started_at.timestamp()) if row.started_at else 0
    jobs = jobs_on(host, shell, instance_key=STREAM_KEY, run_id=run_id, token=started)
    return endpoint_of(host, local_address, jobs)
