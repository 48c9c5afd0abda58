"""The search for a part of a text: what signatures of blocks rule out is never what was asked for."""

import random
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dbops.audit.log import append
from dbops.engine.audit import search_index
from dbops.models import AuditBlock, AuditEntry, AuditSegment, AuditText
from dbops.queries.audit.log import AuditFilter, entries

pytestmark = pytest.mark.django_db
migration = import_module("dbops.migrations.0021_audit_blocks")
WORDS = ("disk full", "lag since upgrade", "DRIFT", "50% gone", "a", "needle")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four entries, four entries a page, and steps of three that double."""
    monkeypatch.setattr(search_index, "ENTRIES", 4)
    monkeypatch.setattr(migration, "ENTRIES", 4)
    monkeypatch.setattr("dbops.queries.audit.text.FIRST_STEP", 3)
    monkeypatch.setattr("dbops.queries.audit.text.GROWTH", 2)
    monkeypatch.setattr("dbops.queries.audit.text.MOST_RANGES", 2)
    monkeypatch.setattr("dbops.queries.audit.log.ENTRIES_ON_A_PAGE", 4)


def write(count: int) -> list[str]:
    dice = random.Random(count)  # noqa: S311 - it guards nothing
    texts = [dice.choice(WORDS) for _ in range(count)]
    for text in texts:
        append(actor=dice.choice(("olga", "victor")), action="test", subject="s", reason=text)
    return texts


def found(text: str, **others: str) -> list[int]:
    """Go back through every page, and forth again."""
    page = entries(AuditFilter(text=text, **others))
    numbers, pages = [item.sequence for item in page.entries], [page]
    while page.older_before is not None:
        page = entries(AuditFilter(text=text, **others), before=page.older_before)
        pages.append(page)
        numbers += [item.sequence for item in page.entries]
    for newer, older in zip(pages, pages[1:], strict=False):
        back = entries(AuditFilter(text=text, **others), after=older.newer_after)
        assert [item.sequence for item in back.entries] == [item.sequence for item in newer.entries]
    return numbers


@pytest.mark.parametrize("count", [0, 1, 4, 5, 37])
@pytest.mark.parametrize("text", ["disk", "Drift", "edle", "50%", "a", "since up", "nowhere"])
def test_it_finds_what_looking_at_each_entry_finds(count: int, text: str) -> None:
    texts = write(count)
    assert AuditBlock.objects.count() == count // 4
    wanted = [number for number in range(count, 0, -1) if text.casefold() in texts[number - 1].casefold()]
    assert found(text) == wanted
    of_olga = set(AuditEntry.objects.filter(actor="olga").values_list("sequence", flat=True))
    assert found(text, actor="olga") == [number for number in wanted if number in of_olga]


def test_a_text_in_no_entry_is_looked_for_in_the_newest_alone() -> None:
    write(37)
    with CaptureQueriesContext(connection) as captured:
        assert entries(AuditFilter(text="haystack")).entries == []
    asked = [query["sql"] for query in captured if AuditText._meta.db_table in query["sql"]]
    assert len(asked) == 1
    assert "37 AND 37" in asked[0]


def test_a_block_without_signature_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("dbops.audit.log.close_block", lambda number: None)
        append(actor="olga", action="test", subject="s", reason="needle")
        write(3)
    write(5)
    assert list(AuditBlock.objects.values_list("number", flat=True)) == [1]
    assert found("needle")[-1] == 1


def test_the_migration_gives_each_whole_block_what_the_log_gives_it() -> None:
    write(11)
    kept = list(AuditBlock.objects.order_by("number").values_list("number", "signature"))
    assert [number for number, _ in kept] == [0, 1]
    made: list[tuple[int, bytes]] = []

    class Blocks:
        class objects:
            @staticmethod
            def create(number: int, signature: bytes) -> None:
                made.append((number, signature))

    class Apps:
        @staticmethod
        def get_model(_: str, name: str) -> object:
            return Blocks if name == "AuditBlock" else apps.get_model("dbops", name)

    migration.sum_up(Apps, None)
    assert made == [(number, bytes(signature)) for number, signature in kept]


def test_the_database_refuses_what_would_hide_entries() -> None:
    write(4)
    with pytest.raises(DatabaseError, match=migration.REFUSAL), transaction.atomic():
        AuditBlock.objects.update(signature=b"")
    with pytest.raises(DatabaseError, match=migration.REFUSAL), transaction.atomic():
        AuditBlock.objects.get().delete()


def test_a_block_goes_when_all_of_its_entries_were_put_away() -> None:
    AuditBlock.objects.create(number=0, signature=b"")
    common = {"previous": "", "hash": "", "file_name": "", "file_hash": "", "at": timezone.now()}
    AuditSegment.objects.create(first=1, last=999, **common)
    with pytest.raises(DatabaseError, match=migration.REFUSAL), transaction.atomic():
        AuditBlock.objects.get().delete()
    AuditSegment.objects.create(first=1000, last=1000, **common)
    AuditBlock.objects.get().delete()
