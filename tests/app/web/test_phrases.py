"""Filters that show texts in the language of the page."""

from types import SimpleNamespace

import pytest
from django.utils import translation
from django.utils.html import format_html

from dbops.engine.phrases import phrase
from dbops.web.templatetags.phrases import listed, own_words, sentence


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_values_are_listed(values: list[str], text: str) -> None:
    assert listed(values) == text


def test_list_is_of_an_attribute_and_escaped() -> None:
    values = [SimpleNamespace(party=SimpleNamespace(name=name)) for name in ("<b>", format_html("<i>{}</i>", "c"))]
    assert listed(values, "party.name").startswith("&lt;b&gt; ")
    assert listed(values, "party.name").endswith("<i>c</i>")


@pytest.mark.parametrize(
    ("text", "language", "end"),
    [
        ("it is your own account", "en", "t."),
        (phrase("it is your own account"), "ja", "\N{IDEOGRAPHIC FULL STOP}"),
        ("This field is required.", "ja", "\N{IDEOGRAPHIC FULL STOP}"),
        ("done\N{IDEOGRAPHIC FULL STOP}", "ja", "e\N{IDEOGRAPHIC FULL STOP}"),
        ("why?", "en", "y?"),
    ],
)
def test_sentence_has_the_full_stop_of_its_language(text: str, language: str, end: str) -> None:
    with translation.override(language):
        shown = sentence(text)
    assert shown.endswith(end)
    assert "." not in shown[:-1]
    assert shown[0] == shown[0].upper()


def test_value_that_looks_like_a_word_of_dbops_stays() -> None:
    with translation.override("ja"):
        assert own_words("admin") == "admin"
        assert own_words(phrase("admin")) != "admin"
