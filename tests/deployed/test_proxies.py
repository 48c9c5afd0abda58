"""nginx, Apache, HAProxy and Caddy before one dashboard below a path."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from .conftest import GATEWAY, PREFIX
from .dashboard import Dashboard
from .proxies import HOST, PROXIES, running_proxy
from .visitor import Visitor

pytestmark = pytest.mark.services

LOGIN = f"{PREFIX}/login/"
PAGES = 40


@pytest.fixture(scope="module", params=PROXIES)
def behind(request: pytest.FixtureRequest, dashboard: Dashboard) -> Iterator[Visitor]:
    """Give somebody who is logged in through each proxy, from an address of his own."""
    with running_proxy(request.param, dashboard.port) as (port, certificate):
        found = Visitor(port, certificate, f"127.0.0.{20 + list(PROXIES).index(request.param)}")
        answer = found.log_in(LOGIN, X_Forwarded_For="6.6.6.6")
        assert (answer.status, answer.headers["Location"], answer.cause) == (302, f"{PREFIX}/", "")
        yield found


@contextmanager
def visitor(dashboard: Dashboard, **changes: str) -> Iterator[Visitor]:
    """Give somebody before an nginx whose fragment has one change."""
    with running_proxy("nginx", dashboard.port, **changes) as (port, certificate):
        yield Visitor(port, certificate, "127.0.0.40")


def test_login_page_is_below_the_prefix(behind: Visitor) -> None:
    visitor = Visitor(behind.port, behind.certificate, behind.address)
    answer = visitor.get(f"{PREFIX}/rebuilds/")
    assert answer.headers["Location"] == f"{LOGIN}?next={PREFIX}/rebuilds/"
    assert visitor.get(PREFIX).headers["Location"].removeprefix(visitor.origin) == f"{PREFIX}/"


def test_cookies_are_for_the_prefix_and_https_alone(behind: Visitor) -> None:
    assert {"sessionid", "csrftoken"} <= set(behind.set)
    for morsel in behind.set.values():
        assert (morsel["path"], morsel["secure"]) == (PREFIX, True)


def test_static_files_are_below_the_prefix(behind: Visitor) -> None:
    files = {path for path in behind.get(f"{PREFIX}/").addresses if "/static/" in path}
    assert {path.rpartition(".")[2] for path in files} >= {"css", "js", "svg"}
    for path in files:
        answer = behind.get(path.partition("#")[0])
        assert (answer.status, path.startswith(f"{PREFIX}/static/")) == (200, True), path


def test_audit_log_has_the_address_of_the_client(behind: Visitor, dashboard: Dashboard) -> None:
    addresses = dashboard.rows("SELECT address FROM dbops_auditentry WHERE action = 'login' ORDER BY sequence DESC")
    assert addresses[0]["address"] == behind.address


def test_stream_arrives_at_once_and_stays_below_the_prefix(behind: Visitor, dashboard: Dashboard) -> None:
    for name, data in behind.events(f"{PREFIX}/rebuilds/{dashboard.rebuild}/events/"):
        if name == "live":
            assert f'"{PREFIX}/rebuilds/{dashboard.rebuild}/' in data
            assert '"/rebuilds/' not in data
            return
    raise AssertionError("the stream has no part of the page")


def test_compose_sees_the_client_behind_a_proxy_on_its_machine(dashboard: Dashboard) -> None:
    """Docker gives what comes from its machine the address of the network's gateway."""
    target = f"proxy_pass http://127.0.0.1:{dashboard.port};"
    with visitor(dashboard, old=target, new=f"proxy_bind {GATEWAY};\n{target}") as found:
        assert found.log_in(LOGIN).status == HTTPStatus.FOUND
    [newest] = dashboard.rows("SELECT address FROM dbops_auditentry ORDER BY sequence DESC LIMIT 1")
    assert newest["address"] == found.address


def test_every_address_of_every_page_is_below_the_prefix(dashboard: Dashboard) -> None:
    with visitor(dashboard) as found:
        found.log_in(LOGIN)
        seen, asked = {f"{PREFIX}/"}, set[str]()
        while (left := sorted(seen - asked)) and len(asked) < PAGES:
            asked.add(left[0])
            answer = found.get(left[0])
            if answer.headers.get_content_type() != "text/html":
                continue
            if answer.status == HTTPStatus.FOUND:  # changes of second factors are confirmed first
                place = answer.headers["Location"]
                assert place.startswith(f"{PREFIX}/"), left[0]
                seen.add(place)
                continue
            # Some addresses are of forms.
            assert answer.status in (HTTPStatus.OK, HTTPStatus.METHOD_NOT_ALLOWED), left[0]
            outside = {path for path in answer.addresses if not path.startswith(f"{PREFIX}/")}
            assert outside == set(), left[0]
            seen |= {path.partition("#")[0] for path in answer.addresses if "/static/" not in path and "?" not in path}
    assert len(asked) > PAGES / 2


def test_proxy_may_remove_the_prefix(dashboard: Dashboard) -> None:
    target = f"proxy_pass http://127.0.0.1:{dashboard.port}"
    with visitor(dashboard, old=target, new=f"{target}/") as found:
        assert found.log_in(LOGIN).headers["Location"] == f"{PREFIX}/"
        page = found.get(f"{PREFIX}/rebuilds/")
        assert page.status == HTTPStatus.OK
        assert {path for path in page.addresses if not path.startswith(f"{PREFIX}/")} == set()


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("Host $http_host", "Host $host", "port"),
        ("X-Forwarded-Proto $scheme", "X-Unused $scheme", "scheme"),
        ("Host $http_host", "Host localhost", "other-host"),
    ],
)
def test_rejected_form_names_what_the_proxy_does_wrong(dashboard: Dashboard, old: str, new: str, cause: str) -> None:
    with visitor(dashboard, old=old, new=new) as found:
        answer = found.log_in(LOGIN)
        assert (answer.status, answer.cause) == (403, cause)


def test_rejected_form_names_a_hidden_origin(behind: Visitor) -> None:
    visitor = Visitor(behind.port, behind.certificate, behind.address)
    answer = visitor.log_in(LOGIN, Origin="null")
    assert (answer.status, answer.cause) == (403, "no-origin")


def test_rejected_form_names_http_where_cookies_need_https(dashboard: Dashboard) -> None:
    tunnel = Visitor(dashboard.port, None, "127.0.0.1", authority=f"localhost:{dashboard.port}")
    # A browser keeps no cookie that is for HTTPS alone.
    answer = tunnel.post(LOGIN, {})
    assert (answer.status, answer.cause) == (403, "insecure")


@pytest.mark.parametrize("path", ["/healthz/", f"{PREFIX}/healthz/"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_health_check_answers_on_loopback(dashboard: Dashboard, host: str, path: str) -> None:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{dashboard.port}{path}", headers={"Host": f"{host}:{dashboard.port}"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert answer.status == HTTPStatus.OK
    assert HOST in dashboard.environment["DBOPS_ALLOWED_HOSTS"]
