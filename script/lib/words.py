"""Fail on telltale words: English that reads as translated.

``words_allowed.txt`` allows each file the telltale words it had when this check began. More fails, fewer fails too until
``script/lint --shrink`` has lowered the number. Nothing raises a number. The list is written in full where it is missing.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = Path("script/lib/words_allowed.txt")
PROSE = (".md", ".html", ".txt", ".sh", ".js", ".css")
#: Files that name the words in order to forbid them, the work of others, and what other programs wrote.
SKIPPED = re.compile(
    r"static/vendor/|(^|/)(recorded|samples)/|requirements|LICENSE"
    r"|^(script/lib/words(_allowed\.txt|\.py)|tests/test_words\.py|docs/glossary\.md)$"
)
TELLTALE = re.compile(
    r"(?<![\w.$-])(?:"
    + "|".join(
        phrase.replace(" ", r"\s+")
        for phrase in (
            "anew",
            "meanwhile",
            "whoever",
            "nobody",
            "somebody else",
            "told",
            "tells? of",
            "hea(?:rs?|rd) of",
            "by (?:itself|themselves)",
            "g(?:o|oes|oing|one) on|went on",
            "(?:mend|stand)(?:s|ed|ing)?|stood",
            "lies",
            "not known",
            "made good",
            "asked for",
            "in 9 of 10 cases",
            "within so (?:long|many)",
            "who reads",
            "the ones? who",
            "in (?:the )?line|the lines? of (?:an?|each|the|its) (?:instance|host|source|target)s?",
        )
    )
    + r")(?![\w-])",
    re.IGNORECASE,
)
SHEBANG = re.compile(rb"#!.*\b(ba|da)?sh\b")
MARKS = re.compile(r"^([ \t]*)(#+|//+|/\*+|\*+/?)", re.MULTILINE)
TEMPLATE_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
FIELD = re.compile(r"\{[^{}]*\}")
NO_PROSE = re.compile(r"\S")


class Hit(NamedTuple):
    line: int
    word: str


def blank(text: str) -> str:
    """Return a text of the same lines in which no word is left and no phrase can continue."""
    return NO_PROSE.sub("\0", text)


def template_prose(text: str) -> str:
    """Return a template without its code; strings inside tags stay, since pages show them."""

    def code(found: re.Match[str]) -> str:
        inside, end = [], 0
        for quoted in QUOTED.finditer(found[0]):
            inside += [blank(found[0][end : quoted.start()]), quoted[0]]
            end = quoted.end()
        return "".join([*inside, blank(found[0][end:])])

    return TEMPLATE_CODE.sub(code, text)


def string_prose(literal: str) -> str:
    """Return the content of a string literal; the fields of an f-string are code."""
    prefix = literal[: min(literal.find(mark) for mark in "\"'" if mark in literal)]
    quotes = 3 if literal[len(prefix) :].startswith(('"""', "'''")) else 1
    begin = len(prefix) + quotes
    inside = literal[begin:-quotes]
    if "f" in prefix.lower():
        inside = FIELD.sub(lambda field: blank(field[0]), inside)
    return " " * begin + inside + " " * quotes


def python_prose(text: str) -> str:
    """Return the strings and comments of a Python file in their places."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts, end = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.STRING, tokenize.COMMENT):
            continue
        start = starts[token.start[0] - 1] + token.start[1]
        prose = string_prose(token.string) if token.type == tokenize.STRING else token.string.replace("#", " ")
        parts += [blank(text[end:start]), prose]
        end = start + len(token.string)
    return "".join([*parts, blank(text[end:])])


def prose(path: str, text: str) -> str:
    """Return what of a file is prose, with every word on the line it has in the file."""
    if path.endswith(".py"):
        return python_prose(text)
    if path.endswith((".html", ".txt")):
        return template_prose(text)
    return text if path.endswith(".md") else MARKS.sub(r"\1 ", text)


def hits(path: str, text: str) -> list[Hit]:
    """Return each telltale word of a file with its line."""
    read = prose(path, text)
    return [
        Hit(read.count("\n", 0, found.start()) + 1, " ".join(found[0].split())) for found in TELLTALE.finditer(read)
    ]


def files(root: Path) -> Iterator[str]:
    """Yield the files under version control, or about to be, that have prose."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    output = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
    for path in sorted(set(output.split("\0")) - {""}):
        file = root / path
        if SKIPPED.search(path) or not file.is_file():
            continue
        if path.endswith((".py", *PROSE)) or SHEBANG.match(file.read_bytes()[:100]):
            yield path


def read_allowed(root: Path) -> dict[str, int]:
    """Return how many telltale words each file may have."""
    rows = (line.rsplit(" ", 1) for line in (root / ALLOWED).read_text().splitlines())
    return {path: int(number) for path, number in rows}


def shrink(root: Path, found: dict[str, list[Hit]]) -> None:
    """Lower the numbers of the list to what the files have."""
    numbers = {path: len(words) for path, words in found.items()}
    if (root / ALLOWED).exists():
        numbers = {path: min(number, numbers.get(path, 0)) for path, number in read_allowed(root).items()}
    rows = [f"{path} {number}\n" for path, number in sorted(numbers.items()) if number]
    (root / ALLOWED).write_text("".join(rows))


def check(root: Path, found: dict[str, list[Hit]]) -> bool:
    """Print what differs from the list and return whether nothing does."""
    allowed = read_allowed(root)
    more = {path: words for path, words in found.items() if len(words) > allowed.get(path, 0)}
    fewer = sorted(path for path, number in allowed.items() if number > len(found.get(path, ())))
    for path, words in more.items():
        for hit in words:
            print(f"{path}:{hit.line}: {hit.word}")
        print(f"{path}: {len(words)} telltale words, {allowed.get(path, 0)} allowed")
    for path in fewer:
        print(f"{path}: {len(found.get(path, ()))} telltale words, {allowed[path]} allowed: run script/lint --shrink")
    return not more and not fewer


def main(arguments: list[str], root: Path = ROOT) -> int:
    found = {path: words for path in files(root) if (words := hits(path, (root / path).read_text()))}
    if arguments == ["--shrink"]:
        shrink(root, found)
    return 0 if check(root, found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
