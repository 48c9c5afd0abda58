"""Every link and form that a page shows to a role, followed: none is refused because of the role, or because the request is one's own."""

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from dbops.engine.states import Approval, RunStatus, Status
from dbops.models import BackupRun, Cluster, Rebuild
from tests.app.web.test_roles_of_urls import TABLE, addresses, client_of
from tests.app.web.test_roles_of_urls import numbers as numbers  # noqa: PLC0414 - a fixture

#: Of a refusal on a page that has no 403.
DENIED = ("access.denied", "approval.own", "approval.twice")
#: Fields whose values are of no interest here.
UNLIKE = ("csrfmiddlewaretoken", "next")
NOT_FOLLOWED = ("/logout/", "/language/", "/static/")
#: Streams, which end with their subject alone.
ENDLESS = ("/events/", "/stream/")
#: Each kind of role once; the clusters of the rows are ``shop``, "here", and ``away``.
ACCOUNTS = ("viewer", "approver", "operator here", "approver elsewhere", "admin here", "no group")

Call = tuple[str, str, tuple[tuple[str, str], ...]]


class Calls(HTMLParser):
    """What a page offers: method, address and fields of each link and of each button of a form."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.found = address, set[Call]()
        self.form: tuple[str, str] | None = None
        self.fields: dict[str, str] = {}
        self.buttons: list[tuple[str, str]] = []
        self.is_enabled, self.is_shut = True, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        for name in ("href", "hx-get", "sse-connect"):
            if name in given and tag != "link":
                self._add("get", given[name])
        if tag == "form":
            self.form = (given.get("method", "get").lower(), given.get("action", ""))
            self.fields, self.buttons, self.is_enabled, self.is_shut = {}, [], False, False
        elif tag == "fieldset":
            self.is_shut = "disabled" in given
        elif tag == "input" and given.get("type") == "hidden" and self.form:
            self.fields[given.get("name", "")] = given.get("value", "")
        elif (
            tag == "button"
            and self.form
            and given.get("type") != "button"
            and not (self.is_shut or "disabled" in given)
        ):
            self.is_enabled = True
            if given.get("name"):
                self.buttons.append((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self.form:
            for name, value in (self.buttons or [("", "")]) if self.is_enabled else ():
                fields = self.fields | ({name: value} if name else {})
                self._add(*self.form, tuple(sorted(fields.items())))
            self.form = None

    def _add(self, method: str, address: str, fields: tuple[tuple[str, str], ...] = ()) -> None:
        # One of the links that differ in their filters alone is enough.
        whole = urljoin(self.address, address).partition("#")[0].partition("?")[0]
        parts = urlsplit(whole)
        if not parts.scheme and parts.path.startswith("/") and not parts.path.startswith(NOT_FOLLOWED):
            self.found.add((method, whole, tuple(one for one in fields if one[0] not in UNLIKE)))


@pytest.fixture
def states(numbers: dict[str, int]) -> dict[str, int]:
    """A rebuild and a run in states that have other buttons."""
    Cluster.objects.update(needs_approval=True)
    Rebuild.objects.update(approval=Approval.WAITING, approval_count=2)
    return numbers


def pages(account: str, numbers: dict[str, int]) -> Iterator[str]:
    """Yield the address of each page that the account may open."""
    for name, address in addresses(numbers).items():
        allowed = TABLE[name]
        if allowed is not None and account in allowed and not address.endswith(ENDLESS):
            yield address
    first = Rebuild.objects.get(pk=numbers["rebuild_id"])
    me = User.objects.get(username="me")
    mine = Rebuild.objects.filter(pk=first.pk)
    mine.update(requested_by=me)
    yield f"/rebuilds/{first.pk}/actions/"
    for status in (Status.RUNNING, Status.LOST, Status.FAILED):
        mine.update(status=status)
        yield f"/rebuilds/{first.pk}/actions/"
    BackupRun.objects.filter(pk=numbers["run_id"]).update(status=RunStatus.RUNNING)
    yield f"/backups/runs/{numbers['run_id']}/"


def refusal(client: Client, call: Call) -> str:
    """Make a call, and undo it. Return how it was refused because of the role; ``""`` if it was not."""
    method, address, fields = call
    with transaction.atomic():
        send = client.get if method == "get" else client.post
        answer = send(address, dict(fields))
        transaction.set_rollback(True)
    body = b"" if answer.streaming else answer.content
    if answer.status_code in {403, 405}:
        return f"{answer.status_code}"
    return next((code for code in DENIED if answer.status_code == 409 and code.encode() in body), "")


@pytest.mark.parametrize("account", ACCOUNTS)
def test_page_offers_only_what_the_account_may_do(account: str, states: dict[str, int]) -> None:
    client = client_of(account)
    calls: dict[Call, str] = {}
    wrong: dict[Call, tuple[str, str]] = {}
    if account == "no group":
        calls["get", "/", ()] = "the brand: the page says which group is missing"
    for page in pages(account, states):
        answer = client.get(page)
        if answer.status_code != 200 or "html" not in answer["Content-Type"] or answer.streaming:
            continue
        reader = Calls(page)
        reader.feed(answer.content.decode())
        for call in sorted(reader.found - calls.keys()):
            calls[call] = page
            if not urlsplit(call[1]).path.endswith(ENDLESS) and (refused := refusal(client, call)):
                wrong[call] = (refused, page)
    assert len(calls) > 2
    assert wrong == {}
