"""The translations are complete, compiled, and of the texts that the sources have."""

import subprocess
from pathlib import Path

import pytest

from script.lib import translations
from tests.unphrased import modules, parsed, unphrased, unphrased_in
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


def test_errors_histories_and_outcomes_are_phrases() -> None:
    found = {one for path in modules() for one in unphrased(path)}
    assert found == set(), "write phrase(...), so that pages can translate what is stored"


WITHOUT_PHRASE = [
    'raise Refused("a.b", "Some operation", cause=found)',
    'raise Refused.unchanged("a.b", operation, f"some {cause}")',
    'raise RemoteFailure("a.b", operation, cause=said or "no words")',
    'cause = f"some {cause}"\n    raise Refused("a.b", operation, cause=cause)',
    'code, cause = ("a.b", "some cause")\n    raise Refused(code, operation, cause=cause)',
    'raise Refused("a.b", operation, cause=phrase("{reason}", reason="some reason" if reason else ""))',
    'raise Refused("a.b", operation, cause=joined(["some", phrase("cause")]))',
    'causes = []\n    causes.append("some cause")\n    raise Refused("a.b", operation, cause=joined(causes))',
    'raise Refused("a.b", operation, cause=_cause())',
    'raise Refused("a.b", OPERATION)',
    'error.state = "some state"',
    'raise ValueError("some cause")',
    'raise ValueError(f"some {cause}")',
    'self.errors.add(spot, f"some {cause}")',
    'errors.add(spot, phrase("{hint}", hint="some hint"))',
    'run.journal.say(f"some {line}")',
    'log_event(rebuild, "some line", level=Level.INFO)',
    'finish(lease, status, "some outcome")',
    'change(run, outcome="some outcome")',
    'log_event(rebuild, phrase("some line") + ".", level=Level.INFO)',
    "text = WORDS[decision].format(by)\n    log_event(rebuild, text, level=Level.INFO)",
]
WITH_PHRASE = [
    'raise Refused("a.b", phrase("some operation"), cause=phrase("{found}", found=f"{number:.1f}"))',
    'cause = str(error)\n    raise Refused("a.b", operation, cause=cause)',
    "run.journal.say(text)",
    'call("some text")',
    "raise ValueError(text)",
    'names.add("some name")',
    'errors.add(spot, phrase("some {cause}", cause=text))',
]
MODULE = """
OPERATION = "Some operation"
def _cause():
    return "some cause"
def function(operation, cause, text):
    {line}
"""


@pytest.mark.parametrize(
    ("line", "is_found"), [(one, True) for one in WITHOUT_PHRASE] + [(one, False) for one in WITH_PHRASE]
)
def test_unphrased_finds_texts_that_are_stored_without_a_phrase(line: str, is_found: bool) -> None:
    module = parsed("dbops/x.py", MODULE.replace("{line}", line))
    assert bool(list(unphrased_in(module))) == is_found
