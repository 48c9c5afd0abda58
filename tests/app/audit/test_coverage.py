"""Everything is audited: operations, transitions, commands and downloads."""

import inspect
import pkgutil
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops import operations, web
from dbops.engine.audit.entries import DATA_MOVEMENT
from dbops.engine.errors import Refused
from dbops.engine.methods import FOLLOW_UPS
from dbops.engine.states import TRANSITIONS, Status, StepState
from dbops.lifecycle import leases, rebuild_driver
from dbops.lifecycle.rebuild_driver import RebuildUpdate
from dbops.models import AuditEntry, ExecutedCommand, Rebuild
from dbops.operations.rebuilds import cancel_rebuild, plan_rebuild, request_rebuild
from dbops.worker import scheduler
from tests.app import rows
from tests.app.factories import make_trio

pytestmark = pytest.mark.django_db

#: Each public function of ``operations``, and what it leaves in the log; a sentence (with a space) says why nothing.
READS = "it reads"
VERBS = {
    "api_tokens.make_api_token": "token.made",
    "api_tokens.revoke_api_token": "token.revoked",
    "api_tokens.revoke_api_tokens": "token.revoked",
    "kept_answers.answer_once": "what is answered writes its own entry; a repeat does nothing",
    "approvals.approve_rebuild": "rebuild.approved",
    "approvals.decline_rebuild": "its end is written with it, as rebuild.declined",
    "approvals.override_approval": "override.approval",
    "approvals.who_may_approve": READS + " tables",
    "approvals.may_approve": READS + " tables",
    "approvals.may_decide": READS + " tables",
    "approvals.is_own": READS + " a row",
    "approvals.rule_of": READS + " a row",
    "cluster_roles.give_role": "set_role",
    "cluster_roles.take_role": "set_role",
    "cluster_roles.set_role": "account.role_given",
    "host_access.require_on_hosts": READS + " tables",
    "fleet.require_to_save": READS + " tables",
    "confirmation.check_confirmation": READS + " what was typed",
    "confirmation.check_plan": READS + " what was typed",
    "confirmation.check_ticket": READS + " what was typed",
    "accounts.save_account": "account.",
    "accounts.list_accounts": READS + " tables",
    "accounts.check_account": READS + " what was typed",
    "accounts.check_password": READS + " what was typed",
    "attestations.attest_storage": "storage.attested",
    "attestations.digest_of": READS + " a text",
    "attestations.withdraw_attestation": "storage.attestation_withdrawn",
    "audit.says_why": READS + " what was typed",
    "audit.record_export": "data.exported",
    "audit.record_item": "{item.kind}.{item.outcome}",
    "audit.refusals_recorded": "its callers name the act",
    "inventory_sources.add_source": "inventory_source.added",
    "inventory_sources.remove_source": "inventory_source.removed",
    "inventory_sources.request_reading": "inventory_source.read_requested",
    "inventory_sources.ignore_difference": "inventory_source.difference_ignored",
    "inventory_sources.stop_ignoring": "inventory_source.difference_opened",
    "audit_sinks.add_sink": "audit.sink_added",
    "audit_sinks.remove_sink": "audit.sink_removed",
    "audit_sinks.test_sink": "audit.sink_tested",
    "audit_log.verify_log": "audit.verified",
    "audit_log.export_log": "audit.exported",
    "audit_log.take_evidence": "record_export",
    "backup_reports.take_report": "a report of an external backup is a row of its history, not an act of dbops",
    "backup_reports.may_start": READS + " tables",
    "backups.run_now": "backup.requested",
    "backups.stop_run": "backup.stop_requested",
    "backups.force_fail_run": "backup.force_failed",
    "backups.mark_run_ended": "backup.marked_ended",
    "backups.request_restore_test": "restore_test.requested",
    "backups.stop_restore_test": "restore_test.stop_requested",
    "row_comparisons.cancel_comparison": "comparison.cancel_requested",
    "waits.request_wait_reading": "waits.requested",
    "digests.request_digest_reading": "digests.requested",
    "connection_tests.request_ssh": "test.requested",
    "connection_tests.request_mysql": "test.requested",
    "connection_tests.request_stream": "test.requested",
    "fleet.import_fleet": "record_item",
    "fleet.export_fleet": "the view and manage.py record the actor",
    "fleet.save_host": "record_item",
    "fleet.save_cluster": "record_item",
    "fleet.save_instance": "record_item",
    "fleet.read_host_key": READS + " a host's key",
    "fleet.accept_host_key": "host.key_accepted",
    "fleet.delete": "{kind}.removed",
    "follow_ups.follow_up_plan": READS + " tables",
    "follow_up_options.choices_of": READS + " a row",
    "follow_up_options.ended": READS + " tables",
    "follow_up_options.has_worked": READS + " a row",
    "follow_up_options.initial_checkpoint": READS + " tables",
    "follow_up_options.follow_up_options": READS + " tables",
    "follow_ups.request_follow_up": "_requested",
    "secrets.count_secrets": READS + " tables",
    "secrets.rotate_secrets": "secrets.rotated",
    "secrets.retire_keys": "secrets.keys_retired",
    "host_certificates.read_host_certificate": READS + " the host, and notes the end of its certificate",
    "vault.secrets_in_vault": READS + " tables",
    "vault.check_vault": "vault.checked",
    "shared_reads.join_read": "rebuild.joined",
    "shared_reads.leave_read": "rebuild.left",
    "shared_reads.may_join": READS + " tables",
    "shared_reads.partners": READS + " tables",
    "shared_reads.refused": "its callers write the record",
    "shared_reads.tools_of": READS + " tables",
    "rate_limit.can_be_held": READS + " nothing",
    "rate_limit.check_rate": READS + " tables",
    "rate_limit.set_stream_rate": "rebuild.rate_changed",
    "rebuild_group.plan_group": READS + " tables",
    "rebuild_group.request_group": "refusals_recorded",
    "capacity.set_thresholds": "capacity.thresholds_changed",
    "load_tests.plan_load_test": READS + " tables",
    "load_tests.request_load_test": "load_test.requested",
    "load_tests.cancel_load_test": "load_test.stop_requested",
    "maintenance.begin_maintenance": "maintenance.announced",
    "maintenance.end_maintenance": "maintenance.ended",
    "maintenance.mark_maintenance": "maintenance.marked",
    "maintenance.unmark_maintenance": "maintenance.unmarked",
    "audit_archive.archive_entries": "audit.archived",
    "notification_channels.add_channel": "notification.channel_added",
    "notification_channels.remove_channel": "notification.channel_removed",
    "notification_channels.rotate_secret": "notification.secret_rotated",
    "notification_channels.test_channel": "notification.channel_tested",
    "notification_rules.add_rule": "notification.rule_added",
    "notification_rules.remove_rule": "notification.rule_removed",
    "account_admin.access_of": READS + " a row",
    "account_admin.add_account": "account.created",
    "account_admin.change_account": "account.changed",
    "account_admin.set_password": "account.password_set",
    "account_admin.deactivate": "account.deactivated",
    "account_admin.change_own_password": "account.password_changed",
    "account_admin.reactivate": "account.reactivated",
    "account_admin.reset_factors": "factors.remove_all_factors",
    "account_admin.end_sessions": "login_sessions.end_all_sessions",
    "factors.has_factor": READS + " tables",
    "factors.remove_all_factors": "account.factors_reset",
    "login_sessions.begin_session": "its caller writes login",
    "login_sessions.note_use": "the time of a session's last use is no act on anything",
    "login_sessions.end_session": "session.ended",
    "login_sessions.end_other_sessions": "session.ended",
    "login_sessions.end_all_sessions": "session.ended",
    "login_sessions.drop_sessions": "its callers write how many ended",
    "provider_accounts.admit": "account.created",
    "provider_accounts.link_account": "account.linked",
    "provider_accounts.unlink_account": "account.unlinked",
    "login_limits.count_second_factor": "its callers write login.failed",
    "login_limits.count_login_start": "its caller writes login.blocked",
    "login_limits.count_code": "its callers write login.failed",
    "rebuilds.candidate_sources": READS + " tables",
    "rebuilds.plan_rebuild": READS + " tables",
    "rebuilds.plan_inputs_for": READS + " tables",
    "rebuilds.request_rebuild": "rebuild.requested",
    "rebuilds.write_once": "what it is given writes it",
    "rebuilds.cancel_rebuild": "rebuild.cancel_requested",
    "rebuilds.set_priority": "rebuild.priority_changed",
    "rebuilds.move_first": "rebuild.priority_changed",
    "rebuilds.force_fail_rebuild": "rebuild.force_failed",
    "schedules.save_schedule": "record_item",
    "schedules.set_enabled": "record_item",
    "schedules.remove_schedule": "schedule.removed",
    "account_admin.choose_language": "how a person likes to read the pages is no act on anything",
    "account_admin.language_of": READS,
    "account_admin.save_default_view": "how a person likes to see the first page is no act on anything",
    "account_admin.default_view_of": READS + " a row",
    "start_options.offered_start_options": READS + " tables",
    "start_options.stoppable": READS + " a picture",
    "start_options.default_expires_hours": READS + " settings",
    "start_options.choose": READS + " tables",
    "start_options.audited": READS + " a choice",
    "login_limits.count_login": "its callers write login.failed and login.blocked",
    "login_limits.count_wrong_token": "its caller writes token.blocked",
    "login_limits.network_of": READS + " an address",
    "login_limits.spelled": READS + " a name",
    "login_limits.unblock": "account.unblocked",
    "strict_places.approval_need": READS + " tables",
    "strict_places.strict_places_kept": "override.left_approval",
    "tokens.make_token": "token.made",
    "tokens.revoke_token": "token.revoked",
    "tokens.token_of": READS + " a token; its row has the time of its last use",
    "tokens.check_token": READS + " a row",
    "tokens.digest_of": READS + " a token",
    "topology.request_discovery": "discovery.requested",
    "topology.accept_roles": "topology.roles_accepted",
    "topology.accept_as_intended": "topology.difference_accepted",
    "topology.withdraw": "topology.acceptance_withdrawn",
}


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


