"""Tests of sentences that can be shown in another language."""

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
from django.utils import translation
from django.utils.translation import trans_real
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.errors import RemoteFailure
from dbops.engine.phrases import DEEPEST, Phrase, capitalised, changed, joined, packed, phrase, phrases, unpacked
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


NAMES = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
)


@st.composite
def made_phrases(draw: st.DrawFn, depth: int = 2) -> Phrase:
    parts = st.text() | made_phrases(depth - 1) if depth else st.text()
    values = draw(st.dictionaries(NAMES, parts, max_size=3))
    plain = st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]))
    words = st.lists(plain | st.sampled_from([f"{{{name}}}" for name in values]) if values else plain)
    pattern, plural = "".join(draw(words)), draw(st.just("") | st.builds("".join, words))
    return Phrase(pattern, values, plural, draw(st.integers()) if plural else 1)


def shape(text: str) -> Any:
    """A phrase with its values, to compare phrases of the same text."""
    if not isinstance(text, Phrase):
        return text
    return text.pattern, text.plural, text.number, {name: shape(part) for name, part in text.values.items()}


@given(made_phrases())
def test_packed_phrase_is_the_same_when_it_comes_back_from_json(made: Phrase) -> None:
    found = unpacked(json.loads(json.dumps(packed(made))), str(made))
    assert shape(found) == shape(made)


@given(JSON, st.text())
def test_text_stays_when_the_packed_data_is_of_anybody(data: Any, text: str) -> None:
    assert unpacked(data, text) == text
    assert translated(unpacked(data, "text")) == "text"


def nested(depth: int) -> list[Any]:
    return ["{a}", {"a": nested(depth - 1) if depth else "text"}]


@pytest.mark.parametrize(
    "data",
    [
        ["{b}", {"a": "text"}],
        ["{}", {"a": "text"}],
        ["{a", {"a": "text"}],
        ["{a.__class__}", {"a": "text"}],
        ["{a!r}", {"a": "text"}],
        ["{a:>999999999999}", {"a": "text"}],
        ["text", {"a": 1}],
        ["text", {}, "texts", True],
        ["text", {}, "texts", 2],
        ["other text", {}],
        ["text", {}, "texts"],
        nested(DEEPEST),
    ],
)
def test_text_stays_when_packed_data_is_wrong(data: Any) -> None:
    assert not isinstance(unpacked(data, "text"), Phrase)
    assert unpacked(data, "text") == "text"


def test_other_text_is_not_packed() -> None:
    assert packed("text") is None
    assert unpacked(packed("text"), "text") == "text"


@pytest.mark.usefixtures("japanese")
def test_page_shows_english_when_a_translation_names_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trans_real.catalog(), "gettext", lambda _: "{other}")
    assert translated(phrase("{count} rows", count=2)) == "2 rows"


def test_changed_phrase_stays_one_only_if_its_pattern_gives_the_changed_text() -> None:
    made = phrase("{user} of {place}", user=phrase("{name}", name="secret"), place="here")
    hidden = changed(made, lambda text: text.replace("secret", "*"))
    assert shape(hidden) == shape(phrase("{user} of {place}", user=phrase("{name}", name="*"), place="here"))
    cut = changed(made, lambda text: text[:9])
    assert (cut, isinstance(cut, Phrase)) == ("secret of", False)


@pytest.mark.usefixtures("japanese")
def test_error_is_a_phrase_also_within_another(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RemoteFailure("host.job", phrase("Now"), cause=phrase("the primary"))
    made = phrase("{error}", error=error)
    assert made == str(error)
    assert "IMA: PRIMARY." in translated(made)
    assert "IMA" not in f"{error}"
