"""A plan that has changed between the page and the click: nothing is started, and the page says what differs."""

import html
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dbops.models import Instance, Rebuild
from dbops.web.plan_snapshot import unpacked
from tests.app.factories import (
    GIB,
    make_channel,
    make_datadir_facts,
    make_facts,
    make_host_facts,
    make_run,
    make_trio,
    set_facts,
)

from .test_plan import ADDRESS, HIDDEN, typed

pytestmark = pytest.mark.django_db


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


def shown_bytes(given: dict[str, Any]) -> int | None:
    """Return how much the plan that a form carries would copy."""
    seen = unpacked(given["shown"], given["fingerprint"])
    assert seen
    return seen.plan.bytes_to_copy


def test_page_shows_the_differences_and_a_form_for_the_new_plan(operator: Client, trio: Any) -> None:
    given = typed(operator, reason="disk <i>7</i>")
    changed = make_facts(server_id=3, version="10.11.20", replication=(make_channel(),))
    set_facts(trio[2], replace(changed, datadir=make_datadir_facts(identity="64769:99", data_bytes=GIB)))
    set_facts(
        trio[1],
        replace(
            make_facts(server_id=2, replication=(make_channel(),)),
            datadir=make_datadir_facts(data_bytes=1000 * GIB),
        ),
    )
    answer = operator.post(ADDRESS, given)
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "<code>plan.stale</code>" in text
    table = text.split('id="changes"')[1].split("</section>")[0]
    found = {(change.then, change.now): change.counts for change in answer.context["changes"]}
    assert found["64769:1835010", "64769:99"]
    assert found["10.11.19", "10.11.20"]
    assert found[shown_bytes(given), 1000 * GIB] is False
    for shown in ("64769:1835010", "64769:99", "10.11.19", "10.11.20", "1.45 TiB", "1000 GiB"):
        assert shown in table
    assert table.count('class="expected-change"') == list(found.values()).count(False) > 0
    assert f'value="{html.escape("disk <i>7</i>")}"' in text
    again = given | dict(re.findall(HIDDEN, text))
    assert again["fingerprint"] != given["fingerprint"]
    assert operator.post(ADDRESS, again).status_code == 302, "the form of the answer confirms the plan of the answer"
    assert Rebuild.objects.get().plan["target"]["datadir_identity"] == "64769:99"


def test_page_escapes_what_a_host_reports(operator: Client, trio: Any) -> None:
    given = typed(operator)
    evil = make_host_facts(hostname="<script>alert(1)</script>\x1b[31m\u202e")
    set_facts(trio[2], replace(make_facts(server_id=3, replication=(make_channel(),)), host=evil))
    table = operator.post(ADDRESS, given).content.decode().split('id="changes"')[1].split("</section>")[0]
    assert "&lt;script&gt;alert(1)" in table
    assert not {"\x1b", "\u202e"} & set(table)


@pytest.mark.parametrize("forged", ["", "x", "eyJwbGFuIjp7fX0:1abcde:nonsense", "x" * 70_000])
def test_page_shows_no_differences_without_the_plan_that_was_shown(operator: Client, trio: Any, forged: str) -> None:
    given = typed(operator, shown=forged)
    set_facts(trio[2], make_facts(server_id=3, version="10.11.20", replication=(make_channel(),)))
    text = operator.post(ADDRESS, given).content.decode()
    assert "<code>plan.stale</code>" in text
    assert 'id="changes"' not in text


def test_page_compares_nothing_with_another_plan(operator: Client, trio: Any) -> None:
    other = typed(operator)["shown"]
    set_facts(trio[2], make_facts(server_id=3, version="10.11.20", replication=(make_channel(),)))
    given = typed(operator, shown=other)
    set_facts(trio[2], make_facts(server_id=3, version="10.11.21", replication=(make_channel(),)))
    assert 'id="changes"' not in operator.post(ADDRESS, given).content.decode()


def test_page_shows_the_start_that_is_gone(operator: Client, trio: Any) -> None:
    first = operator.get(ADDRESS)
    page, before = first.content.decode(), first.context["start"]
    given = typed(operator, start=re.findall(r'name="start" value="([^"]+)"', page)[0])
    make_run(trio[1], started_at=timezone.now() - timedelta(minutes=5))
    answer = operator.post(ADDRESS, given)
    text, after = answer.content.decode(), answer.context["start"]
    assert "<code>plan.start_stale</code>" in text
    assert (before.key, after.key) == ("now", "soon")
    assert (before.title, after.title) in {(one.then, one.now) for one in answer.context["changes"]}
    table = text.split('id="changes"')[1].split("</section>")[0]
    assert before.title in table
    assert after.title in table
    assert not Rebuild.objects.exists()
