"""Each page, as it is served: valid HTML, nothing that axe objects to, and light enough for a slow line."""

from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from dbops.web.api import root as api
from tests.stack import OPERATOR, OPERATOR_PASSWORD, Stack

from .axe import objections
from .chromium import Visitor
from .conftest import Open
from .validity import mistakes
from .windows import Windows

pytestmark = [pytest.mark.services, pytest.mark.browser]
MOST_COMPRESSED_BYTES = 250_000
#: May see every page.
ADMINISTRATOR, PASSWORD = "susan", "horse correct staple battery"

#: By the name of its address: where it is found. ``{rebuild}``, ``{run}`` are numbers that the fixture knows.
PAGES = {
    "fleet": "/",
    "cluster": "/clusters/test/",
    "cluster-calendar": "/clusters/test/calendar/",
    "cluster-capacity": "/clusters/test/capacity/",
    "load-test-new": "/clusters/test/load-tests/new/",
    "load-test-digests": "/clusters/test/load-tests/digests/",
    "load-tests": "/load-tests/",
    "load-test-compare": "/load-tests/compare/",
    "topology": "/clusters/test/topology/",
    "rebuild-plan": "/instances/replica-1/rebuild/",
    "lineage": "/instances/replica-1/lineage/",
    "waits": "/instances/replica-1/waits/",
    "attestation": "/instances/replica-1/attestation/",
    "rebuilds": "/rebuilds/",
    "rebuild": "/rebuilds/{rebuild}/",
    "rebuild-commands": "/rebuilds/{rebuild}/commands/",
    "rebuild-log": "/rebuilds/{rebuild}/log/",
    "backup-runs": "/backups/",
    "backup-run": "/backups/runs/{run}/",
    "backup-history": "/backups/history/",
    "fleet-calendar": "/calendar/",
    "availability": "/availability/",
    "cluster-availability": "/availability/test/?gap=not_observed",
    "availability-report": "/availability/report/2025-01/",
    "cluster-report": "/availability/report/2025-01/test/",
    "what-if": "/availability/test/what-if/",
    "rebuild-group": "/clusters/test/rebuild-group/",
    "queue": "/queue/",
    "schedules": "/schedules/",
    "schedule-add": "/schedules/add/",
    "schedule-edit": "/schedules/nightly/edit/",
    "schedule-remove": "/schedules/nightly/remove/",
    "audit": "/audit/",
    "audit-entry": "/audit/1/",
    "inventory": "/inventory/",
    "inventory-add": "/inventory/add/host/",
    "inventory-edit": "/inventory/instance/replica-1/",
    "inventory-remove": "/inventory/instance/replica-1/remove/",
    "inventory-import": "/inventory/import/",
    "inventory-sources": "/inventory/sources/",
    "inventory-source-add": "/inventory/sources/add/",
    "host-key": "/inventory/host/replica-1/key/",
    "host-sudo": "/inventory/host/replica-1/sudo/",
    "discoveries": "/discoveries/",
    "tokens": "/tokens/",
    "credentials": "/admin/credentials/",
    "vault": "/admin/credentials/vault/",
    "settings": "/admin/settings/",
    "connection-tests": "/admin/connection-tests/",
    "error-codes": "/errors/",
    "audit-sinks": "/admin/audit-sinks/",
    "notifications": "/admin/notifications/",
    "notification-log": "/admin/notifications/log/",
    "notification-channel-add": "/admin/notifications/channels/add/",
    "notification-rule-add": "/admin/notifications/rules/add/",
    "users": "/admin/users/",
    "user-add": "/admin/users/add/",
    "user": "/admin/users/{person}/",
    "own-password": "/password/",
    "mfa_index": "/account/factors/",
    "login-sessions": "/account/sessions/",
    "own-tokens": "/account/tokens/",
    "account_reauthenticate": "/account/confirm/",
}
#: Pages of a state that this stack is not in; their own tests look at them.
ELSEWHERE = {
    "follow-up",  # retry, put back: of a failed rebuild
    "rebuild-approval",  # test_second_person.py
    "rebuild-cancel",
    "rebuild-comparison-cancel",  # test_row_comparisons.py
    "rebuild-force-fail",
    "rebuild-shared-read",  # test_one_read.py
    "rebuild-rate-limit",  # test_one_read.py
    "rebuild-queue-position",
    "backup-run-stop",
    "backup-run-force-fail",
    "backup-run-mark-ended",
    "restore-test-stop",
    "load-test",  # test_load_tests.py
    "load-test-cancel",  # test_load_tests.py
    "topology-difference",
    "discovery",
    "discovery-add",
    "audit-sink-remove",  # of a sink
    "inventory-source",  # of a source
    "inventory-source-proposal",
    "inventory-source-remove",
    "notification-channel-remove",  # of a channel
    "notification-secret-rotate",
    "notification-rule-remove",  # of a rule
    "connection-test",
    "user-deactivate",
    *("login", "account_login"),  # below: without a login
    # test_login.py: with a factor, or right after a confirmation
    *(
        "mfa_authenticate",
        "mfa_reauthenticate",
        "mfa_reauthenticate_webauthn",
        "mfa_activate_totp",
        "own-token-add",
        "mfa_deactivate_totp",
    ),
    *("mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_add_webauthn", "mfa_remove_webauthn"),
    "openid_connect_login",  # of a provider
}
#: Addresses that answer with no page of their own: parts of pages, streams, files, forms that lead elsewhere, machines.
NO_PAGES = {
    "audit-verify",
    "audit-export",
    "default-view",
    "rebuild-events",
    "rebuild-poll",
    "rebuild-samples",
    "rebuild-actions",
    "rebuild-comparison",
    "rebuild-evidence",  # a file; test_second_person.py opens it
    "rebuild-log-lines",
    "rebuild-log-matches",
    "rebuild-log-text",
    "load-test-json",
    "load-test-csv",
    "inventory-export",
    "schedule-due",
    "schedule-toggle",
    "schedule-run",
    "backup-run-restore-test",
    "maintenance-begin",
    "capacity-thresholds",
    "waits-read",
    "load-test-digests-read",
    "maintenance-end",
    "maintenance-mark",
    "maintenance-unmark",
    "audit-sink-test",
    "inventory-source-read",
    "notification-channel-test",
    "token-revoke",
    "admin",
    "connection-test-ssh",
    "connection-test-mysql",
    "connection-test-stream",
    "user-password",
    "user-reactivate",
    *("user-roles", "user-reset-factors", "user-end-sessions", "login-session-end", "login-sessions-end-others"),
    "own-token-revoke",
    *("mfa_login_webauthn", "openid_connect_callback"),
    "calendar-feed",
    "logout",
    "language",
    *("healthz", "healthz-worker", "healthz-beat", "metrics"),
    "status",
    *(f"api-{name}" for name in ("may-start", "backup-start", "backup-heartbeat", "backup-end")),
    *(str(pattern.name) for pattern in api.urlpatterns),
}


