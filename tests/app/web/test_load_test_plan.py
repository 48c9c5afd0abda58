"""The plan of a load test: choices in the URL, long texts in the form, and a confirmation of exactly what was shown."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dbops.engine.load_tests.request import Raised
from dbops.engine.load_tests.workload import Profile
from dbops.models import AuditEntry, Host, Instance, LoadTest
from dbops.web.forms.load_test_choices import PRESETS, preset
from dbops.web.forms.load_test_texts import read_statements
from tests.app.factories import set_facts
from tests.app.load_test_rows import TOOLS, make_place, make_source

from .marks import marks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
PAGE = "/clusters/shop/load-tests/new/"
#: Choices that fit the place.
CHOICES = {"host": "tester-1", "steps": "1, 2", "repeats": "2", "seconds": "5"}
DDL = "CREATE TABLE events (id bigint PRIMARY KEY, body varchar(100))"


@pytest.fixture
def source() -> Instance:
    return make_source()


@pytest.fixture
def place(source: Instance) -> Host:
    return make_place()


def confirm(client: Client, plan_page: Any, /, **changes: str) -> Any:
    """Send the form of a shown plan, as a browser does."""
    context = plan_page.context
    given = {
        "typed_name": context["plan"].host,
        "reason": "before the move",
        "fingerprint": context["plan"].fingerprint,
        "request_key": context["request_key"],
        "shown": context["shown"],
        "kept": context["kept"],
    }
    return client.post(context["url"], given | changes)


def test_plan_of_the_choices_in_the_url_writes_nothing(viewer: Client, place: Host) -> None:
    answer = viewer.get(PAGE, CHOICES)
    page = answer.content.decode()
    plan = answer.context["plan"]
    assert answer.status_code == 200
    assert (plan.host, plan.source, len(plan.rounds), plan.refusals) == ("tester-1", "backup-1", 4, ())
    assert marks(page, "planned") == ["1", "2"]
    assert marks(page, "blocking") == ["access"], "a viewer looks"
    assert "sysbench" in answer.context["commands"][1].text
    assert any("--skip-networking" in one.text for one in answer.context["commands"])
    assert not LoadTest.objects.exists()
    assert not AuditEntry.objects.exists()
    assert " style=" not in page


def test_defaults_are_the_backup_instance_and_its_host(viewer: Client, source: Instance) -> None:
    answer = viewer.get(PAGE)
    plan = answer.context["plan"]
    assert (plan.source, plan.host, plan.run) == ("backup-1", source.host.name, 0)
    assert "load_test.tool" in marks(answer.content.decode(), "finding")


def test_choices_lead_to_an_address_with_what_differs(viewer: Client, place: Host) -> None:
    answer = viewer.post(PAGE, {**CHOICES, "threads": "8", "options": "max_connections=300\r\n"})
    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query == {name: [value] for name, value in CHOICES.items()} | {
        "source": ["backup-1"],
        "options": ["max_connections=300\n"],
    }
    assert viewer.get(answer["Location"]).context["url"] == answer["Location"].partition("#")[0]


def test_generator_can_run_on_another_host(operator: Client, source: Instance) -> None:
    make_place(tools=(*TOOLS, "python3"))
    make_place("loader-1", tools=("sysbench", "python3"))
    page = operator.get(PAGE, CHOICES | {"generator_host": "loader-1"})
    assert marks(page.content.decode(), "generator-host") == ["loader-1"]
    assert "load_test.tunnel" in marks(page.content.decode(), "finding")
    assert any("loader-1" in one.text for one in page.context["commands"])
    answer = confirm(operator, page)
    [load_test] = LoadTest.objects.all()
    assert (answer.status_code, load_test.host.name) == (302, "tester-1")
    assert load_test.generator_host is not None
    assert load_test.generator_host.name == "loader-1"
    report = operator.get(f"/load-tests/{load_test.pk}.json")
    assert report.json()["GeneratorHost"] == "loader-1"
    assert AuditEntry.objects.get(action="load_test.requested").detail["generator_host"] == "loader-1"


def test_chosen_host_as_its_generators_host_is_the_same_host(operator: Client, place: Host) -> None:
    page = operator.get(PAGE, CHOICES | {"generator_host": "tester-1"})
    assert not page.context["plan"].is_tunnelled
    confirm(operator, page)
    assert LoadTest.objects.get().generator_host is None


def test_operator_confirms_the_shown_plan(operator: Client, place: Host) -> None:
    answer = confirm(operator, operator.get(PAGE, CHOICES))
    [load_test] = LoadTest.objects.all()
    assert (answer.status_code, answer["Location"]) == (302, f"/load-tests/{load_test.pk}/")
    assert (load_test.host, load_test.requested_by, load_test.request["steps"]) == (place, "olga", [1, 2])
    assert AuditEntry.objects.filter(action="load_test.requested", subject="tester-1").count() == 1


def test_second_click_makes_no_second_load_test(operator: Client, place: Host) -> None:
    shown = operator.get(PAGE, CHOICES)
    assert [confirm(operator, shown).status_code for _ in range(2)] == [302, 302]
    assert LoadTest.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"typed_name": "tester-2"}, "load_test.name", "typed_name"),
        ({"reason": "  "}, "load_test.reason", "reason"),
        ({"fingerprint": "0" * 64}, "load_test.stale", ""),
    ],
)
def test_refused_confirmation_keeps_what_was_typed(
    operator: Client, place: Host, changes: dict[str, str], code: str, field: str
) -> None:
    answer = confirm(operator, operator.get(PAGE, CHOICES), **changes)
    assert (answer.status_code, answer.context["refused"].code, answer.context["bad_field"]) == (409, code, field)
    assert answer.context["form"].data["steps"] == "1, 2"
    assert not LoadTest.objects.exists()


def test_stale_plan_names_what_changed(operator: Client, place: Host) -> None:
    shown = operator.get(PAGE, CHOICES)
    there = Instance.objects.get(name="on-tester-1")
    facts = there.state.facts()
    assert facts
    assert facts.host
    set_facts(there, replace(facts, host=replace(facts.host, cpu_count=2)))
    answer = confirm(operator, shown)
    page = answer.content.decode()
    assert (answer.status_code, answer.context["refused"].code) == (409, "load_test.stale")
    assert {"Cores", "Findings"} <= set(marks(page, "change"))
    assert answer.context["typed"]["typed_name"] == ""
    assert confirm(operator, answer).status_code == 302


def test_forged_plan_shows_no_changes(operator: Client, place: Host) -> None:
    shown = operator.get(PAGE, CHOICES)
    answer = confirm(operator, shown, fingerprint="0" * 64, shown=shown.context["shown"][:-3] + "abc")
    assert (answer.status_code, answer.context["changes"]) == (409, [])


def test_viewer_and_stranger_cannot_confirm(viewer: Client, stranger: Client, place: Host) -> None:
    answer = confirm(viewer, viewer.get(PAGE, CHOICES))
    assert (answer.status_code, answer.context["refused"].code) == (409, "access.denied")
    assert stranger.get(PAGE).status_code == 403
    assert stranger.post(PAGE, CHOICES).status_code == 403
    assert viewer.get("/clusters/nothing/load-tests/new/").status_code == 404
    assert not LoadTest.objects.exists()


def test_host_without_a_generator_is_refused(operator: Client, source: Instance) -> None:
    make_place(tools=("mariadbd", "mariadb"))
    shown = operator.get(PAGE, CHOICES)
    assert "load_test.tool" in marks(shown.content.decode(), "blocking")
    answer = confirm(operator, shown)
    assert (answer.status_code, answer.context["refused"].code) == (409, "load_test.refused")


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": "1, two"},
        {"host": "nowhere"},
        {"source": "on-tester-1"},
        {"backup": "99"},
        {"seconds": "0"},
        {"options": "--skip-networking"},
        {"key_ranges": "id 1", "profile": "insert"},
    ],
)
def test_bad_choices_give_no_plan(viewer: Client, place: Host, bad: dict[str, str]) -> None:
    answer = viewer.get(PAGE, {**CHOICES, **bad})
    assert (answer.status_code, answer.context["plan"]) == (422, None)
    assert set(answer.context["form"].errors) == {next(iter(bad))}
    assert viewer.post(PAGE, {**CHOICES, **bad}).status_code == 422


def test_impossible_request_says_why(viewer: Client, place: Host) -> None:
    for choices, code in (
        ({"raised": "schemas"}, "load_test.request"),
        ({"options": "datadir=x"}, "load_test.request"),
        ({"profile": "insert"}, "load_test.request"),
        ({"most_minutes": "1", "seconds": "600"}, "load_test.limits"),
    ):
        answer = viewer.get(PAGE, {**CHOICES, **choices})
        assert (answer.status_code, answer.context["no_plan"].code) == (200, code), choices


def test_ready_made_ab_tests_restart_with_both_options(viewer: Client, place: Host) -> None:
    for name, _ in PRESETS[1:]:
        answer = viewer.get(PAGE, {**CHOICES, "raised": "nothing", "preset": name, "most_pairs": "4"})
        options = {(one.arm, one.options) for one in answer.context["plan"].rounds}
        a, b = preset(name, "mariadb")
        assert options == {("a", a), ("b", b), ("a1", a), ("a2", a)}, name
    assert preset("redo", "mysql") != preset("redo", "mariadb")


def test_own_options_of_an_ab_test(operator: Client, place: Host) -> None:
    choices = {"raised": "nothing", "options_a": "--innodb-io-capacity=200", "options_b": "innodb_io_capacity = 2000"}
    confirm(operator, operator.get(PAGE, {**CHOICES, **choices}))
    request = LoadTest.objects.get().request
    assert request["options_b"] == [["innodb_io_capacity", "2000"]]
    assert (request["options_a"], request["raised"]) == ([["innodb_io_capacity", "200"]], Raised.NOTHING)


def test_table_for_inserts_travels_with_the_form(operator: Client, place: Host) -> None:
    choices = {**CHOICES, "profile": "insert", "raised": "rate", "key_ranges": "id 1 1000000"}
    shown = operator.post(PAGE, {**choices, "table_ddl": DDL})
    assert (shown.status_code, shown.context["plan"].refusals) == (200, ())
    assert "table_ddl" not in shown.context["url"]
    assert confirm(operator, shown).status_code == 302
    workload = LoadTest.objects.get().request["workload"]
    assert (workload["table_ddl"], workload["key_ranges"]) == (DDL, [["id", 1, 1000000]])


def test_other_choices_keep_the_texts(viewer: Client, place: Host) -> None:
    choices = {**CHOICES, "profile": "insert", "raised": "rate"}
    shown = viewer.post(PAGE, {**choices, "table_ddl": DDL})
    again = viewer.post(PAGE, {**choices, "steps": "10, 20, 30", "kept": shown.context["kept"]})
    assert len(again.context["planned_steps"]) == 3
    assert again.context["kept"]
    forged = viewer.post(PAGE, {**choices, "kept": shown.context["kept"][:-2] + "xx"})
    assert forged.status_code == 302, "without its texts"


def test_statements_are_read_from_a_file(viewer: Client, place: Host) -> None:
    file = SimpleUploadedFile("digests.jsonl", b'{"statement": "SELECT 1", "count": 3}\n"SELECT 2"\n')
    choices = {**CHOICES, "profile": "rotating-schemas", "raised": "schemas", "schema": "shop_0001"}
    answer = viewer.post(PAGE, {**choices, "statements_file": file})
    assert marks(answer.content.decode(), "kept") == ["4"]
    assert "load_test.backup" in marks(answer.content.decode(), "finding"), "an empty server has no schema to copy"


@pytest.mark.parametrize(
    "text", ["DROP TABLE orders", "SELECT 1 INTO OUTFILE '/tmp/x'", "{broken", '{"count": 1}', "[1]"]
)
def test_bad_statements_are_errors_of_their_field(viewer: Client, place: Host, text: str) -> None:
    choices = {**CHOICES, "profile": "rotating-schemas", "raised": "schemas", "schema": "shop_0001"}
    answer = viewer.post(PAGE, {**choices, "statements": text})
    assert (answer.status_code, set(answer.context["form"].errors)) == (422, {"statements"})
    file = SimpleUploadedFile("x", b"\xff\xfe")
    assert "statements_file" in viewer.post(PAGE, {**choices, "statements_file": file}).context["form"].errors


def test_counts_set_the_proportions() -> None:
    assert read_statements("SELECT 1\n\n  SELECT 2 \n") == ("SELECT 1", "SELECT 2")
    lines = [
        json.dumps({"statement": f"SELECT {number}", "count": count})
        for number, count in ((1, 900_000), (2, 100_000), (3, 1))
    ]
    found = read_statements("\n".join(lines))
    assert [found.count(f"SELECT {number}") for number in (1, 2, 3)] == [9000, 1000, 1]


def test_statements_have_bounds() -> None:
    for text in (
        "SELECT 1\n" * 20_001,
        '{"statement": "SELECT 1", "count": 0}',
        '{"a":' * 100_000,
        json.dumps({"statement": "SELECT " + "1" * 60_000, "count": 9_000}),
    ):
        with pytest.raises(ValidationError):
            read_statements(text)


def test_every_profile_can_be_chosen(viewer: Client, place: Host) -> None:
    for profile in (Profile.READ_ONLY, Profile.WRITE_ONLY, Profile.READ_WRITE, Profile.POINT_SELECT):
        assert viewer.get(PAGE, {**CHOICES, "profile": profile.value}).context["plan"] is not None, profile


def test_form_survives_hostile_input(viewer: Client, place: Host) -> None:
    hostile = "<script>alert(1)</script>"
    for name in ("host", "steps", "schema", "options", "profile", "preset"):
        page = viewer.get(PAGE, {**CHOICES, name: hostile + "\0"}).content.decode()
        assert "<script>alert" not in page, name