def _verbs() -> dict[str, str]:
    """Return each public function of ``operations``, with the text of its module."""
    found = {}
    for info in pkgutil.iter_modules(operations.__path__):
        module = import_module(f"dbops.operations.{info.name}")
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("_") and member.__module__ == module.__name__:
                found[f"{info.name}.{name}"] = inspect.getsource(module)
    return found


def test_every_operation_writes_an_audit_entry_or_has_a_reason() -> None:
    verbs = _verbs()
    assert set(verbs) == set(VERBS)
    missing = [name for name, text in VERBS.items() if " " not in text and text not in verbs[name]]
    assert missing == []


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))


def last() -> AuditEntry:
    return AuditEntry.objects.order_by("sequence").last()  # type: ignore[return-value]


def request(**changes: Any) -> Rebuild:
    """Ask for a rebuild in a new, small fleet."""
    fleet, olga = rows.make_fleet(), rows.operator()
    target, source = fleet["replica-1"], fleet["backup-1"]
    given = {
        "typed_name": target.name,
        "reason": "for a test",
        "fingerprint": plan_rebuild(target=target, source=source).fingerprint,
        "request_key": "one",
        "actor": olga,
    }
    return request_rebuild(target=target, source=source, **(given | changes))


def moved_to(status: Status) -> str:
    """Bring a rebuild into a state by the way that the product has, and return the last action."""
    rebuild = request()
    if status is Status.CANCELLED:
        cancel_rebuild(actor=rebuild.requested_by, rebuild=rebuild)
        return last().action
    if status is Status.EXPIRED:
        Rebuild.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        scheduler.start_what_can()
        return last().action
    scheduler.start_what_can()
    if status is Status.RUNNING:
        return last().action
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    if status is Status.LOST:
        Rebuild.objects.update(unreachable_since=timezone.now() - timedelta(days=1))
        leases.mark_unreachable(lease, "silent")
    else:
        rebuild_driver.finish(lease, status, "It is over.")
    return last().action


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.QUEUED])
def test_every_transition_of_a_rebuild_is_in_the_audit_log(status: Status) -> None:
    assert any(status in to for to in TRANSITIONS.values())
    word = "started" if status is Status.RUNNING else status.value
    assert moved_to(status) == f"rebuild.{word}"
    entry = last()
    assert (entry.subject, entry.instance, entry.cluster) == ("replica-1", "replica-1", "shop")
    assert entry.actor == ("olga" if status is Status.CANCELLED else "dbops")


