"""The pages of the administration in a browser: narrow and wide, and accounts from the first click to the last."""

import pytest
from playwright.sync_api import expect

from tests.inventory_servers import running_source
from tests.stack import Stack, wait_for

from .chromium import Visitor
from .conftest import Open

NAME, PASSWORD = "root", "paper clip staple battery"
PAGES = [
    "/inventory/",
    "/inventory/sources/",
    "/discoveries/",
    "/admin/credentials/",
    "/admin/connection-tests/",
    "/tokens/",
    "/admin/users/",
    "/admin/settings/",
]


@pytest.fixture
def root(stack: Stack, visit: Open) -> Visitor:
    words = ("--group", "operator", "--superuser", "--password-stdin")
    stack.manage("account", "create", NAME, *words, stdin=PASSWORD)
    return visit(NAME, PASSWORD)


def test_pages_fit_and_mark_the_current_menu(root: Visitor) -> None:
    for width in (1280, 360):
        root.page.set_viewport_size({"width": width, "height": 780})
        for address in PAGES:
            page = root.open(address)
            widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert widths[0] <= widths[1], f"{address} at {width}"
            current = page.get_by_role("navigation", name="Administration").locator("[aria-current]")
            expect(current).to_have_count(1)
            expect(current).to_be_in_viewport()


def log_in_with_a_given_password(anna: Visitor) -> None:
    """Log in with the password that root chose, and change it: no other page opens before."""
    page = anna.open("/login/")
    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url("**/password/")
    anna.open("/audit/")
    page.wait_for_url("**/password/")
    page.get_by_label("Current password").fill(PASSWORD)
    for label in ("New password", "New password again"):
        page.get_by_label(label, exact=True).fill(f"{PASSWORD} of anna alone")
    page.get_by_role("button", name="Change password").click()
    page.wait_for_url(f"{anna.url}/")


def test_account_is_added_used_and_deactivated(root: Visitor, visit: Open) -> None:
    page = root.open("/admin/users/")
    page.get_by_role("link", name="Add account").click()
    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password", exact=True).fill("short")
    page.get_by_label("Password again").fill("short")
    page.get_by_role("button", name="Add account").click()
    expect(page.get_by_text("This password is too short")).to_be_visible()
    expect(page.get_by_label("Username")).to_have_value("anna")
    root.forgive("422")
    for label in ("Password", "Password again"):
        page.get_by_label(label, exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Add account").dblclick()
    expect(page.get_by_text("Account anna added.")).to_be_visible()
    anna = visit()
    log_in_with_a_given_password(anna)
    page.get_by_role("link", name="anna").click()
    page.get_by_role("button", name="Deactivate anna").click()
    expect(page.get_by_text("anna deactivated")).to_be_visible()
    anna.open("/audit/")
    anna.page.wait_for_url("**/login/**")


def test_versions_can_be_copied(root: Visitor) -> None:
    root.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = root.open("/admin/settings/")
    page.get_by_role("button", name="Copy").click()
    assert "Schema: 00" in page.evaluate("navigator.clipboard.readText()")


def test_source_is_added_read_and_its_difference_judged(root: Visitor, stack: Stack) -> None:
    rows = stack.rows(
        "SELECT i.name, i.address, i.port, c.name AS cluster FROM dbops_instance i JOIN dbops_cluster c ON c.id = i.cluster_id"
    )
    listed = [
        {"Key": {"Hostname": row["address"], "Port": row["port"]}, "SuggestedClusterAlias": "other"} for row in rows
    ]
    listed.append({"Key": {"Hostname": "192.0.2.99", "Port": 3306}, "SuggestedClusterAlias": "other"})
    with running_source() as orchestrator:
        orchestrator.say("/api/all-instances", listed)
        page = root.open("/inventory/sources/add/")
        page.get_by_label("Name").fill("orchestrator")
        page.get_by_label("Kind").select_option("orchestrator")
        page.get_by_label("Address").fill(orchestrator.address)
        page.get_by_role("button", name="Add source").dblclick()
        page.wait_for_url("**/inventory/sources/of/orchestrator/")
        wait_for("the reading", lambda: stack.rows("SELECT 1 FROM dbops_inventorysource WHERE read_at IS NOT NULL"), 30)
        page.reload()
    new = page.locator("[data-difference=not_in_inventory]")
    expect(new).to_have_count(1)
    new.get_by_label("Reason").fill("a test machine")
    new.get_by_role("button", name="Ignore").click()
    expect(page.locator("[data-ignored]")).to_have_count(1)
    page.get_by_role("link", name="Propose").click()
    page.get_by_role("button", name="Check file").click()
    expect(page.locator("#errors-title")).to_be_visible()
    root.forgive("422")
