"""Write the parts of ``docs/`` that come from the code.

Each entry of ``PARTS`` names a page, a part of the page, and the function that writes the part. The part lies between
``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``; the rest of the page is written by hand.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dbops.engine.methods import conflict_table
from script.lib.reliability import between, cell

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Part:
    """One generated part of a page."""

    page: str
    name: str
    write: Callable[[], str]


def effects() -> str:
    """Return the conflicts of every method; methods with the same cell share a row."""
    lines = ["| activity | method | effect | reason |", "|---|---|---|---|"]
    for work, cells in conflict_table().items():
        for judged, methods in groupby(cells, key=cells.__getitem__):
            words = (work, ", ".join(methods), judged.effect, judged.reason)
            lines.append(f"| {' | '.join(cell(word) for word in words)} |")
    return "\n".join(lines)


#: A part of a page for each table of the engine. ``reference/errors.md`` gets an entry here once its texts are in a catalogue.
PARTS = (Part("reference/blockers.md", "effects", effects),)


def generated(page: str, text: str) -> str:
    """Return the text of a page with its generated parts as they must be now."""
    for part in PARTS:
        if part.page == page:
            text = between(text, part.name, part.write())
    return text


def main(words: list[str]) -> int:
    """Write the pages; with ``--check`` return 1 where a page differs, and write nothing."""
    differing = False
    for page in sorted({part.page for part in PARTS}):
        path = DOCS / page
        text = path.read_text(encoding="utf-8")
        wanted = generated(page, text)
        differing |= wanted != text
        if words != ["--check"]:
            path.write_text(wanted, encoding="utf-8")
    return int(differing and words == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
