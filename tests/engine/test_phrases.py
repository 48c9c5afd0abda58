"""Tests of sentences that can be shown in another language."""

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import pytest
from django.utils import translation
from django.utils.translation import trans_real

from dbops.engine.phrases import Phrase, capitalised, joined, phrase, phrases
from dbops.web.templatetags.phrases import translated

WORDS = {
    "{count} replicas of {source}": "{source} no {count}",
    "the primary": "PRIMARY",
    "Now": "IMA",
}


@pytest.fixture
def japanese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page in Japanese, whose catalogue has the words of these tests."""
    with translation.override("ja"):
        catalog = trans_real.catalog()
        monkeypatch.setattr(catalog, "gettext", lambda text: WORDS.get(text, text))
        monkeypatch.setattr(catalog, "ngettext", lambda one, many, number: f"{{number}}:{one}")
        yield


@dataclass(frozen=True)
class Shown:
    text: str
    note: str = ""


def test_a_phrase_is_its_english_text() -> None:
    made = phrase("{count} replicas of {source}", count=2, source=phrase("the primary"))
    assert made == "2 replicas of the primary"
    assert hash(made) == hash("2 replicas of the primary")
    assert json.loads(json.dumps({"text": made})) == {"text": "2 replicas of the primary"}


def test_text_without_values_is_no_pattern() -> None:
    assert phrase("SET {a}") == "SET {a}"
    assert translated(phrase("SET {a}")) == "SET {a}"


def test_braces_of_a_value_stay() -> None:
    made = phrase("Read {path}.", path="{a}{0}")
    assert made == "Read {a}{0}."
    assert translated(made) == made
    assert joined((made, "{b}")) == "Read {a}{0}. {b}"


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_a_number_chooses_the_pattern(number: int, text: str) -> None:
    made = phrases("{number} row", "{number} rows", number)
    assert made == text
    assert translated(made) == text


@pytest.mark.usefixtures("japanese")
def test_a_page_shows_the_pattern_of_its_language_with_the_values() -> None:
    assert translated(phrase("{count} replicas of {source}", count=2, source="db1")) == "db1 no 2"
    assert translated(phrase("Now")) == "IMA"
    assert translated("Now") == "IMA"


@pytest.mark.usefixtures("japanese")
def test_phrases_within_phrases_are_translated_and_other_values_are_not() -> None:
    inner = phrase("the primary")
    assert translated(phrase("{count} replicas of {source}", count=2, source=inner)) == "PRIMARY no 2"
    assert translated(phrase("{count} replicas of {source}", count=2, source="the primary")) == "the primary no 2"
    assert translated(joined((phrase("Now"), "Now", inner), ", ")) == "IMA, Now, PRIMARY"


@pytest.mark.usefixtures("japanese")
def test_plural_forms_are_those_of_the_language() -> None:
    assert translated(phrases("{number} row", "{number} rows", 3)) == "3:3 row"


def test_nothing_joined_is_empty() -> None:
    made = joined(())
    assert not made
    assert not translated(made)


@pytest.mark.parametrize(
    "made",
    [
        phrase("Now"),
        phrase("{count} replicas of {source}", count=2, source=phrase("the primary")),
        phrases("{number} row of {table}", "{number} rows of {table}", 2, table="t"),
        joined(("a", phrase("Now"))),
    ],
)
def test_copies_stay_phrases(made: Phrase) -> None:
    shown = replace(Shown(made), note="x")
    copies = [copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), shown.text, asdict(shown)["text"]]
    for one in copies:
        assert isinstance(one, Phrase)
        assert one == made
        assert vars(one) == vars(made)
        assert {type(value) for value in one.values.values()} == {type(value) for value in made.values.values()}


def test_values_are_text_so_that_any_copy_is_cheap() -> None:
    made = phrase("{at} {size}", at=Shown("a"), size=1.5)
    assert set(map(type, made.values.values())) == {str}


def test_capitalised_phrase_keeps_its_values() -> None:
    made = capitalised(phrase("rebuild {number}", number=7))
    assert (made, getattr(made, "pattern", "")) == ("Rebuild 7", "Rebuild {number}")
    assert capitalised("plain") == "Plain"


def test_capitalised_phrase_keeps_its_number() -> None:
    made = capitalised(phrases("{number} row", "{number} rows", 3))
    assert made == "3 rows"
    assert capitalised(phrases("one row of {name}", "rows of {name}", 2, name="a")) == "Rows of a"