@pytest.fixture(scope="module")
def addresses(stack: Stack, windows: Windows) -> dict[str, str]:
    """Each page's address by its name, on a stack where a rebuild and a backup have ended."""
    if not stack.rows("SELECT id FROM dbops_rebuild WHERE status = 'succeeded'"):
        stack.wait_for_possible_plan("replica-1")
        status, found = stack.rebuild("replica-1")
        assert status == 0, found[-1]
    stack.manage(
        "account", "create", ADMINISTRATOR, "--group", "operator", "--superuser", "--password-stdin", stdin=PASSWORD
    )
    [person] = stack.rows("SELECT id FROM auth_user WHERE username = ?", OPERATOR)
    [newest] = stack.rows("SELECT max(id) AS id FROM dbops_rebuild WHERE status = 'succeeded'")
    numbers = {"rebuild": newest["id"], "run": windows.past_run, "person": person["id"]}
    return {name: path.format(**numbers) for name, path in PAGES.items()}


def names(patterns: list[URLPattern | URLResolver]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        found |= {str(pattern.name)} if isinstance(pattern, URLPattern) else names(pattern.url_patterns)
    return found


def test_every_url_has_a_page_test() -> None:
    assert names(get_resolver().url_patterns) == {*PAGES, *ELSEWHERE, *NO_PAGES}


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
def test_pages_pass_axe(visit: Open, addresses: dict[str, str], width: int, scheme: str) -> None:
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce")
    wrong = [f"login: {text}" for text in objections(visitor.open("/login/"))]
    visitor.log_in(ADMINISTRATOR, PASSWORD)
    for name, address in addresses.items():
        wrong += [f"{name}: {text}" for text in objections(visitor.open(address))]
    assert wrong == []


def test_pages_are_valid_html(visit: Open, addresses: dict[str, str], tmp_path: Path) -> None:
    """Of what the server sends, before anything on the page changes it."""
    susan = visit(ADMINISTRATOR, PASSWORD)
    asked = {**addresses, "login": "/login/", "not-found": "/nothing-here/"}
    for name, address in asked.items():
        (tmp_path / f"{name}.html").write_text(susan.page.request.get(susan.url + address).text())
    assert mistakes(tmp_path) == []
    assert len(asked) == len(list(tmp_path.glob("*.html")))


def test_first_page_is_small(visit: Open, addresses: dict[str, str]) -> None:
    """Everything that a browser with an empty cache loads for the fleet page, as it comes over the line."""
    visitor = visit(OPERATOR, OPERATOR_PASSWORD)
    line = visitor.context.new_cdp_session(visitor.page)
    line.send("Network.enable")
    line.send("Network.clearBrowserCache")
    sizes: list[float] = []
    line.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    visitor.open("/").wait_for_load_state("load")
    assert len(sizes) > 4
    assert sum(sizes) < MOST_COMPRESSED_BYTES, sizes
    print(f"{sum(sizes) / 1000:.0f} kB in {len(sizes)} answers")


def test_static_files_are_cached_and_compressed(olga: Visitor, addresses: dict[str, str]) -> None:
    page = olga.open("/")
    [sheet] = page.locator("link[rel=stylesheet][href*=app]").all()
    answer = olga.page.request.get(olga.url + str(sheet.get_attribute("href")))
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
