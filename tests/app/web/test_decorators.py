"""Who may open what."""

import pytest
from django.test import Client

from dbops.engine.states import Status
from dbops.models import Rebuild
from tests.app.factories import make_rebuild, make_trio

PAGES = [
    "/",
    "/clusters/shop/",
    "/clusters/shop/topology/",
    "/instances/replica-1/rebuild/",
    "/instances/replica-1/lineage/",
    "/instances/replica-1/waits/",
    "/rebuilds/",
    "/rebuilds/{rebuild}/",
    "/rebuilds/{rebuild}/poll/",
    "/rebuilds/{rebuild}/actions/",
    "/rebuilds/{rebuild}/commands/",
    "/rebuilds/{rebuild}/log/",
    "/rebuilds/{rebuild}/log/lines/",
    "/rebuilds/{rebuild}/log/matches/",
    "/rebuilds/{rebuild}/log/text/",
    "/rebuilds/{rebuild}/events/",
    "/audit/",
    "/availability/",
    "/backups/history/",
    "/calendar/",
]


@pytest.fixture
def rebuild(db: None) -> Rebuild:
    _, backup, replica = make_trio()
    return make_rebuild(target=replica, source=backup, status=Status.FAILED)


@pytest.mark.parametrize("page", PAGES)
def test_pages_redirect_to_login(client: Client, rebuild: Rebuild, page: str) -> None:
    address = page.format(rebuild=rebuild.pk)
    answer = client.get(address)
    assert answer.status_code == 302
    assert answer["Location"] == f"/login/?next={address}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_need_permission(stranger: Client, rebuild: Rebuild, page: str) -> None:
    assert stranger.get(page.format(rebuild=rebuild.pk)).status_code == 403


@pytest.mark.parametrize("page", [page for page in PAGES if "events" not in page])
def test_pages_are_open_to_viewers(viewer: Client, rebuild: Rebuild, page: str) -> None:
    assert viewer.get(page.format(rebuild=rebuild.pk)).status_code == 200


@pytest.mark.parametrize("page", [page for page in PAGES if page != "/instances/replica-1/rebuild/"])
def test_read_only_pages_accept_get_only(operator: Client, rebuild: Rebuild, page: str) -> None:
    assert operator.post(page.format(rebuild=rebuild.pk)).status_code == 405


def test_pages_forbid_inline_script_and_style(operator: Client, rebuild: Rebuild) -> None:
    for page in PAGES:
        if "events" in page:
            continue
        answer = operator.get(page.format(rebuild=rebuild.pk))
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        if "/log/text/" not in page:
            text = answer.content.decode()
            assert " style=" not in text
            assert "<style" not in text
            assert "hx-on" not in text
            assert "<script>" not in text


@pytest.mark.parametrize(
    ("page", "following"),
    [
        ("http://testserver/clusters/shop/?a=1&b=2", "%2Fclusters%2Fshop%2F%3Fa%3D1%26b%3D2"),
        ("https://evil.example//evil.example/", "%2F"),
        ("https://evil.example", "%2F"),
        ("javascript:alert(1)", "%2F"),
        ("", "%2F"),
    ],
)
def test_expired_session_in_a_fragment_leads_to_login_and_back(
    client: Client, db: None, page: str, following: str
) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": page}
    answer = client.get("/clusters/x/", headers=headers, follow=True)
    assert answer["HX-Redirect"] == f"/login/?next={following}"
    assert answer.content == b""


def test_expired_session_of_a_live_page_shows_the_bar_of_other_pages(client: Client, rebuild: Rebuild) -> None:
    page = f"/rebuilds/{rebuild.pk}/"
    headers = {"HX-Request": "true", "HX-Target": "live", "HX-Current-URL": f"http://testserver{page}"}
    answer = client.get(f"{page}poll/?revision=1", headers=headers, follow=True)
    assert answer.status_code == 200
    assert answer.context["is_logged_out"] is True
    assert (answer["HX-Retarget"], answer["HX-Reswap"]) == ("#bars", "innerHTML")
    assert "HX-Redirect" not in answer


def test_login_and_logout_work(client: Client, rebuild: Rebuild) -> None:
    wrong = client.post("/login/", {"username": "olga", "password": "wrong"})
    assert [error.code for error in wrong.context["form"].non_field_errors().as_data()] == ["invalid_login"]
    right = client.post(
        "/login/?next=/audit/", {"username": "olga", "password": "correct horse battery", "next": "/audit/"}
    )
    assert right["Location"] == "/audit/"
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"


def test_login_never_redirects_to_another_site(client: Client, rebuild: Rebuild) -> None:
    answer = client.post(
        "/login/", {"username": "olga", "password": "correct horse battery", "next": "https://evil.example/"}
    )
    assert answer["Location"] == "/"


def test_health_check_needs_no_login(client: Client, db: None) -> None:
    answer = client.get("/healthz/")
    assert answer.status_code == 200
    assert answer.content == b"ok\n"
    assert "no-cache" in answer["Cache-Control"]


def test_unknown_address_answers_404_with_a_page(operator: Client) -> None:
    for address in (
        "/rebuilds/999/",
        "/rebuilds/999/poll/",
        "/clusters/none/",
        "/instances/none/rebuild/",
        "/nothing/",
    ):
        answer = operator.get(address)
        assert answer.status_code == 404, address
        assert "404.html" in [template.name for template in answer.templates]
