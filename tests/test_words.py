"""The lint steps for telltale words and for asserts that compare sentences."""

import subprocess

import pytest

from script.lib import sentences, words


@pytest.fixture
def tree(tmp_path):
    """A repository with an empty list of allowed words."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / words.ALLOWED).parent.mkdir(parents=True)
    (tmp_path / words.ALLOWED).write_text("")
    return tmp_path


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("templates/a.html", "<p>\n{# told #}</p>", 2),
        ("templates/a.html", '{% include "b" with title="It\ngoes on" %}', 2),
        ("dbops/a.py", 'x = (\n    "it goes "\n    f"on {x}"\n)', 2),
        ("dbops/a.py", '"""A rebuild.\n\nNobody waits."""', 3),
        ("dbops/a.py", "x = 1\n# it goes\n# on", 2),
        ("script/tool", "#!/bin/sh\n\n# started\n# anew", 4),
        ("docs/a.md", "# Title\n\nIt is started by\nitself.", 3),
        ("README.md", "Its place in line", 1),
    ],
)
def test_words_fail_with_path_and_line_when_a_file_has_a_telltale_word(tree, capsys, path, text, line):
    write(tree, path, text)
    assert words.main([], tree) == 1
    assert capsys.readouterr().out.startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("templates/a.html", "{% if told %}{{ told }}{% endif %}"),
        ("dbops/a.py", 'told = nobody(stands)\nf"{told} rows"'),
        ("dbops/a.py", 'x = ("goes", "on")'),
        ("dbops/a.py", '"recommend standby, amend"'),
        ("static/vendor/a.js", "// told"),
        ("tests/engine/recorded/a.txt", "told"),
    ],
)
def test_words_pass_when_code_or_a_file_of_others_has_them(tree, path, text):
    write(tree, path, text)
    assert words.main([], tree) == 0


def test_words_pass_when_a_file_has_as_many_as_the_list_allows(tree):
    write(tree, "a.md", "told, told")
    write(tree, words.ALLOWED, "a.md 2\n")
    assert words.main([], tree) == 0


def test_words_fail_when_a_file_has_fewer_than_the_list_allows(tree, capsys):
    write(tree, "a.md", "told")
    write(tree, words.ALLOWED, "a.md 2\ngone.md 1\n")
    assert words.main([], tree) == 1
    assert capsys.readouterr().out.count("script/lint --shrink") == 2


def test_shrink_lowers_and_never_raises(tree):
    write(tree, "fewer.md", "told")
    write(tree, "more.md", "told, told")
    write(tree, "new.md", "told")
    write(tree, words.ALLOWED, "fewer.md 2\ngone.md 1\nmore.md 1\n")
    assert words.main(["--shrink"], tree) == 1
    assert (tree / words.ALLOWED).read_text() == "fewer.md 1\nmore.md 1\n"


def test_shrink_writes_the_list_when_there_is_none(tree):
    write(tree, "a.md", "told")
    (tree / words.ALLOWED).unlink()
    assert words.main(["--shrink"], tree) == 0
    assert (tree / words.ALLOWED).read_text() == "a.md 1\n"


@pytest.mark.parametrize(("clean", "status"), [(49, 0), (48, 1)])
def test_sentences_fail_when_above_2_percent_of_asserts(tmp_path, capsys, clean, status):
    asserts = ['assert "The host is down" in page', *['assert x == "a-b"'] * clean]
    write(tmp_path, "tests/test_a.py", "\n".join(asserts))
    assert sentences.main(tmp_path) == status
    assert ("tests/test_a.py: 1 of 49" in capsys.readouterr().out) == (status == 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("The host is down", True),
        ("Blocked: no estimate", True),
        ("host down", False),
        ("a-b-c d_e f.g", False),
        ("SELECT name FROM rows WHERE id", False),
        ("systemctl stop the server", False),
        ("mysqld --datadir here and there", False),
    ],
)
def test_is_sentence_counts_words_but_not_sql_or_shell(text, sentence):
    assert sentences.is_sentence(text) is sentence


def test_compares_sentence_ignores_the_message_when_the_condition_has_none(tmp_path):
    write(tmp_path, "tests/test_a.py", 'assert x, "The host is down"')
    assert sentences.main(tmp_path) == 0
