"""Every URL and every role: who is let in. A URL that is not in the table fails."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone

from dbops.engine.states import RunStatus, Status
from dbops.models import Cluster, ClusterRole, Maintenance
from tests.app.factories import make_rebuild, make_run, make_schedule, make_trio, make_user
from tests.app.load_test_rows import make_load_test, make_place, make_request
from tests.app.restore_test_rows import ended_restore_test

#: Who is let in by each kind of page; ``here`` and ``elsewhere`` are clusters, and each of these accounts is a viewer, too.
VIEWERS = {"viewer", "approver", "operator", "superuser"} | {
    f"{role} {place}" for role in ("operator", "approver", "admin") for place in ("here", "elsewhere")
}
FLEET = {"operator", "superuser"}
CLUSTER = FLEET | {"operator here", "admin here"}
SOME = CLUSTER | {"operator elsewhere", "admin elsewhere"}
APPROVERS = CLUSTER | {"approver", "approver here"}
SETTINGS = FLEET | {"admin here"}
SUPERUSERS = {"superuser"}
STRANGERS = {"no group", "no group, admin here"}
EVERYBODY = VIEWERS | STRANGERS
#: Not for people with a role, but for everybody, for tokens, or for logins.
OTHERS: set[str] | None = None
URLS: list[tuple[set[str] | None, str]] = [
    (
        VIEWERS,
        "fleet default-view cluster cluster-capacity rebuild-plan lineage waits rebuilds rebuild rebuild-events rebuild-poll "
        "rebuild-samples rebuild-actions rebuild-comparison rebuild-commands rebuild-evidence rebuild-log rebuild-log-lines "
        "rebuild-log-matches rebuild-log-text backup-run backup-runs backup-history availability availability-report cluster-report "
        "cluster-availability what-if audit audit-entry audit-verify audit-export topology inventory schedules schedule-due "
        "cluster-calendar fleet-calendar queue load-tests load-test-compare load-test load-test-json load-test-csv load-test-new "
        "load-test-digests error-codes own-tokens own-token-add own-token-revoke",
    ),
    (
        CLUSTER,
        "rebuild-group capacity-thresholds waits-read attestation rebuild-cancel rebuild-comparison-cancel rebuild-shared-read "
        "rebuild-rate-limit rebuild-queue-position rebuild-force-fail follow-up backup-run-stop backup-run-force-fail "
        "backup-run-mark-ended backup-run-restore-test restore-test-stop maintenance-mark maintenance-unmark topology-difference "
        "schedule-edit schedule-toggle schedule-run schedule-remove maintenance-begin maintenance-end load-test-cancel "
        "load-test-digests-read connection-test-mysql",
    ),
    (SOME, "schedule-add connection-tests connection-test connection-test-stream"),
    (CLUSTER, "connection-test-ssh"),
    (APPROVERS, "rebuild-approval"),
    (SETTINGS, "inventory-edit"),
    (
        FLEET,
        "discoveries discovery discovery-add credentials vault settings inventory-import inventory-export inventory-add inventory-sources "
        "inventory-source inventory-source-read inventory-source-proposal host-key host-sudo inventory-remove tokens "
        "token-revoke",
    ),
    (
        SUPERUSERS,
        "audit-sinks audit-sink-test audit-sink-remove notifications notification-log notification-channel-add "
        "notification-channel-test notification-channel-remove notification-secret-rotate notification-rule-add "
        "notification-rule-remove users user-add user user-password user-roles user-deactivate user-reactivate user-reset-factors "
        "user-end-sessions inventory-source-add inventory-source-remove",
    ),
    (EVERYBODY, "own-password login-sessions login-session-end login-sessions-end-others"),
    (
        OTHERS,
        # a redirection to the inventory, health, and what checks a token or logs in or out
        "admin healthz healthz-worker healthz-beat status metrics calendar-feed api-may-start api-backup-start api-backup-heartbeat "
        "api-backup-end login account_login logout language mfa_authenticate mfa_login_webauthn openid_connect_login "
        "openid_connect_callback "
        # a person's own factors, which ask for the password first
        "account_reauthenticate mfa_reauthenticate mfa_reauthenticate_webauthn mfa_index mfa_activate_totp mfa_deactivate_totp "
        "mfa_view_recovery_codes mfa_generate_recovery_codes mfa_add_webauthn mfa_remove_webauthn "
        # the API lets in tokens alone, and its verbs decide by their account as those of the pages do (tests/app/api)
        "api-openapi api-nowhere api-list-clusters api-read-cluster api-list-instances api-read-instance api-read-blockers "
        "api-plan-rebuild api-list-rebuilds api-request-rebuild api-read-rebuild api-read-rebuild-log api-follow-rebuild "
        "api-cancel-rebuild api-approve-rebuild api-decline-rebuild api-list-backup-runs api-read-backup-run "
        "api-list-backup-schedules api-run-backup-schedule api-list-restore-tests api-read-restore-test api-request-restore-test "
        "api-list-maintenance api-announce-maintenance api-end-maintenance api-read-availability api-read-audit-log "
        "api-read-audit-entry",
    ),
]
TABLE = {name: allowed for allowed, names in URLS for name in names.split()}
ACCOUNTS = sorted(EVERYBODY)


def addresses(numbers: dict[str, int], resolver: Any = None, prefix: str = "/") -> dict[str, str]:
    """Return every URL of the product by its name, about the cluster ``shop`` where it is about one."""
    found: dict[str, str] = {}
    for item in (resolver or get_resolver()).url_patterns:
        route = prefix + str(item.pattern)
        if isinstance(item, URLResolver):
            found |= addresses(numbers, item, route)
        else:
            found[str(item.name)] = filled(route, numbers)
    return found


def filled(route: str, numbers: dict[str, int]) -> str:
    name = "replica-1" if route.startswith("/instances/") or "/mysql/" in route else "shop"
    name = (
        "replica-1-nightly"
        if route.startswith("/schedules/")
        else "host-replica-1"
        if "/host/" in route or "/ssh/" in route
        else name
    )
    values = {
        "str:name": name,
        "str:kind": "cluster",
        "method:method": "rollback",
        "month:first": "2026-03",
        "str:key": "k",
    }
    values |= {f"int:{key}": str(number) for key, number in numbers.items()}
    while "<" in route:
        start, _, rest = route.partition("<")
        place, _, end = rest.partition(">")
        route = start + values.get(place, "1") + end
    return route


@pytest.fixture
def numbers(db: None, no_broker: None) -> dict[str, int]:
    """Two clusters, and a row of each kind that belongs to the cluster ``shop``."""
    make_trio("away")
    _, source, replica = make_trio()
    schedule = make_schedule(replica)
    rebuild = make_rebuild(target=replica, source=source, status=Status.QUEUED)
    run = make_run(source, started_at=timezone.now() - timedelta(hours=1), schedule=schedule)
    load_test = make_load_test(make_request(source, make_place()), actor=User.objects.create_superuser("maker"))
    now = timezone.now()
    stop = Maintenance.objects.create(cluster=replica.cluster, starts_at=now, reason="disks", created_by="olga")
    return {
        "rebuild_id": rebuild.pk,
        "run_id": run.pk,
        "restore_test_id": ended_restore_test(run, RunStatus.SUCCEEDED).pk,
        "load_test_id": load_test.pk,
        "maintenance_id": stop.pk,
        "user_id": make_user("somebody", "viewer").pk,
    }


def client_of(account: str) -> Client:
    """Return the browser of an account with the roles that its name tells."""
    role, _, place = account.partition(" ")
    if account == "superuser":
        user = User.objects.create_superuser("me")
    else:
        group = None if account.startswith("no group") else "viewer" if place else role
        user = make_user("me", group)
    clusters = {"here": "shop", "elsewhere": "away"}
    if place in clusters:
        ClusterRole.objects.create(user=user, cluster=Cluster.objects.get(name=clusters[place]), role=role)
    if account == "no group, admin here":
        ClusterRole.objects.create(user=user, cluster=Cluster.objects.get(name="shop"), role="admin")
    client = Client()
    client.force_login(user)
    return client


def test_every_url_is_in_the_table() -> None:
    assert set(addresses({})) == set(TABLE)
    assert sum(len(names.split()) for _, names in URLS) == len(TABLE), "a URL is in the table twice"


@pytest.mark.parametrize("account", ACCOUNTS)
def test_url_lets_in_whom_the_table_names(account: str, numbers: dict[str, int]) -> None:
    client = client_of(account)
    wrong = {}
    for name, address in addresses(numbers).items():
        allowed = TABLE[name]
        if allowed is None or (name == "rebuild-events" and account in allowed):  # it answers until the rebuild ends
            continue
        answer = client.get(address)
        if answer.status_code == 405:
            answer = client.post(address)
        status = answer.status_code
        to_login = status == 302 and answer["Location"].startswith("/login")
        if (status != 403) != (account in allowed) or status >= 500 or to_login:
            wrong[name] = status
    assert wrong == {}
