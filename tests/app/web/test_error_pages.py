"""The pages that say that there is no page: right words, nothing hostile runs, nothing secret shows, nothing typed is lost."""

import logging
import re
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path
from django.utils.html import escape

from dbops.engine.catalogue import CATALOGUE
from dbops.engine.errors import Refused
from dbops.web.decorators import viewer_page
from dbops.web.templatetags.dbops import ticks
from tests.app.factories import make_trio

HUNG = "it hangs"
HOSTILE = "<script>alert(1)</script>\x1b[31m"
SECRET = "hunter2-and-more"


@viewer_page
def breaks(request: HttpRequest) -> HttpResponse:
    raise RuntimeError(f"the password is {SECRET}")


@viewer_page
def loses_its_database(request: HttpRequest) -> HttpResponse:
    raise OperationalError(f"no connection as root:{SECRET}")


@viewer_page
def refuses(request: HttpRequest) -> HttpResponse:
    raise Refused(
        "schedule.gone",
        "Changing a schedule",
        cause=f"it was removed {HOSTILE}",
        state="All.",
        next_step="Load the page.",
    )


urlpatterns = [
    path("breaks/", breaks),
    path("away/", loses_its_database),
    path("refuses/", refuses),
    path("", include("dbops.urls")),
]
handler404 = "dbops.web.views.errors.not_found"
handler500 = "dbops.web.views.errors.server_error"


@pytest.fixture
def quiet(viewer: Client) -> Client:
    viewer.raise_request_exception = False
    return viewer


def templates(answer: Any) -> list[str]:
    return [template.name for template in answer.templates]


def shown(answer: Any) -> str:
    text = answer.content.decode()
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "Traceback" not in text
    assert SECRET not in text
    return " ".join(text.split())


@override_settings(ROOT_URLCONF=__name__)
def test_server_error_page_has_the_number_of_the_log(
    quiet: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = quiet.get("/breaks/")
    assert answer.status_code == 500
    assert answer.context["is_database"] is False
    number = re.search(r"error <code>([0-9a-f]{8})</code>", shown(answer))
    assert number
    (line,) = [record for record in caplog.records if record.name == "dbops.web.views.errors"]
    assert number[1] in line.getMessage()
    assert line.exc_info


@override_settings(ROOT_URLCONF=__name__)
def test_database_error_answers_503(quiet: Client) -> None:
    answer = quiet.get("/away/")
    assert answer.status_code == 503
    assert shown(answer)
    assert answer.context["is_database"] is True


def test_server_error_page_needs_no_table(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """No mark lets this test near a database: that the page comes at all is what is tested."""
    client.raise_request_exception = False
    client.cookies["sessionid"] = "x" * 32
    answer = client.get("/")
    assert answer.status_code in (500, 503)
    assert "500.html" in templates(answer)
    assert "<code>" in shown(answer)


@override_settings(ROOT_URLCONF=__name__)
def test_refusal_page_keeps_typed_text_without_secrets(viewer: Client) -> None:
    sent = {"reason": f"Disk full {HOSTILE}", "password": SECRET, "csrfmiddlewaretoken": SECRET, "request_key": SECRET}
    answer = viewer.post("/refuses/", sent)
    assert answer.status_code == 409
    text = shown(answer)
    assert answer.context["error"]["code"] == "schedule.gone"
    error, _, typed = text.partition("submitted-card")
    assert "&lt;script&gt;" in error
    assert "&lt;script&gt;" in typed
    assert "submitted-card" not in shown(viewer.get("/refuses/"))


def test_not_found_page_keeps_typed_text(operator: Client) -> None:
    make_trio()
    answer = operator.post("/rebuilds/999/cancel/", {"reason": HUNG})
    assert answer.status_code == 404
    text = shown(answer)
    assert "999" in answer.context["reason"]
    assert answer.context["reason"] in text
    assert "data-unchanged" in text
    assert HUNG in text.partition("submitted-card")[2]


def test_not_found_page_says_nothing_of_queries(viewer: Client) -> None:
    answer = viewer.get("/clusters/nowhere/")
    assert (answer.status_code, answer.context["reason"]) == (404, "")


@pytest.mark.parametrize(
    "address",
    [f"/{HOSTILE}/", "/clusters/<img src=x onerror=alert(1)>/", "/instances/%1b%5b31m/rebuild/", "/%00/", "/%ff/"],
)
def test_error_page_escapes_the_address(viewer: Client, address: str) -> None:
    answer = viewer.get(address)
    assert answer.status_code == 404
    text = shown(answer)
    assert "404.html" in templates(answer)
    assert "<img" not in text
    assert "URLconf" not in text


@pytest.mark.parametrize(
    "address",
    [
        *(
            "/clusters/%00/",
            "/instances/a%00/rebuild/",
            "/inventory/host/%00/key/",
            "/inventory/host/%00/sudo/",
            "/inventory/instance/%00/remove/",
        ),
        *("/inventory/sources/of/%00/", "/login/%00/", "/calendar/%00/"),
    ],
)
def test_name_with_a_nul_is_not_found(operator: Client, address: str) -> None:
    assert operator.get(address).status_code == 404


def test_csrf_failure_has_a_page(olga: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    answer = client.post("/inventory/import/", {"reason": f"Typed {HOSTILE}", "password": SECRET})
    assert answer.status_code == 403
    text = shown(answer)
    assert "403_csrf.html" in templates(answer)
    assert "&lt;script&gt;" in text.partition("submitted-card")[2]
    (line,) = [record for record in caplog.records if record.name == "dbops.web.views.errors"]
    assert "/inventory/import/" in line.getMessage()


def test_forbidden_page_gives_the_reason(stranger: Client) -> None:
    answer = stranger.get("/")
    assert "403.html" in templates(answer)
    assert str(answer.context["exception"])
    assert escape(answer.context["exception"]) in shown(answer)


def test_too_many_fields_answer_400(operator: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 10
    answer = operator.post("/inventory/import/", {f"field{number}": "x" for number in range(20)})
    assert answer.status_code == 400
    assert shown(answer)
    assert "400.html" in templates(answer)


def test_unknown_host_name_answers_400(viewer: Client) -> None:
    answer = viewer.get("/", HTTP_HOST="evil.example")
    assert answer.status_code == 400
    assert "DBOPS_ALLOWED_HOSTS" in shown(answer)


def test_error_codes_page_has_an_anchor_for_each_code(viewer: Client) -> None:
    answer = viewer.get("/errors/")
    assert answer.status_code == 200
    anchors = set(re.findall(r'<h3 class="h4" id="([^"]+)"', answer.content.decode()))
    assert anchors == set(CATALOGUE)
    assert "`" not in answer.content.decode().partition("<main")[2].partition("</main>")[0]


def test_error_codes_page_asks_for_a_login(client: Client, db: None) -> None:
    assert client.get("/errors/").status_code == 302


@override_settings(ROOT_URLCONF=__name__)
def test_error_links_to_its_code(viewer: Client) -> None:
    assert 'href="/errors/#schedule.gone"' in viewer.post("/refuses/").content.decode()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("run `a b`.", "run <code>a b</code>."),
        ("<b>`<i>`", "&lt;b&gt;<code>&lt;i&gt;</code>"),
        ("one ` tick", "one ` tick"),
    ],
)
def test_ticks_marks_code_and_escapes(text: str, html: str) -> None:
    assert ticks(text) == html
