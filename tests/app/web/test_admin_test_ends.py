"""Tests of connections: how they end, in what words, and that no secret is kept of what was said."""

import html
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.test import Client
from django.utils import timezone

from dbops.engine.errors import NoAccess, RemoteFailure, Unreachable
from dbops.engine.facts.instance import ProbeProblem, StatementCheck
from dbops.engine.hosts.stream_test import MeasuredStream
from dbops.engine.ports import CommandResult
from dbops.models import AuditEntry, ConnectionTest, Host, Instance, InstanceState
from dbops.operations.rebuilds import plan_rebuild
from dbops.web.templatetags.dbops import machine_time
from dbops.worker.connection_tests import runner
from tests.app.factories import make_facts, make_host, make_instance, make_trio

from .played_connections import MYSQL, PAIR, PASSWORD, SSH, STREAM, FakeShell, answers, looks, only, with_accounts

#: What a backup of MariaDB begins with.
STATEMENT = "BACKUP STAGE START"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


@pytest.fixture
def trio(db: None) -> Any:
    return with_accounts(make_trio())


def test_ssh_test_passes_and_is_stored(trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, looks())
    operator.post(SSH)
    assert runner.run_test(only().pk)
    assert only().status == "passed"
    text = operator.get("/inventory/host/host-replica-1/").content.decode()
    assert f'id="test-{only().pk}"' in text
    assert f'datetime="{machine_time(only().finished_at)}"' in text
    assert "db-3" in text
    assert AuditEntry.objects.get(action="test.passed").subject == "host-replica-1"


def test_connection_test_runs_once_when_its_message_is_repeated(
    trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, looks())
    operator.post(SSH)
    assert runner.run_test(only().pk)
    answers(monkeypatch, AssertionError("it ran twice"))
    assert not runner.run_test(only().pk)
    assert AuditEntry.objects.filter(action="test.passed").count() == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (looks(missing="flock"), "test.host_unfit"),
        (looks(work_writable="0"), "test.host_unfit"),
        (looks(done="0"), "test.host_unfit"),
        ("", "test.host_unfit"),
        (NoAccess("ssh.auth_failed", "Logging in", cause="no", next_step="Put the key there"), "ssh.auth_failed"),
        (Unreachable("ssh.unreachable", "Connecting", cause="Connection refused"), "ssh.unreachable"),
    ],
)
def test_ssh_test_fails_with_code_and_reason(
    trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch, answer: Any, code: str
) -> None:
    answers(monkeypatch, answer)
    operator.post(SSH)
    runner.run_test(only().pk)
    assert (only().status, only().error["code"]) == ("failed", code)
    assert f"<code>{code}</code>" in operator.get(f"/admin/connection-tests/{only().pk}/").content.decode()
    assert AuditEntry.objects.get(action="test.failed").detail["error"] == code


