"""Filters that show texts in the language of the page."""

from types import SimpleNamespace

import pytest
from django.utils.html import format_html

from dbops.web.templatetags.phrases import listed


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
