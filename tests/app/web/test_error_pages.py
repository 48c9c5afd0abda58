"""The pages that say that there is no page: right words, nothing hostile runs, nothing secret shows, nothing typed is lost."""

import logging
import re
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path

from dbops.engine.errors import Refused
from dbops.web.decorators import viewer_page
from tests.app.factories import make_trio

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
        found=f"it was removed {HOSTILE}",
        left="All.",
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


def shown(answer: Any) -> str:
    text = answer.content.decode()
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "Traceback" not in text
    assert SECRET not in text
    return " ".join(text.split())


@override_settings(ROOT_URLCONF=__name__)
def test_a_fault_of_ours_names_what_the_log_names(
    quiet: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = quiet.get("/breaks/")
    assert answer.status_code == 500
    number = re.search(r"error <code>([0-9a-f]{8})</code>", shown(answer))
    assert number
    (line,) = [record for record in caplog.records if record.name == "dbops.web.views.errors"]
    assert number[1] in line.getMessage()
    assert line.exc_info


@override_settings(ROOT_URLCONF=__name__)
def test_a_database_that_is_away_is_said_to_be(quiet: Client) -> None:
    answer = quiet.get("/away/")
    assert answer.status_code == 503
    assert "own database does not answer" in shown(answer)


def test_a_fault_is_shown_without_any_table(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """No mark lets this test near a database: that the page comes at all is what is tested."""
    client.raise_request_exception = False
    client.cookies["sessionid"] = "x" * 32
    answer = client.get("/")
    assert answer.status_code in (500, 503)
    assert "A rebuild that runs is not touched" in shown(answer)


@override_settings(ROOT_URLCONF=__name__)
def test_a_refusal_that_no_view_caught_keeps_what_was_typed(viewer: Client) -> None:
    sent = {"reason": f"Disk full {HOSTILE}", "password": SECRET, "csrfmiddlewaretoken": SECRET, "request_key": SECRET}
    answer = viewer.post("/refuses/", sent)
    assert answer.status_code == 409
    text = shown(answer)
    assert "schedule.gone" in text
    assert "it was removed &lt;script&gt;" in text
    assert "Disk full &lt;script&gt;" in text
    assert "What you typed" not in shown(viewer.get("/refuses/"))


def test_what_is_gone_says_why_and_keeps_what_was_typed(operator: Client) -> None:
    make_trio()
    answer = operator.post("/rebuilds/999/cancel/", {"reason": "it hangs"})
    assert answer.status_code == 404
    text = shown(answer)
    assert "There is no rebuild 999." in text
    assert "What you sent was refused: nothing was changed." in text
    assert "it hangs" in text


@pytest.mark.parametrize(
    "address",
    [f"/{HOSTILE}/", "/clusters/<img src=x onerror=alert(1)>/", "/instances/%1b%5b31m/rebuild/", "/%00/", "/%ff/"],
)
def test_a_hostile_address_is_text(viewer: Client, address: str) -> None:
    answer = viewer.get(address)
    assert answer.status_code == 404
    text = shown(answer)
    assert "There is nothing at this address" in text
    assert "<img" not in text
    assert "URLconf" not in text


def test_a_form_without_its_token_is_refused_in_our_words(olga: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(olga)
    answer = client.post("/inventory/import/", {"reason": f"Typed {HOSTILE}", "password": SECRET})
    assert answer.status_code == 403
    text = shown(answer)
    assert "This form was not accepted" in text
    assert "Typed &lt;script&gt;" in text
    assert "refused a form sent to '/inventory/import/'" in caplog.text


def test_who_may_not_is_told_why(stranger: Client) -> None:
    assert "neither of the groups" in shown(stranger.get("/"))


def test_too_many_fields_are_not_understood(operator: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 10
    answer = operator.post("/inventory/import/", {f"field{number}": "x" for number in range(20)})
    assert answer.status_code == 400
    assert "did not understand" in shown(answer)


def test_a_host_name_that_is_not_ours_is_not_understood(viewer: Client) -> None:
    answer = viewer.get("/", HTTP_HOST="evil.example")
    assert answer.status_code == 400
    assert "DBOPS_ALLOWED_HOSTS" in shown(answer)
