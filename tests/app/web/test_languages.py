"""The language of pages: who chooses it, which texts follow it, and what stays English."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from dbops.engine.backups.flags import RunFlag
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.states import Approval, Level, Role, RunStatus, Severity, Status, StepState
from dbops.models import ChosenLanguage
from dbops.operations.maintenance import mark_maintenance
from dbops.security.permissions import OPERATOR
from dbops.web import figures
from dbops.web.dates import date_text
from dbops.web.forms.accounts import UserForm
from dbops.web.live.status_bars import _guard_limits
from dbops.web.login.adapters import FactorAdapter
from dbops.web.state_words import WORDS
from dbops.web.templatetags import dbops as tags
from dbops.web.templatetags.moments import moment
from dbops.web.templatetags.phrases import translated
from dbops.web.templatetags.script_words import script_words
from tests.app.api.calls import Program, program_of
from tests.app.catalogues import catalogue
from tests.app.factories import make_trio, make_watched_trio

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
COOKIE = "dbops_language"
SCRIPTS = Path(__file__).resolve().parents[3] / "static" / "dbops"
TUESDAY = datetime(2026, 11, 24, 3, 10, tzinfo=UTC)
TEXTS = {
    "Username": "ユーザー名",
    "running": "実行中",
    "Default view reset.": "既定の表示に戻しました。",
    "There is no rebuild %(number)s.": "リビルド %(number)s はありません。",
    "{minutes} min": "{minutes}分",
    "{number} min ago": "{number}分前",
    "format of a time|D j M H:i": "n月j日(D) H:i",
}


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    translation.deactivate()


@pytest.fixture
def japanese(tmp_path: Path, settings: Any) -> Iterator[None]:
    yield from catalogue(tmp_path, settings, TEXTS)


def choose(client: Client, language: str, page: str = "/login/") -> Any:
    return client.post("/language/", {"language": language, "next": page})


def test_choice_without_login_is_for_this_browser(client: Client, olga: User) -> None:
    answer = choose(client, "ja")
    assert (answer.status_code, answer["Location"]) == (302, "/login/")
    cookie = answer.cookies[COOKIE]
    assert (cookie.value, cookie["samesite"], cookie["httponly"]) == ("ja", "Lax", True)
    page = client.get("/login/")
    assert page["Content-Language"] == "ja"
    assert '<html lang="ja"' in page.content.decode()
    assert not ChosenLanguage.objects.exists()
    assert Client().get("/login/")["Content-Language"] == "en"


def test_choice_with_login_is_for_the_account(operator: Client, olga: User) -> None:
    assert choose(operator, "ja", "/audit/")["Location"] == "/audit/"
    assert ChosenLanguage.objects.get().code == "ja"
    elsewhere = Client()
    answer = elsewhere.post("/login/", {"username": olga.get_username(), "password": PASSWORD})
    assert answer.cookies[COOKIE].value == "ja"
    assert elsewhere.get("/audit/")["Content-Language"] == "ja"
    choose(operator, "en")
    assert ChosenLanguage.objects.get().code == "en"


def test_login_of_an_account_without_a_choice_leaves_the_browser_its_own(client: Client, olga: User) -> None:
    choose(client, "ja")
    answer = client.post("/login/", {"username": olga.get_username(), "password": PASSWORD})
    assert COOKIE not in answer.cookies
    assert client.get("/audit/")["Content-Language"] == "ja"


@pytest.mark.parametrize("language", ["", "de", "xx", "ja\r\nX-Evil: 1"])
def test_language_that_is_not_offered_is_refused(operator: Client, language: str) -> None:
    answer = choose(operator, language)
    assert answer.status_code == 400
    assert COOKIE not in answer.cookies
    assert not ChosenLanguage.objects.exists()


@pytest.mark.parametrize(
    "page", ["", "https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)", "/\\x"]
)
def test_choice_leads_only_to_pages_of_this_dashboard(operator: Client, page: str) -> None:
    assert choose(operator, "ja", page)["Location"] == "/"


def test_choice_needs_a_form(operator: Client) -> None:
    assert operator.get("/language/").status_code == 405
    assert Client(enforce_csrf_checks=True).post("/language/", {"language": "ja"}).status_code == 403


def test_browser_language_counts_until_one_is_chosen(client: Client, db: None) -> None:
    wanted = {"Accept-Language": "de, ja;q=0.8, en;q=0.5"}
    page = client.get("/login/", headers=wanted)
    assert page["Content-Language"] == "ja"
    assert {"Accept-Language", "Cookie"} <= {part.strip() for part in page["Vary"].split(",")}
    choose(client, "en")
    assert client.get("/login/", headers=wanted)["Content-Language"] == "en"


def test_page_takes_as_many_queries_in_each_language(operator: Client) -> None:
    make_trio()
    operator.get("/")
    taken = []
    for language in ("en", "ja"):
        operator.cookies[COOKIE] = language
        with CaptureQueriesContext(connection) as queries:
            assert operator.get("/")["Content-Language"] == language
        taken.append(len(queries))
    assert taken[0] == taken[1]


def test_api_metrics_and_health_are_english(olga: User, japanese: None) -> None:
    make_trio()
    program = program_of(olga)
    in_japanese = Program(program.secret)
    for address in ("/clusters", "/rebuilds/7", "/clusters/nope", "/instances?limit=x"):
        english = program.get(address)
        with translation.override("ja"):
            headers = {**in_japanese.headers, "Accept-Language": "ja"}
            other = Client().get(f"/api/v1{address}", headers=headers)
        assert (other.status_code, other.content) == (english.status_code, english.content)
    for page in ("/metrics", "/healthz/"):
        plain, asked = Client().get(page), Client().get(page, headers={"Accept-Language": "ja"})
        assert (asked.status_code, asked.content) == (plain.status_code, plain.content)


def test_exported_files_are_english(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    monkeypatch.setattr("dbops.web.views.availability.clock.now", lambda: now)  # the forecast begins now
    ago = [now - timedelta(hours=hours) for hours in (960, 30, 28)]
    make_watched_trio(since=ago[0], away=ago[1], back=ago[2], now=now)
    address = "/availability/shop/?of=forecast&format=csv"
    english = operator.get(address)
    operator.cookies[COOKIE] = "ja"
    japanese = operator.get(address)
    assert "Monday" in english.content.decode()
    assert japanese.content == english.content
    assert "月曜日" in operator.get("/availability/shop/").content.decode()


def test_messages_and_refusals_follow_the_language(operator: Client, japanese: None) -> None:
    operator.cookies[COOKIE] = "ja"
    answer = operator.post("/default-view/", {})
    assert [str(one) for one in get_messages(answer.wsgi_request)] == [TEXTS["Default view reset."]]
    missing = operator.get("/rebuilds/7/evidence/")
    assert missing.context["reason"] == "リビルド 7 はありません。"


def test_forms_follow_the_language(japanese: None) -> None:
    form = UserForm({"name": "", "group": OPERATOR})
    with translation.override("ja"):
        assert form["name"].label == TEXTS["Username"]
        assert form.errors["name"] == ["このフィールドは必須です。"]
    assert form["name"].label == "Username"


def test_states_keep_their_class_and_translate_their_word(japanese: None) -> None:
    with translation.override("ja"):
        shown = tags.state(Status.RUNNING)
    assert "state-running" in shown
    assert f"<span>{TEXTS['running']}</span>" in shown


@pytest.mark.parametrize("words", [Status, RunStatus, StepState, Severity, Level, Approval, Role, tags.ICONS, RunFlag])
def test_every_state_is_marked_for_translation(words: Any) -> None:
    assert {str(word).replace("_", " ") for word in words} <= set(WORDS)


def test_numbers_have_the_signs_of_the_language() -> None:
    shown = {}
    for language in ("en", "ja", "de"):
        with translation.override(language):
            shown[language] = [
                tags.count(1234567),
                tags.bytes_text(1.5 * 1024**4),
                tags.rate(1.5 * 1024**2),
                tags.duration(4.2).partition(" ")[0],
            ]
    assert shown["en"] == shown["ja"] == ["1,234,567", "1.50 TiB", "1.5 MiB/s", "4.2"]
    assert shown["de"] == ["1.234.567", "1,50 TiB", "1,5 MiB/s", "4,2"]


def test_times_have_the_names_and_the_order_of_the_language(japanese: None) -> None:
    assert date_text(TUESDAY, "day_hour") == "Tue 24 Nov 03:10"
    assert date_text(TUESDAY, "padded_day_hour") == f"{TUESDAY:%a %d %b %H:%M}"
    with translation.override("ja"):
        assert date_text(TUESDAY, "day_hour") == "11月24日(火) 03:10"
        assert ">11月24日(火) 03:10<" in moment(TUESDAY)
        assert ">2026-11-24 03:10<" in tags.when(TUESDAY, "minute")


@pytest.mark.parametrize("month", range(1, 13))
def test_english_days_are_those_of_strftime(month: int) -> None:
    day = datetime(2026, month, 4, 5, 6, tzinfo=UTC)
    assert date_text(day, "day_hour") == f"{day:%a} {day.day} {day:%b %H:%M}"
    assert date_text(day, "whole_day") == f"{day:%A %d %B}"
    assert date_text(day, "month") == f"{day:%b %Y}"


def test_text_made_before_its_language_is_known_follows_it(japanese: None) -> None:
    limits = _guard_limits()
    assert "15 min" in limits
    with translation.override("ja"):
        assert "15分" in translated(limits)
        assert translated(phrase("{number} min ago", number=3)) == figures.seconds_ago(200)


def test_page_gives_its_scripts_every_word(operator: Client, japanese: None) -> None:
    operator.cookies[COOKIE] = "ja"
    text = operator.get("/").content.decode()
    [island] = re.findall(r'<script id="words" type="application/json">(.*?)</script>', text)
    words = json.loads(island)
    assert words["language"] == "ja"
    assert words["ages"]["minutes"] == TEXTS["{number} min ago"]
    asked = {name for path in SCRIPTS.glob("*.js") for name in re.findall(r"\bwords\.([a-z_]+)", path.read_text())}
    assert asked == set(words) == set(script_words())


def test_value_of_a_setting_is_shown_as_it_is(admin_client: Client, settings: Any) -> None:
    settings.RECOVERY_ACCOUNT = "admin"
    admin_client.cookies[COOKIE] = "ja"
    answer = admin_client.get("/admin/settings/")
    assert answer["Content-Language"] == "ja"
    row = re.search(r"DBOPS_RECOVERY_ACCOUNT</code>.*?</tr>", answer.content.decode(), re.DOTALL)
    assert row
    assert re.search(r">\s*admin\s*<", row[0])


def test_name_of_a_passkey_is_stored_in_english(olga: User) -> None:
    with translation.override("ja"):
        assert FactorAdapter().generate_authenticator_name(olga, Authenticator.Type.WEBAUTHN) == "Passkey 1"


def test_each_of_several_causes_is_translated(olga: User) -> None:
    cluster = make_trio()[0].cluster
    now = timezone.now()
    with pytest.raises(Refused) as caught:
        mark_maintenance(actor=olga, cluster=cluster, starts_at=now, ends_at=now, reason="")
    with translation.override("ja"):
        assert not re.search("[a-z]{4}", translated(caught.value.cause))


def returns_to(answer: Any) -> str:
    """Return the address to which the language switch of a page leads."""
    found = re.search(r'name="next" value="([^"]*)"', answer.content.decode())
    assert found is not None
    return found[1]


def test_switch_on_a_refused_form_leads_to_a_page_that_exists(victor: User) -> None:
    client = Client()
    client.force_login(victor)
    page = {"Referer": "http://testserver/schedules/?cluster=shop"}
    for address in ("/schedules/nightly/run/", "/tokens/1/revoke/"):  # they take POST alone
        refused = client.post(address, headers=page)
        assert (refused.status_code, returns_to(refused)) == (403, "/schedules/?cluster=shop")
        for sender in ("", "https://elsewhere.example/schedules/", "http://testserver//elsewhere.example/", "http://["):
            refused = client.post(address, headers={"Referer": sender} if sender else None)
            assert (refused.status_code, returns_to(refused)) == (403, "/")
    assert returns_to(client.get("/schedules/?cluster=shop")) == "/schedules/?cluster=shop"
    follow = client.post("/language/", {"language": "ja", "next": returns_to(refused)}, follow=True)
    assert follow.status_code == 200


def test_login_after_a_form_without_a_session_leads_to_the_page_of_the_form(db: None) -> None:
    to = Client().post("/schedules/nightly/run/", headers={"Referer": "http://testserver/schedules/"})["Location"]
    assert to == "/login/?next=/schedules/"
    assert Client().post("/schedules/nightly/run/")["Location"] == "/login/?next=/"
    assert Client().get("/rebuilds/?page=2")["Location"] == "/login/?next=/rebuilds/%3Fpage%3D2"
