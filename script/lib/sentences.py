"""Fail when too many asserts of ``tests/`` compare a sentence: tests hold behaviour, not wording.

A sentence is a string constant inside the condition of an ``assert`` with three words or more of two letters or more,
separated by spaces. SQL statements and shell commands are not sentences. The pieces of an f-string count one by one. The
message of an ``assert`` does not count.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PERCENT = 2
WORST = 10
WORD = re.compile(r"(?<![^\s(“\"'])[A-Za-z][A-Za-z'’-]+(?=[\s.,:;!?)”\"']|$)")
SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|SHOW|SET|START|STOP|RESET|CHANGE|GRANT|FLUSH|PURGE|WITH)\b"
)
SHELL = re.compile(r"&& | \| |\$[({\w]|(^|\s)--?[a-z][\w-]*|^\s*(sudo|systemctl|kill|ssh|cat|chown|rm|mv) ")


def is_sentence(text: str) -> bool:
    """Return whether a string constant is a sentence of three words or more."""
    return len(WORD.findall(text)) >= 3 and not SQL.match(text) and not SHELL.search(text)


def compares_sentence(node: ast.Assert) -> bool:
    """Return whether the condition of an assert contains a sentence."""
    constants = (part.value for part in ast.walk(node.test) if isinstance(part, ast.Constant))
    return any(isinstance(value, str) and is_sentence(value) for value in constants)


def main(root: Path = ROOT) -> int:
    asserts: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    for file in sorted((root / "tests").rglob("*.py")):
        path = str(file.relative_to(root))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Assert):
                asserts[path] += 1
                sentences[path] += compares_sentence(node)
    found, total = sentences.total(), asserts.total()
    print(f"{found} of {total} asserts compare a sentence; {PERCENT} % may")
    if found * 100 <= total * PERCENT:
        return 0
    for path, number in sentences.most_common(WORST):
        print(f"{path}: {number} of {asserts[path]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
