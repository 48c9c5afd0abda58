"""The audit log as it is stored: chained, with its columns filled, refused to be changed."""

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from dbops.audit import trigger_sql
from dbops.audit.log import HEAD_MISMATCH, SYSTEM, RequestOrigin, append, current_head, request_origin
from dbops.database.config import MARIADB
from dbops.engine.audit.chain import GENESIS, ChainHead, Tampering, verify
from dbops.models import AuditEntry, AuditHead, AuditName, AuditText
from dbops.operations import audit_log
from dbops.operations.audit_log import verify_log
from dbops.queries.audit.log import stored
from tests.app.factories import make_trio
from tests.audit_guards import unguarded

pytestmark = pytest.mark.django_db


def links() -> list[Any]:
    return [entry.link for entry in AuditEntry.objects.order_by("sequence")]


def write(count: int = 3) -> None:
    for number in range(count):
        append(
            actor="olga",
            action="rebuild.requested",
            subject="replica-1",
            reason=f"Why {number}",
            detail={"rebuild": number},
        )


def test_append_chains_entries_without_a_gap() -> None:
    assert current_head() == ChainHead(0, GENESIS)
    write(3)
    assert [entry.sequence for entry in AuditEntry.objects.all()] == [3, 2, 1]
    assert current_head() == ChainHead(3, links()[-1].hash)
    assert verify(links(), current_head()) == []


def test_append_verifies_with_any_plain_data() -> None:
    append(
        actor="é" * 400,
        action="x" * 99,
        subject="nul \0 and \ud800",
        reason="\0",
        detail={"a": 2.0, "b": 1e22, "c": float("nan")},
    )
    append(
        actor="olga",
        action="a.b",
        subject="c",
        detail={"d": [1.5, None, True, {"e": 0.1, "f": -0.0, "g": 1e-7}], "h": ("i", 2)},
    )
    append(actor="", action="", subject="", detail={"détail": "💾" * 3, "nested": {"b": {"a": "\\ \" '"}}})
    assert verify(links(), current_head()) == []


def test_append_leaves_no_gap_when_rolled_back() -> None:
    write(1)
    with transaction.atomic():
        write(2)
        transaction.set_rollback(True)
    write(1)
    assert [link.sequence for link in links()] == [1, 2]
    assert verify(links(), current_head()) == []


def test_append_fills_columns_from_action_and_request() -> None:
    make_trio()
    with request_origin(RequestOrigin("192.0.2.7", "abc")):
        entry = append(
            actor="olga", action="rebuild.requested", subject="replica-1", reason="the disk", detail={"rebuild": 3}
        )
    assert (entry.instance, entry.cluster, entry.outcome) == ("replica-1", "shop", "done")
    assert (entry.reason, entry.address, entry.request) == ("the disk", "192.0.2.7", "abc")
    entry = append(actor="dbops", action="rebuild.failed", subject="gone", detail={"outcome_text": "No"})
    assert (entry.instance, entry.cluster, entry.outcome, entry.address) == ("gone", "", "failed", "")
    assert AuditText.objects.get(sequence=1).text == "the disk\n3"
    assert set(AuditName.objects.filter(column="outcome").values_list("name", flat=True)) == {"done", "failed"}


@pytest.mark.parametrize("model", [AuditEntry, AuditText, AuditName, AuditHead])
def test_database_refuses_to_change_or_remove_entries(model: Any) -> None:
    write()
    column = {
        AuditEntry: {"actor": "x"},
        AuditText: {"text": "x"},
        AuditName: {"name": "x"},
        AuditHead: {"sequence": 1},
    }
    with pytest.raises(DatabaseError), transaction.atomic():
        model.objects.update(**column[model])
    with pytest.raises(DatabaseError), transaction.atomic():
        model.objects.all().delete()
    assert verify(links(), current_head()) == []


@pytest.mark.parametrize("table", [*trigger_sql.ENTRIES, trigger_sql.NAMES, trigger_sql.HEAD])
def test_database_refuses_to_replace_and_to_truncate(table: str) -> None:
    write()
    statement = f"REPLACE INTO {table} SELECT * FROM {table}"
    if connection.vendor == "postgresql":
        statement = f"TRUNCATE {table}"
    with pytest.raises(DatabaseError, match=trigger_sql.REFUSAL), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert verify(links(), current_head()) == []


def set_back(*, entries: bool, texts: bool, head: bool) -> None:
    """Remove the last two of five entries, as an administrator of the database could."""
    write(5)
    third = AuditEntry.objects.get(sequence=3)
    with unguarded():
        if entries:
            AuditEntry.objects.filter(sequence__gt=3).delete()
        if texts:
            AuditText.objects.filter(sequence__gt=3).delete()
        if head:
            AuditHead.objects.update(sequence=3, hash=third.hash)
        else:
            AuditHead.objects.all().delete()


@pytest.mark.parametrize(
    ("entries", "texts", "head"),
    [(True, False, True), (False, False, True), (False, True, True), (False, False, False), (True, True, False)],
)
def test_append_records_a_head_that_does_not_match_the_log(entries: bool, texts: bool, head: bool) -> None:
    if connection.settings_dict["ENGINE"] == MARIADB:
        pytest.skip("its triggers are dropped only by ending the transaction of this test")
    set_back(entries=entries, texts=texts, head=head)
    write(1)
    newest, mismatch = AuditEntry.objects.all()[:2]
    assert (mismatch.action, mismatch.actor, mismatch.outcome) == (HEAD_MISMATCH, SYSTEM, "failed")
    assert (newest.action, newest.previous) == ("rebuild.requested", mismatch.hash)
    assert current_head().sequence == newest.sequence
    findings, _, _ = verify_log(stored(), actor="eva")
    assert mismatch.sequence in {item.first for item in findings}


def test_verify_reports_search_texts_without_entry() -> None:
    if connection.settings_dict["ENGINE"] == MARIADB:
        pytest.skip("its triggers are dropped only by ending the transaction of this test")
    set_back(entries=True, texts=False, head=True)
    findings, _, _ = verify_log(stored(), actor="eva")
    assert (Tampering.REMOVED, 4, 5) in {(item.kind, item.first, item.last) for item in findings}


def test_verify_reports_findings_when_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    write(2)
    monkeypatch.setattr(audit_log, "append", _refuse_to_write)
    findings, _, count = verify_log(stored(), actor="eva")
    assert ([item.kind for item in findings], count) == ([Tampering.UNWRITABLE], 2)


def _refuse_to_write(**_: Any) -> None:
    raise DatabaseError("the disk is full")
