"""Tests of connections: who may ask, one at a time, what is refused, how they end, and what the pages show of them."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from dbops.models import AuditEntry, BackupRun, ConnectionTest, Hold, Host
from dbops.operations import connection_tests as verbs
from dbops.worker.connection_tests import runner
from tests.app.factories import make_host, make_rebuild, make_trio

from .played_connections import ASKS, HX, PAIR, SSH, STREAM, only, with_accounts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


@pytest.fixture
def trio(db: None) -> Any:
    return with_accounts(make_trio())


# --- who may ask ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("address", "data"), ASKS)
def test_connection_tests_need_an_operator(trio: Any, viewer: Client, address: str, data: dict[str, str]) -> None:
    assert viewer.post(address, data).status_code == 403
    assert not ConnectionTest.objects.exists()
    assert viewer.get("/admin/connection-tests/").status_code == 403


@pytest.mark.parametrize(("address", "data"), ASKS)
def test_request_writes_a_row_and_an_audit_entry_and_wakes_a_worker(
    trio: Any,
    operator: Client,
    sent: list[Any],
    address: str,
    data: dict[str, str],
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = operator.post(address, data)
    row = only()
    assert answer["Location"] == f"/admin/connection-tests/{row.pk}/"
    assert sent == [("test_connection", row.pk)]
    entry = AuditEntry.objects.get(action="test.requested")
    assert (entry.actor, entry.subject, entry.detail["kind"]) == ("olga", row.subject, row.kind)
    assert operator.get(address).status_code == 405


@pytest.mark.parametrize(("address", "data"), ASKS)
def test_second_click_shows_the_running_test(trio: Any, operator: Client, address: str, data: dict[str, str]) -> None:
    first, second = operator.post(address, data), operator.post(address, data)
    assert first["Location"] == second["Location"]
    assert AuditEntry.objects.filter(action="test.requested").count() == 1
    ConnectionTest.objects.update(status="passed", slot=None)
    assert operator.post(address, data)["Location"] != first["Location"]


def test_concurrent_requests_make_one_test(trio: Any, olga: User) -> None:
    host = Host.objects.get(name="host-replica-1")
    assert verbs.request_ssh(actor=olga, host=host).pk == verbs.request_ssh(actor=olga, host=host).pk


def error_codes(answer: Any) -> dict[str, list[str]]:
    """Return the codes of the form's errors, by field."""
    found = answer.context["form"].errors.as_data()
    return {field: [error.code for error in errors] for field, errors in found.items()}


def test_htmx_click_returns_a_polling_fragment(trio: Any, operator: Client) -> None:
    text = operator.post(SSH, headers=HX).content.decode()
    address = f"/admin/connection-tests/{only().pk}/"
    assert "<html" not in text
    assert f'hx-get="{address}"' in text
    ConnectionTest.objects.update(status="passed", finished_at=timezone.now(), slot=None)
    poll = operator.get(address, headers=HX).content.decode()
    assert "hx-get" not in poll
    assert 'class="state state-passed"' in poll


def test_connection_test_refuses_hosts_that_are_gone(trio: Any, operator: Client) -> None:
    assert operator.post("/admin/connection-tests/ssh/missing/").status_code == 404
    answer = operator.post(STREAM, {"source": "missing", "target": "host-replica-1"})
    assert answer.status_code == 422
    assert error_codes(answer) == {"source": ["invalid_choice"]}
    assert '<option value="host-replica-1" selected>' in answer.content.decode()
    fragment = operator.post(STREAM, {"source": "missing", "target": "host-replica-1"}, headers=HX)
    assert error_codes(fragment) == {"source": ["invalid_choice"]}
    assert all(escape(error) in fragment.content.decode() for error in fragment.context["form"].errors["source"])


# --- what a stream must not disturb -----------------------------------------------------------------------------------
def busy_rebuild(trio: Any) -> str:
    rebuild = make_rebuild(target=trio[2], source=trio[1])
    Hold.objects.create(instance=trio[1], rebuild=rebuild, purpose="source", taken_at=timezone.now())
    return f" {rebuild.pk} "


def busy_backup(trio: Any) -> str:
    run = BackupRun.objects.create(uid="u", instance=trio[1], origin="observed", method="dump", status="running")
    return f" {run.pk} "


def busy_test(trio: Any) -> str:
    others = {"host": trio[1].host, "source_host": trio[0].host}
    ConnectionTest.objects.create(
        kind="stream", uid="x", status="running", slot="other", requested_at=timezone.now(), **others
    )
    return ""


BUSY = [busy_rebuild, busy_backup, busy_test]


@pytest.mark.parametrize("busy", BUSY)
def test_stream_test_is_refused_while_its_hosts_are_in_use(trio: Any, operator: Client, busy: Any) -> None:
    why = busy(trio)
    before = ConnectionTest.objects.count()
    page, fragment = operator.post(STREAM, PAIR), operator.post(STREAM, PAIR, headers=HX)
    assert page.status_code == 409
    for answer in (page, fragment):
        error = answer.context["error"]
        assert error["code"] == "test.busy"
        assert why in error["cause"]
        assert escape(error["cause"]) in answer.content.decode()
    assert ConnectionTest.objects.count() == before
    assert operator.post(SSH).status_code == 302


@pytest.mark.parametrize("busy", BUSY)
def test_stream_test_is_refused_when_a_host_became_busy(
    trio: Any, operator: Client, busy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dbops.worker.connection_tests.stream.pull_zeros", lambda *_, **__: pytest.fail("something was sent")
    )
    operator.post(STREAM, PAIR)
    row = only()
    busy(trio)
    assert runner.run_test(row.pk)
    row.refresh_from_db()
    assert (row.status, row.error["code"], row.slot) == ("failed", "test.busy", None)


def test_stream_test_refuses_one_host_twice(trio: Any, operator: Client) -> None:
    answer = operator.post(STREAM, {"source": "host-backup-1", "target": "host-backup-1"})
    assert answer.status_code == 409
    assert answer.context["refused"].code == "test.same_host"


# --- pages ------------------------------------------------------------------------------------------------------------
def test_connection_test_pages_take_a_fixed_number_of_queries(
    trio: Any, operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def ask() -> None:
        host, values = trio[2].host, {"requested_at": timezone.now(), "status": "passed"}
        number = ConnectionTest.objects.count()
        ConnectionTest.objects.create(kind="ssh", uid=f"a{number}", host=host, **values)
        ConnectionTest.objects.create(kind="mysql", uid=f"b{number}", instance=trio[2], **values)
        ConnectionTest.objects.create(kind="stream", uid=f"c{number}", host=host, source_host=trio[0].host, **values)

    for _ in range(2):
        for _ in range(5):
            ask()
        with django_assert_num_queries(6):
            assert operator.get("/admin/connection-tests/").status_code == 200
        with django_assert_num_queries(9):  # one of them for the jump hosts to choose
            assert operator.get("/inventory/host/host-replica-1/").status_code == 200
        with django_assert_num_queries(13):  # three of them for the lineage
            assert operator.get("/inventory/instance/replica-1/").status_code == 200


def test_new_host_has_no_tests(operator: Client) -> None:
    assert 'id="tests"' not in operator.get("/inventory/add/host/").content.decode()


def test_host_with_tests_can_be_removed(trio: Any, operator: Client) -> None:
    host = make_host("spare")
    operator.post("/admin/connection-tests/ssh/spare/")
    assert operator.post("/inventory/host/spare/remove/").status_code == 302
    assert not Host.objects.filter(pk=host.pk).exists()