def test_found_again_and_takeover_are_in_the_audit_log() -> None:
    moved_to(Status.LOST)
    rebuild = Rebuild.objects.get()
    Rebuild.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    assert (last().action, last().detail["rebuild"]) == ("rebuild.taken_over", rebuild.pk)
    leases.mark_reachable(lease)
    assert last().action == "rebuild.found_again"
    leases.release_lease(lease, 0)
    count = AuditEntry.objects.count()
    assert rebuild_driver.take_lease(rebuild.pk) is not None
    assert AuditEntry.objects.count() == count


def command(rebuild: Rebuild, key: str) -> ExecutedCommand:
    return ExecutedCommand(
        rebuild=rebuild, key=key, step="stream", place="db-13", text=f"/bin/{key}", started_at=timezone.now()
    )


@pytest.mark.parametrize(("exit_status", "outcome"), [(0, "done"), (77, "failed"), (None, "unknown")])
def test_each_command_is_in_the_audit_log_once_with_its_exit_status(exit_status: int | None, outcome: str) -> None:
    rebuild = rows.started_rebuild()
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    rebuild_driver.heartbeat(lease, RebuildUpdate(started_commands={"a": command(rebuild, "a")}), None)
    before = AuditEntry.objects.count()
    ended = RebuildUpdate(finished_commands={"a": (exit_status, "output", timezone.now())})
    rebuild_driver.heartbeat(lease, ended, None)
    rebuild_driver.heartbeat(lease, ended, None)
    assert AuditEntry.objects.count() == before + 1
    entry = last()
    assert (entry.action, entry.subject, entry.instance, entry.outcome) == (
        *("command.ended", "db-13", "replica-1"),
        outcome,
    )
    assert (entry.detail["command"], entry.detail["exit_status"]) == ("/bin/a", exit_status)


