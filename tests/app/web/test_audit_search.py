"""Text search in the audit log: compared with a look at each entry."""

import random

import pytest

from dbops.audit.log import append
from dbops.models import AuditEntry
from dbops.queries.audit.log import AuditFilter, entries

pytestmark = pytest.mark.django_db
WORDS = ("disk full", "lag since upgrade", "DRIFT", "50% gone", "a", "needle", "[a]*?")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.queries.audit.log.ENTRIES_ON_A_PAGE", 4)


def write(count: int) -> list[str]:
    dice = random.Random(count)  # noqa: S311 - it guards nothing
    texts = [dice.choice(WORDS) for _ in range(count)]
    for text in texts:
        append(actor=dice.choice(("olga", "victor")), action="test", subject="s", reason=text)
    return texts


def found(text: str, **others: str) -> list[int]:
    """Read every page from the newest to the oldest, and each again on the way back."""
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


@pytest.mark.parametrize("count", [0, 1, 5, 37])
@pytest.mark.parametrize("text", ["disk", "Drift", "edle", "50%", "a", "since up", "nowhere", "[a]", "*", "_"])
def test_search_finds_every_entry_with_the_text(count: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = write(count)
    wanted = [number for number in range(count, 0, -1) if text.casefold() in texts[number - 1].casefold()]
    assert found(text) == wanted
    of_olga = set(AuditEntry.objects.filter(actor="olga").values_list("sequence", flat=True))
    assert found(text, actor="olga") == [number for number in wanted if number in of_olga]
    monkeypatch.setattr("dbops.queries.audit.log.FEW", 0)
    assert found(text, actor="olga") == [number for number in wanted if number in of_olga]