class FakeDatabase(FakeShell):
    def query(self, *_: Any) -> list[dict[str, Any]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [{"version": "10.11.19-MariaDB", "account": "dbops@%", "hostname": "db-3", "server_id": 3}]


def try_mysql(monkeypatch: pytest.MonkeyPatch, operator: Client, answer: Any = "", **facts: Any) -> ConnectionTest:
    found = make_facts()
    for name, value in facts.items():
        object.__setattr__(found, name, value)
    monkeypatch.setattr("dbops.worker.connection_tests.runner.open_database", lambda *_, **__: FakeDatabase(answer))
    monkeypatch.setattr("dbops.worker.prober.read", lambda instance: found)
    operator.post(MYSQL)
    runner.run_test(only().pk)
    return only()


def test_mysql_test_passes_with_both_accounts(trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    row = try_mysql(monkeypatch, operator)
    assert row.status == "passed", row.error
    checks = row.result["checks"]
    assert [check["ok"] for check in checks] == [True, True, True]
    assert STATEMENT in checks[-1]["text"]


@pytest.mark.parametrize(
    "facts",
    [
        {"server_problem": ProbeProblem("mysql.error", "1227: Access denied; you need SUPER")},
        {"backup_account": (StatementCheck("LOCK TABLES", "ERROR 1044 (42000)"),)},
        {"host_problem": ProbeProblem("ssh.unreachable", "Connection refused"), "host": None},
    ],
)
def test_mysql_test_fails_when_an_account_lacks_privileges(
    trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any]
) -> None:
    row = try_mysql(monkeypatch, operator, **facts)
    assert (row.status, row.error["code"]) == ("failed", "test.account")


def test_mysql_test_stores_no_secret(trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    said = RemoteFailure("mysql.access_denied", "Logging in", cause=f"wrong: {PASSWORD}", next_step="Correct it")
    row = try_mysql(monkeypatch, operator, said)
    assert row.status == "failed"
    assert PASSWORD not in str(row.error)
    assert PASSWORD not in operator.get(f"/admin/connection-tests/{row.pk}/").content.decode()
    assert PASSWORD not in str(list(AuditEntry.objects.values_list("detail", flat=True)))


FASTEST = "aes256-gcm@openssh.com"
NO_CIPHER, PULL = "no matching cipher", "ssh backup | wc -c"


def test_stream_test_shows_rate_and_cipher_for_plans(
    trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(way: Any, *, say: Any, ciphers: str, **_: Any) -> MeasuredStream:
        say("host-replica-1", PULL)
        assert "," not in ciphers, "one at a time"
        if ciphers.startswith("chacha20"):
            raise RemoteFailure("test.no_stream", "Pulling zeros", cause=NO_CIPHER)
        return MeasuredStream(1_500_000_000 if ciphers == FASTEST else 900_000_000, 5.0, ciphers, "<implicit>")

    for state in InstanceState.objects.all():
        state.record["host"]["ssh_ciphers"] = ["aes128-gcm@openssh.com", FASTEST, "chacha20-poly1305@openssh.com"]
        state.save()
    answers(monkeypatch, "")
    monkeypatch.setattr("dbops.worker.connection_tests.stream.pull_zeros", pull)
    operator.post(STREAM, PAIR)
    runner.run_test(only().pk)
    text = operator.get(f"/admin/connection-tests/{only().pk}/").content.decode()
    assert "286 MiB/s" in text
    assert only().result["rates"] == {"aes128-gcm@openssh.com": 180_000_000, FASTEST: 300_000_000}
    assert f"{FASTEST} 286 MiB/s" in text
    assert NO_CIPHER in text, "what the source's sshd does not allow is no reason to measure nothing"
    target, source = Instance.objects.get(name="replica-1"), Instance.objects.get(name="backup-1")
    plan = plan_rebuild(target=target, source=source)
    assert plan.cipher.split(",")[0] == FASTEST
    assert plan.stream_reasons[0].startswith(f"{FASTEST}: ")
    assert plan.stream_reasons[0] in html.unescape(operator.get("/instances/replica-1/rebuild/").content.decode())
    assert PULL in text
    assert AuditEntry.objects.get(action="test.passed").detail["bytes_per_second"] == 300_000_000


def test_stream_test_fails_without_facts_of_the_hosts(trio: Any, operator: Client) -> None:
    make_host("new")
    operator.post(STREAM, {"source": "new", "target": "host-replica-1"})
    runner.run_test(only().pk)
    assert (only().status, only().error["code"]) == ("failed", "test.no_facts")


def test_unexpected_error_ends_the_test_as_unknown_and_is_raised(
    trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, ZeroDivisionError())
    operator.post(SSH)
    with pytest.raises(ZeroDivisionError):
        runner.run_test(only().pk)
    assert (only().status, only().error["code"], only().slot) == ("unknown", "test.unknown", None)


@pytest.mark.parametrize("address", [SSH, MYSQL])
def test_connection_test_fails_when_a_secret_cannot_be_decrypted(
    trio: Any, operator: Client, settings: Any, address: str
) -> None:
    Host.objects.filter(name="host-replica-1").update(ssh_private_key="a key")
    operator.post(address)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    runner.run_test(only().pk)
    assert (only().status, only().error["code"]) == ("failed", "test.secret")
    ConnectionTest.objects.update(status="running", started_at=timezone.now() - timedelta(hours=1))
    assert runner.tests_due() == []
    assert operator.get("/admin/connection-tests/").status_code == 200


@pytest.mark.parametrize(("status", "column"), [("running", "started_at"), ("queued", "requested_at")])
def test_connection_test_of_a_dead_worker_ends_as_unknown(
    trio: Any, operator: Client, status: str, column: str
) -> None:
    operator.post(SSH)
    late = timezone.now() - timedelta(seconds=runner.WAITS_AT_MOST_SECONDS + 1)
    ConnectionTest.objects.update(**{"status": status, "started_at": timezone.now(), column: late})
    assert runner.tests_due() == []
    assert (only().status, only().slot) == ("unknown", None)
    assert "<code>test.unknown</code>" in operator.get(f"/admin/connection-tests/{only().pk}/").content.decode()
    assert AuditEntry.objects.filter(action="test.unknown").count() == 1


def test_queued_connection_test_is_published_again(trio: Any, operator: Client) -> None:
    operator.post(SSH)
    assert runner.tests_due() == [only().pk]
    ConnectionTest.objects.update(status="running", started_at=timezone.now())
    assert runner.tests_due() == []


def test_late_worker_changes_no_ended_test(trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    operator.post(SSH)

    class Slow(FakeShell):
        def run(self, *_: Any, **__: Any) -> CommandResult:
            ConnectionTest.objects.update(status="unknown", slot=None)
            return super().run()

    monkeypatch.setattr("dbops.worker.connection_tests.runner.open_shell", lambda host: Slow(looks()))
    runner.run_test(only().pk)
    assert only().status == "unknown"
    assert not AuditEntry.objects.filter(action="test.passed").exists()


def test_mysql_test_works_without_facts(trio: Any, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_instance("fresh", cluster=trio[0].cluster)
    operator.post("/admin/connection-tests/mysql/fresh/")
    refused = Unreachable("mysql.unreachable", "Talking to the server", cause="Connection refused")
    monkeypatch.setattr("dbops.worker.connection_tests.runner.open_database", lambda *_, **__: FakeDatabase(refused))
    runner.run_test(only().pk)
    assert only().error["code"] == "mysql.unreachable"
