"""The HTTP API by which hosts report their backups, and the tokens that let them."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dbops.engine.errors import Refused
from dbops.models import AccessToken, AuditEntry, BackupRun, BackupSchedule, Hold, Instance, Rebuild
from dbops.operations.tokens import digest_of, make_token, revoke_token, token_of
from dbops.web import bearer
from dbops.web.views import backup_reports
from tests.app.factories import make_cluster, make_instance, make_rebuild, make_run, make_trio

pytestmark = pytest.mark.django_db
KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_requests_of_other_tests() -> None:
    cache.clear()


@pytest.fixture
def backup() -> Instance:
    return make_trio()[1]


@pytest.fixture
def secret(backup: Instance) -> str:
    return make_token(actor="olga", name="backup-host", purpose="report", cluster=backup.cluster)[1]


def post(secret: str, kind: str, said: Any, key: str = KEY, **options: Any) -> Any:
    client = Client(enforce_csrf_checks=True)
    headers = {"Authorization": f"Bearer {secret}"}
    body = said if isinstance(said, str) else json.dumps(said)
    return client.post(f"/api/v1/backup-runs/{key}/{kind}", body, "application/json", headers=headers, **options)


def ask(secret: str, **asked: str) -> Any:
    return Client().get("/api/v1/backup-runs/may-start", asked, headers={"Authorization": f"Bearer {secret}"})


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["cause"]
    assert error["next_step"]
    return error


class TestReports:
    def test_report_creates_and_ends_a_run(self, backup: Instance, secret: str) -> None:
        said = {"instance": "backup-1", "method": "physical", "started_seconds_ago": 60}
        started = post(secret, "start", said)
        assert (started.status_code, started.json()["status"]) == (200, "running")
        assert post(secret, "heartbeat", {**said, "bytes": 5}).json()["run"] == started.json()["run"]
        ended = post(secret, "end", {**said, "exit_status": 0, "bytes": 70_000, "path": "/b/x"}).json()
        assert (ended["run"], ended["status"], ended["origin"]) == (started.json()["run"], "succeeded", "reported")
        run = BackupRun.objects.get()
        assert (run.method, run.bytes_written, run.path, run.instance) == ("physical", 70_000, "/b/x", backup)
        assert run.started_at
        assert run.finished_at
        assert abs((run.finished_at - run.started_at).total_seconds() - 60) < 5

    def test_report_accepts_the_name_of_a_schedule(self, backup: Instance, secret: str) -> None:
        schedule = BackupSchedule.objects.create(
            name="nightly", instance=backup, method="physical", run_by="external", cron="0 2 29 2 *"
        )
        assert post(secret, "end", {"schedule": "nightly", "exit_status": 1}).json()["status"] == "failed"
        run = BackupRun.objects.get()
        assert (run.schedule, run.due_at, run.method, run.instance) == (schedule, None, "physical", backup)

    def test_report_is_refused_for_instances_of_other_clusters(self, secret: str) -> None:
        other = make_instance("elsewhere-1", cluster=make_cluster("elsewhere"))
        BackupSchedule.objects.create(name="theirs", instance=other, method="dump", run_by="external", cron="0 2 * * *")
        there = refused(post(secret, "start", {"instance": "elsewhere-1"}), 404, "report.unknown_instance")
        nowhere = refused(post(secret, "start", {"instance": "nowhere-12"}), 404, "report.unknown_instance")
        assert there["cause"].replace("elsewhere-1", "nowhere-12") == nowhere["cause"]
        refused(post(secret, "start", {"schedule": "theirs"}), 404, "report.unknown_instance")
        refused(ask(secret, instance="elsewhere-1"), 404, "report.unknown_instance")
        assert not BackupRun.objects.exists()

    def test_report_key_belongs_to_one_run(self, secret: str) -> None:
        post(secret, "start", {"instance": "backup-1"})
        refused(post(secret, "start", {"instance": "replica-1"}), 409, "report.key_taken")
        assert BackupRun.objects.count() == 1

    @pytest.mark.parametrize(
        "said",
        [
            "nonsense", "[]", "\xff", "[" * 5000, {}, {"instance": 5}, {"instance": "a\0b"},
            {"instance": "backup-1", "method": "magic"}, {"instance": "backup-1", "bytes": -1},
            {"instance": "backup-1", "bytes": "7"}, {"instance": "backup-1", "bytes": True},
            {"instance": "backup-1", "bytes": 2**70}, {"instance": "backup-1", "started_seconds_ago": 1e300},
            {"instance": "backup-1"},
        ],
    )  # fmt: skip
    def test_report_is_refused_when_unreadable(self, secret: str, said: Any) -> None:
        refused(post(secret, "end", said), 400, "report.invalid")
        assert not BackupRun.objects.exists()

    @pytest.mark.parametrize("key", ["short", "x" * 65, "a b c d e f g", "%2e%2e%2f%2e%2e%2f"])
    def test_report_refuses_bad_keys(self, secret: str, key: str) -> None:
        answer = post(secret, "start", {"instance": "backup-1"}, key=key)
        assert answer.status_code in (400, 404)
        assert not BackupRun.objects.exists()

    def test_report_limits_size_and_rate(self, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
        large = {"instance": "backup-1", "command": "x" * backup_reports.BODY_BYTES}
        refused(post(secret, "start", large), 413, "report.too_large")
        monkeypatch.setattr(bearer, "REQUESTS_A_MINUTE", 3)
        assert [post(secret, "start", {"instance": "backup-1"}).status_code for _ in range(3)] == [200, 200, 429]
        answer = post(secret, "start", {"instance": "backup-1"})
        refused(answer, 429, "report.too_many")
        assert answer["Retry-After"] == "60"

    def test_report_accepts_post_only(self, secret: str) -> None:
        answer = Client().get(f"/api/v1/backup-runs/{KEY}/start", headers={"Authorization": f"Bearer {secret}"})
        refused(answer, 405, "report.wrong_method")
        assert answer["Allow"] == "POST"

    def test_report_cleans_text_of_hosts(self, secret: str) -> None:
        post(secret, "start", {"instance": "backup-1", "path": "/b/\x1b[31mx", "host": "db\x07"})
        run = BackupRun.objects.get()
        assert (run.path, run.evidence["reporter_host"]) == ("/b/x", "db")


class TestMayStart:
    def test_may_start_is_true_when_free(self, secret: str) -> None:
        answer = ask(secret, instance="backup-1")
        assert answer.json() == {
            "instance": "backup-1", "may_start": True, "because": "", "since": None, "until": None,
        }  # fmt: skip
        # dbops-backup-report looks for these very characters
        assert '"may_start": true' in answer.content.decode()

    def test_may_start_is_false_until_the_expected_end_of_a_rebuild(self, backup: Instance, secret: str) -> None:
        target, begun = Instance.objects.get(name="replica-1"), timezone.now()
        rebuild = make_rebuild(target=target, source=backup, status="running")
        Rebuild.objects.filter(pk=rebuild.pk).update(started_at=begun)
        Hold.objects.create(instance=backup, rebuild=rebuild, purpose="source", taken_at=begun)
        answer = ask(secret, instance="backup-1").json()
        because = answer.pop("because")
        assert f"rebuild {rebuild.pk} " in because
        assert "backup-1" in because
        assert answer == {"instance": "backup-1", "may_start": False, "since": begun.isoformat(), "until": None}
        assert '"may_start": false' in ask(secret, instance="backup-1").content.decode()
        for days in (1, 2, 3):
            past = make_rebuild(target=target, source=backup, status="succeeded")
            took = {"started_at": begun - timedelta(days=days, hours=2), "finished_at": begun - timedelta(days=days)}
            Rebuild.objects.filter(pk=past.pk).update(**took)
        assert ask(secret, instance="backup-1").json()["until"] == (begun + timedelta(hours=2)).isoformat()

    def test_may_start_is_false_during_a_managed_backup(self, backup: Instance, secret: str) -> None:
        now = timezone.now()
        run = make_run(backup, started_at=now, origin="managed")
        make_run(backup, started_at=now - timedelta(days=1), seconds=3600)
        Hold.objects.create(instance=backup, backup_run=run, purpose="backup", taken_at=now)
        answer = ask(secret, instance="backup-1").json()
        assert answer["may_start"] is False
        assert f"backup run {run.pk} " in answer["because"]
        assert "backup-1" in answer["because"]
        assert answer["until"] == (now + timedelta(hours=1)).isoformat()

    def test_may_start_ignores_backups_of_others(self, backup: Instance, secret: str) -> None:
        make_run(backup, started_at=timezone.now() - timedelta(hours=20), origin="reported")
        assert ask(secret, instance="backup-1").json()["may_start"] is True


class TestTokens:
    @pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic x", "Bearer " + "y" * 5000])
    def test_report_is_refused_without_a_token(self, backup: Instance, header: str) -> None:
        answer = Client().post(
            f"/api/v1/backup-runs/{KEY}/start", "{}", "application/json", headers={"Authorization": header}
        )
        refused(answer, 401, "token.unknown")
        assert answer["WWW-Authenticate"].startswith("Bearer")

    def test_session_is_not_accepted_as_token(self, operator: Client, backup: Instance) -> None:
        answer = operator.post(f"/api/v1/backup-runs/{KEY}/start", '{"instance": "backup-1"}', "application/json")
        refused(answer, 401, "token.unknown")

    def test_report_refuses_revoked_and_calendar_tokens(self, backup: Instance, secret: str) -> None:
        _, calendar = make_token(actor="olga", name="calendar", purpose="calendar", cluster=None)
        refused(post(calendar, "start", {"instance": "backup-1"}), 401, "token.unknown")
        assert token_of(calendar, "calendar").name == "calendar"
        revoke_token(actor="olga", name="backup-host")
        revoke_token(actor="olga", name="backup-host")
        refused(post(secret, "start", {"instance": "backup-1"}), 401, "token.unknown")
        assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
            "token.made", "token.made", "token.revoked",
        ]  # fmt: skip

    def test_token_is_stored_as_digest_and_compared_whole(self, secret: str) -> None:
        token = AccessToken.objects.get()
        assert token.digest == digest_of(secret)
        assert secret not in str(AccessToken.objects.values().get()) + str(list(AuditEntry.objects.values()))
        with pytest.raises(Refused):
            token_of(secret[:-1] + ("A" if secret[-1] != "A" else "B"), "report")

    def test_token_use_is_stored_rarely(self, secret: str) -> None:
        ask(secret, instance="backup-1")
        first = AccessToken.objects.get().last_used_at
        assert first
        ask(secret, instance="backup-1")
        assert AccessToken.objects.get().last_used_at == first

    @pytest.mark.parametrize("name", ["", "a b", "x" * 64, "-x"])
    def test_token_names_are_validated(self, backup: Instance, name: str) -> None:
        with pytest.raises(Refused) as caught:
            make_token(actor="olga", name=name, purpose="report", cluster=backup.cluster)
        assert caught.value.code == "token.invalid"

    def test_token_command_makes_and_revokes(self, backup: Instance) -> None:
        def run(*words: str) -> str:
            out = StringIO()
            call_command("token", *words, stdout=out)
            return out.getvalue()

        secret = run("make", "host-1", "--cluster", "shop").strip()
        assert token_of(secret, "report").cluster == backup.cluster
        listed = run("list")
        assert "host-1\treport\tshop" in listed
        assert secret not in listed
        run("revoke", "host-1")
        assert "revoked" in run("list")
        for words in (
            ["make", "host-1", "--cluster", "shop"],
            ["make", "x"],
            ["make", "x", "--cluster", "no"],
            ["revoke", "no"],
        ):
            with pytest.raises(CommandError):
                run(*words)
