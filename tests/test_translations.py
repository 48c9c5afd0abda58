"""The translations are complete, compiled, and of the texts that the sources have."""

import subprocess
from pathlib import Path

import pytest

from script.lib import translations
from tests.untranslated import TEMPLATES, unmarked

PAGES = sorted(TEMPLATES.rglob("*.html"))


def test_files_are_of_the_sources_and_offered_languages_complete() -> None:
    assert translations.check() == []


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(TEMPLATES)) for path in PAGES])
def test_template_has_no_text_without_a_mark(path: Path) -> None:
    assert list(unmarked(path.read_text())) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>Some text</p>", [(1, "Some text")]),
        ('<p>{% translate "Some text" %}</p>', []),
        ("<p>\n{% blocktranslate %}Some text{% endblocktranslate %}</p>", []),
        ('<a title="Some text">{{ name }}</a>', [(1, "title=Some text")]),
        ("<code>some text</code>", []),
        ('{{ name|default:"None" }}', [(1, 'default:"None"')]),
        ('{{ name|default:_("None") }}', []),
        ('\n{% include "a.html" with label="Some" %}', [(2, 'label="Some"')]),
    ],
)
def test_unmarked_finds_text_outside_of_marks(source: str, expected: list[tuple[int, str]]) -> None:
    found = list(unmarked(source))
    assert [line for line, _ in found] == [line for line, _ in expected]
    assert all(text in found_text for (_, text), (_, found_text) in zip(expected, found, strict=True))


def test_wrong_placeholder_is_found(tmp_path: Path) -> None:
    po = tmp_path / "wrong.po"
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    po.write_text(header + '#, python-format\nmsgid "Rebuild %(number)s"\nmsgstr "%(count)s"\n')
    with pytest.raises(subprocess.CalledProcessError):
        translations.compiled(po, tmp_path / "wrong.mo")
