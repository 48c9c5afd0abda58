"""The audit log's page."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dbops.operations.audit import record
from dbops.queries.audit import ENTRIES_ON_A_PAGE, AuditFilter, entries
from tests.app.factories import make_rebuild, make_trio

pytestmark = pytest.mark.django_db


def test_entries_show_who_did_what_with_its_detail(viewer: Client) -> None:
    _, backup, replica = make_trio()
    rebuild = make_rebuild(target=replica, source=backup)
    record(
        actor="olga",
        action="rebuild.requested",
        subject="replica-1",
        rebuild=rebuild.pk,
        reason="<script>alert(1)</script>",
        keep_old_data=False,
    )
    text = viewer.get("/audit/").content.decode()
    assert f'href="/rebuilds/{rebuild.pk}/"' in text
    assert "&lt;script&gt;alert(1)" in text
    assert "keep old data" in text


def test_entries_whose_rebuild_is_no_number_do_not_break_the_page(viewer: Client) -> None:
    record(actor="olga", action="fleet.imported", subject="fleet.yaml", rebuild="none", added=["a", "b"])
    text = viewer.get("/audit/").content.decode()
    assert "a, b" in text


def test_entries_are_filtered(viewer: Client) -> None:
    record(actor="olga", action="rebuild.requested", subject="replica-1")
    record(actor="dbops", action="fleet.imported", subject="shop")
    text = viewer.get("/audit/?action=rebuild.&actor=Olga&subject=REPLICA").content.decode()
    assert "rebuild.requested" in text
    assert "fleet.imported" not in text
    assert "Nothing matches" in viewer.get("/audit/?actor=nobody").content.decode()


def test_a_page_costs_two_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(ENTRIES_ON_A_PAGE + 1):
        record(actor="olga", action="test", subject=f"number-{number}")
    with django_assert_num_queries(2):
        page = entries(AuditFilter(), 1)
        assert page.object_list[0].subject == f"number-{ENTRIES_ON_A_PAGE}"
    assert page.paginator.num_pages == 2
