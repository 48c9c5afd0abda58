"""A check has one title for its good and its bad result: it names a subject and claims nothing."""

import re
from pathlib import Path

from dbops.engine.planning import checks

TITLES = re.compile(
    r'(?:\btitle\b[^\n]* = |(?:ok|warning|refusal)\(\s*"[\w.]+",\s*)[^\n"]*(?:"[\w.]+", )?phrase\(\s*"([^"]+)"'
)
CLAIMS = re.compile(
    r"\b(?:is|are|has|have|can|may|does|do|not|no|runs?|answers|exists|keeps|knows|replicates|uses|accepts|enough)\b",
    re.I,
)


def test_titles_of_checks_claim_nothing() -> None:
    titles = {
        title
        for file in Path(checks.__file__).parent.glob("*.py")
        for title in TITLES.findall(file.read_text(encoding="utf-8"))
    }
    assert len(titles) > 70
    assert {title for title in titles if CLAIMS.search(title)} == set()
