"""Find texts of templates that are not marked for translation.

``python -m tests.untranslated [FOLDER]...`` lists them.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "templates"
_TAG = r'<(?:{{.*?}}|{%.*?%}|"(?:{{.*?}}|{%.*?%}|[^"])*"|[^>"])*>'
_TOKENS = re.compile(rf"({{#.*?#}}|{{% comment.*?endcomment %}}|{{%.*?%}}|{{{{.*?}}}}|<!--.*?-->|{_TAG})", re.DOTALL)
_MARKED = re.compile(r"{%\s*blocktranslate\b.*?{%\s*endblocktranslate\s*%}", re.DOTALL)
_ATTRIBUTE = re.compile(
    r'(?<=\s)(aria-label|title|placeholder|alt|data-label|data-empty|data-title|data-note)="((?:{{.*?}}|{%.*?%}|[^"])*)"',
    re.DOTALL,
)
#: Arguments of tags and filters that people read.
_ARGUMENTS = re.compile(
    r"""(?:\bdefault(?:_if_none)?:|\byesno:|\bpluralize:|\badd:|\b(?!href|class|id|name|kind|style)[a-z_]+=)("[A-Z][^"{]*"|'[A-Z][^'{]*')"""
)
_WORD = re.compile(r"[A-Za-z]{2,}")
#: Names, units and code are the same in every language.
SAME = frozenset(
    [
        "dbops",
        "UTC",
        "GiB",
        "MiB",
        "KiB",
        "SSH",
        "SQL",
        "GTID",
        "API",
        "CSV",
        "JSON",
        "TiDB",
        "MySQL",
        "MariaDB",
        "uuid",
        "IO",
        "CLUSTERED",
        "NONCLUSTERED",
        "min",
        "nbsp",
        "ms",
        "json",
        "csv",
    ]
)
_SKIPPED = ("script", "style", "pre", "code", "svg", "kbd")


def _is_text(text: str) -> bool:
    return any(word not in SAME for word in _WORD.findall(re.sub(r"&#?\w+;", " ", text)))


def unmarked(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each unmarked text of a template."""
    source = _MARKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)
    position, skipped = 0, ""
    for token in _TOKENS.split(source):
        line = source.count("\n", 0, position) + 1
        position += len(token)
        if token.startswith(("{#", "<!", "{% comment")) or not token:
            continue
        if token.startswith(("{{", "{%")):
            yield from ((line, found.group(0)) for found in _ARGUMENTS.finditer(token) if _is_text(found.group(1)))
        elif token.startswith("<") and (tag := re.match(r"</?\s*([a-zA-Z0-9]+)", token)):
            name = tag.group(1).lower()
            if name in _SKIPPED:
                skipped = "" if token.startswith("</") or token.endswith("/>") else name
            for attribute, value in _ATTRIBUTE.findall(token):
                if _is_text(re.sub(r"{{.*?}}|{%.*?%}", " ", value, flags=re.DOTALL)):
                    yield line, f"{attribute}={value}"
        elif not skipped and _is_text(token):
            yield line, " ".join(token.split())


def main() -> None:
    """Print the unmarked texts of templates."""
    for folder in sys.argv[1:] or [TEMPLATES]:
        for path in sorted(Path(folder).rglob("*.html")):
            for line, text in unmarked(path.read_text()):
                print(f"{path}:{line}: {text}")


if __name__ == "__main__":
    main()