def test_commands_are_in_the_audit_log_when_their_step_or_rebuild_ends() -> None:
    rebuild = rows.started_rebuild()
    lease = rebuild_driver.take_lease(rebuild.pk)
    assert lease is not None
    for key in "ab":
        rebuild_driver.heartbeat(lease, RebuildUpdate(started_commands={key: command(rebuild, key)}), None)
    news = [RebuildUpdate(finished_commands={key: (0, "", timezone.now())}) for key in "ab"]
    rebuild_driver.end_step(lease, "preflight", StepState.DONE, {}, news[0], {})
    rebuild_driver.end_badly(
        lease, "stream", Status.FAILED, {}, news[1], {}, last_step="clean-up", error={"code": "x"}, text="It broke."
    )
    assert actions()[-2:] == ["command.ended"] * 2


def test_refused_rebuild_is_in_the_audit_log_with_its_findings(settings: Any) -> None:
    fleet, olga = rows.make_fleet(), rows.operator()
    given: dict[str, Any] = {
        "actor": olga,
        "target": fleet["replica-1"],
        "source": fleet["backup-1"],
        "typed_name": "replica-1",
        "reason": "the disk",
        "fingerprint": "shown",
        "request_key": "one",
    }
    secret = "hunter2 in the wrong field"
    changes: list[tuple[str, dict[str, Any]]] = [
        ("rebuild.name", {"typed_name": secret}),
        ("rebuild.reason", {"reason": ""}),
        ("plan.stale", {}),
        ("access.denied", {"actor": rows.viewer()}),
        ("plan.refused", {"target": fleet["primary-1"], "typed_name": "primary-1"}),
    ]
    for code, change in changes:
        with pytest.raises(Refused, match=code):
            request_rebuild(**(given | change))
        entry = last()
        assert (entry.action, entry.outcome, entry.detail["code"]) == ("rebuild.refused", "refused", code)
    assert last().detail["findings"]
    assert secret not in str(list(AuditEntry.objects.values()))
    assert AuditEntry.objects.count() == len(changes)


@pytest.mark.parametrize(
    ("address", "subject"),
    [
        ("/availability/?format=csv", "availability"),
        ("/availability/shop/?format=json&days=7", "availability"),
        ("/availability/shop/what-if/?format=csv&source=1", "availability"),
        ("/availability/shop/what-if/?format=json", "availability"),
        ("/instances/replica-1/lineage/?format=csv", "lineage"),
        ("/instances/replica-1/lineage/?format=json", "lineage"),
        ("/inventory/export/", "fleet"),
    ],
)
def test_downloads_are_in_the_audit_log(operator: Client, address: str, subject: str) -> None:
    make_trio()
    assert "Content-Disposition" in operator.get(address).headers
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.subject) == ("olga", "data.exported", subject)
    assert operator.get("/availability/").status_code == 200
    assert AuditEntry.objects.count() == 1


def test_every_download_view_is_marked_as_exported() -> None:
    """A view that begins to send files must be marked ``exported``, or be named here with its reason."""
    folder = Path(web.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if "Content-Disposition" in path.read_text(encoding="utf-8")}
    assert found == {
        "record.py",  # the mark itself
        "tables.py",  # CSV and JSON of availability and lineage, marked in urls.py
        "inventory.py",  # marked
        "rebuild_log.py",  # marked
        "audit.py",  # a verb of its own writes it
        "evidence.py",  # a verb of its own writes it, with the file's hash
        "sample.py",  # it only marks the name of a file that another one sends
        "tokens.py",  # a calendar that programs fetch every few minutes: the token that lets them is in the log
    }


@pytest.mark.parametrize("name", FOLLOW_UPS)
def test_follow_up_requests_are_in_the_data_movement_view(name: str) -> None:
    assert f"rebuild.{name}_requested" in DATA_MOVEMENT
