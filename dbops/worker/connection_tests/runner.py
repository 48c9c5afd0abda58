"""Run requested connection tests: one row, one run, and no leftovers on any host."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import timedelta
from typing import Any, NoReturn

from django.db import transaction
from django.db.models import Q, QuerySet

from dbops.audit.log import SYSTEM, append
from dbops.database import clock
from dbops.engine.errors import DbopsError, Refused, RemoteFailure
from dbops.engine.hosts.jobs import pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.lifecycle.host_certificates import note_certificates
from dbops.loaders.accounts import account_of, secrets_of
from dbops.loaders.members import shown_fingerprint
from dbops.loaders.ssh_addresses import certificate_of, jump_hosts_of
from dbops.models import Cluster, ConnectionTest, Host, Instance
from dbops.models.fleet import PASSWORDS
from dbops.models.secret import as_stored, key_number
from dbops.security.redaction import redact_record
from dbops.worker import prober
from dbops.worker.connection_tests.report import TestReport
from dbops.worker.connection_tests.stream import test_stream
from dbops.worker.connections import open_database, open_shell

__all__ = [
    "RUNS_AT_MOST_SECONDS",
    "WAITS_AT_MOST_SECONDS",
    "TestReport",
    "run_test",
    "tests_due",
]

log = logging.getLogger(__name__)

#: After these seconds a test has no living worker. Celery ends a hanging task within a minute.
RUNS_AT_MOST_SECONDS, WAITS_AT_MOST_SECONDS = 90, 120
#: Required on every host, for any server.
PROGRAMS = ("bash", "flock", "setsid", "base64", "ssh", "ssh-keygen", "timeout")
Statuses, Kinds = ConnectionTest.Statuses, ConnectionTest.Kinds


def run_test(test_id: int) -> bool:
    """Run one queued test. Return whether it was queued: a second message does nothing."""
    mine = ConnectionTest.objects.filter(pk=test_id, status=Statuses.QUEUED)
    if not mine.update(status=Statuses.RUNNING, started_at=clock.now()):
        return False
    row, report = _rows().get(pk=test_id), TestReport()
    if not _can_read_secrets(row):
        return _end(row, Statuses.FAILED, report, _unreadable(row))
    secrets = _secrets_of(row)
    try:
        RUNS[row.kind](row, report)
    except DbopsError as error:
        _end(row, Statuses.FAILED, report, error, secrets)
    except BaseException as error:
        _end(
            row,
            Statuses.UNKNOWN,
            report,
            _unknown(phrase("its worker was ended ({name})", name=type(error).__name__)),
            secrets,
        )
        raise
    else:
        _end(row, Statuses.PASSED, report, None, secrets)
    return True


def tests_due() -> list[int]:
    """End tests without a living worker, and return those that still wait for one."""
    now = clock.now()
    lost = Q(status=Statuses.RUNNING, started_at__lt=now - timedelta(seconds=RUNS_AT_MOST_SECONDS))
    lost |= Q(status=Statuses.QUEUED, requested_at__lt=now - timedelta(seconds=WAITS_AT_MOST_SECONDS))
    for row in _rows().filter(lost):
        if _end(row, Statuses.UNKNOWN, None, _unknown(phrase("its worker was stopped, or none took it up in time"))):
            log.warning("test %s was ended: no worker was at it", row.pk)
    return list(ConnectionTest.objects.filter(status=Statuses.QUEUED).values_list("pk", flat=True))


def _rows() -> QuerySet[ConnectionTest]:
    """Return tests with their subjects. Secrets are decrypted at use: a lost key must not stop the other tests."""
    rows = ConnectionTest.objects.select_related("host", "source_host", "instance__host", "instance__cluster")
    hosts, cluster = ("host", "source_host", "instance__host"), "instance__cluster"
    secrets = [f"{host}__ssh_private_key" for host in hosts]
    return rows.defer(*secrets, *(f"{cluster}__{name}" for name in PASSWORDS))


def _test_ssh(row: ConnectionTest, report: TestReport) -> None:
    host = row.host
    assert host is not None  # noqa: S101 - of this kind
    names = (host.work_dir, host.authorized_keys_file, host.ssh_user)
    with closing(open_shell(host)) as shell:
        began = time.monotonic()
        said = shell.run(load("inspect_host"), *names, *PROGRAMS, timeout_seconds=10)
    took = time.monotonic() - began
    jumps = jump_hosts_of(host)
    note_certificates((host, *jumps))
    report.command(host.name, "inspect_host: user, programs, work directory, authorized_keys; it changes nothing")
    found = pairs(said.stdout)
    if found.get("done") != "1":
        text = phrase(
            "status {status}: {output}",
            status=said.exit_status,
            output=said.stderr.strip()[-300:] or said.stdout.strip()[-300:] or phrase("no words"),
        )
        _unfit(host, phrase("the shell did not come to its end ({text})", text=text))
    if jumps:
        report.check("Jump hosts", ", then ".join(f"{jump} with the {_identity(jump)}" for jump in jumps))
    place = f"{host.ssh_user}@{host.ssh_address}:{host.ssh_port}"
    report.check("Logged in", f"{place} in {took:.2f} s; the host calls itself {found['host']}, {found['system']}")
    for one in (*jumps, host):
        if certificate := certificate_of(one):
            until = f"{certificate.until:%Y-%m-%d %H:%M} UTC" if certificate.until else "no end"
            principals = ", ".join(certificate.principals) or "every user"
            report.check("SSH certificate", f"{one}: {certificate.name!r} for {principals}, valid until {until}")
    report.check("Host key", f"the {_identity(host)}")
    through = f" through sudo by {found['gate'] or 'any command'}" if host.sudo else ""
    report.check("Commands run as", f"{found['user']}{through}")
    report.measured["gate"] = found["gate"]
    missing = found["missing"]
    fits = report.check("Programs", f"missing: {missing}" if missing else ", ".join(PROGRAMS), ok=not missing)
    fits &= _check_writable(report, found, "Work directory", host.work_dir, "work_writable")
    fits &= _check_writable(report, found, "authorized_keys", found["keys"], "keys_writable")
    report.measured["work_free_bytes"] = int(found["work_free"]) if found["work_free"].isdigit() else None
    if not fits:
        _unfit(host, report.failures)


def _identity(host: Host) -> str:
    """Return what proved the host: its connection would else have been refused."""
    seen = host.seen_certificate
    if seen is None:
        return f"{'' if host.certificate_name else 'pinned '}{shown_fingerprint(host)}"
    until = f"until {seen.until:%Y-%m-%d %H:%M} UTC" if seen.until else "without an end"
    return f"{shown_fingerprint(host)}, valid {until}"


def _check_writable(report: TestReport, found: dict[str, str], title: str, path: str, key: str) -> bool:
    is_writable = found[key] == "1"
    return report.check(title, f"{path} {'can' if is_writable else 'cannot'} be written", ok=is_writable)


def _unfit(host: Host, found: str) -> NoReturn:
    raise RemoteFailure(
        "test.host_unfit",
        phrase("Checking the requirements of dbops on {host}", host=host.name),
        cause=found,
    )


def _test_mysql(row: ConnectionTest, report: TestReport) -> None:
    instance = row.instance
    assert instance is not None  # noqa: S101 - of this kind
    account = f"{account_of(instance, 'admin').user}@{instance.address}:{instance.port}"
    sql = "SELECT VERSION() AS version, CURRENT_USER() AS account, @@hostname AS hostname, @@server_id AS server_id"
    report.command(instance.name, sql)
    began = time.monotonic()
    with closing(open_database(instance, read_timeout_seconds=5.0)) as database:
        found = database.query(sql)[0]
    description = (
        f"version {found['version']}, host {found['hostname']}, server id {found['server_id']}, as {found['account']}"
    )
    report.check("Dashboard's account", f"{account} logged in in {time.monotonic() - began:.2f} s: {description}")
    report.command(instance.name, "the statements of a probe; they read alone")
    facts = prober.read(instance)
    if facts.server_problem:
        report.check("What it may read", facts.server_problem.text, ok=False)
    else:
        report.check("What it may read", "all that a plan needs")
    if facts.admin_login:
        said = facts.admin_login.error or "logged in"
        report.check("Dashboard's account over the local socket", said, ok=not facts.admin_login.error)
    if not account_of(instance, "backup").user:
        report.check("Backup account", "none in the inventory: not tried")
    elif facts.host_problem:
        text = f"not tried, as the host cannot be read: {facts.host_problem.text}"
        report.check("Backup account", text, ok=False)
    else:
        for statement in facts.backup_account:
            text = f"{statement.statement}: {statement.error or 'allowed'}"
            report.check("Backup account", text, ok=not statement.error)
    _fail_where_not_ok(instance, report)


def _fail_where_not_ok(instance: Instance, report: TestReport) -> None:
    if wrong := report.failures:
        raise RemoteFailure(
            "test.account",
            phrase("Testing the accounts of {instance}", instance=instance.name),
            cause=wrong,
        )


def _end(
    row: ConnectionTest,
    status: str,
    report: TestReport | None,
    error: DbopsError | None = None,
    secrets: Iterable[str] = (),
) -> bool:
    """End the test, free its slot and record it in the audit log. Return whether it had not ended before."""
    values: dict[str, Any] = {"error": redact_record(error.as_record(), secrets)} if error else {}
    if report is not None:
        values["result"] = redact_record(report.as_record(), secrets)
    now = clock.now()
    open_rows = ConnectionTest.objects.filter(pk=row.pk, status__in=(Statuses.QUEUED, Statuses.RUNNING))
    with transaction.atomic():
        if not open_rows.update(status=status, finished_at=now, slot=None, **values):
            return False
        detail: dict[str, Any] = {"test": row.pk, "kind": row.kind}
        detail |= {"error": error.code} if error else {}
        if report is not None and "bytes_per_second" in report.measured:
            detail |= {
                "cipher": report.measured["cipher"],
                "bytes_per_second": round(report.measured["bytes_per_second"]),
            }
        append(actor=SYSTEM, action=f"test.{status}", subject=row.subject, detail=detail)
    return True


def _can_read_secrets(row: ConnectionTest) -> bool:
    """Return whether the current keys decrypt every secret that the test needs, also of jump hosts."""
    ends = [host for host in (row.host, row.source_host, row.instance.host if row.instance else None) if host]
    hosts = {host.pk for end in ends for host in (end, *jump_hosts_of(end))}
    tokens = [*Host.objects.filter(pk__in=hosts).values_list(as_stored("ssh_private_key"))]
    if row.instance:
        columns = [as_stored(name) for name in PASSWORDS]
        tokens += Cluster.objects.filter(pk=row.instance.cluster_id).values_list(*columns)
        tokens += Instance.objects.filter(pk=row.instance.pk).values_list(*columns)
    return all(key_number(token) is not None for found in tokens for token in found if token)


def _secrets_of(row: ConnectionTest) -> list[str]:
    return secrets_of(row.instance.cluster) if row.instance else []


def _unreadable(row: ConnectionTest) -> Refused:
    return Refused(
        "test.secret",
        phrase("Testing {subject}", subject=row.subject),
        cause=phrase("a stored secret cannot be decrypted with the current keys"),
    )


def _unknown(found: str) -> RemoteFailure:
    return RemoteFailure(
        "test.unknown",
        phrase("Testing a connection"),
        cause=found,
    )


RUNS: dict[str, Callable[[ConnectionTest, TestReport], None]] = {
    Kinds.SSH: _test_ssh,
    Kinds.MYSQL: _test_mysql,
    Kinds.STREAM: test_stream,
}
