"""The documents: what they link to exists, and what is generated from the code is current."""

import re
from pathlib import Path

import pytest

from dbops.engine.methods import conflict_table
from dbops.engine.states import TRANSITIONS, Status
from script.lib.docs import DOCS as WRITTEN
from script.lib.docs import FILES, PARTS, generated, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()
PAGES = sorted([*DOCS.glob("**/*.md"), *ROOT.glob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"var"}
#: Folders of the product that the documents name without ``dbops/`` before them.
OWN_FOLDERS = {path.name for path in (ROOT / "dbops").iterdir() if path.is_dir() and path.name != "__pycache__"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_to_nothing(page: Path) -> list[str]:
    found = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        there = page.parent / path if path else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not there.exists() or (anchor and anchor not in anchors(there)):
            found.append(link)
    return found


def is_module(dotted: str) -> bool:
    """Whether it is a module, or a name in one."""
    parts = dotted.split(".")
    paths = [ROOT.joinpath(*parts[:length]) for length in (len(parts), len(parts) - 1) if length > 1]
    return any(path.is_dir() or path.with_suffix(".py").exists() for path in paths)


def names_nothing(page: Path) -> list[str]:
    """Paths and modules of this project that a page names and that do not exist."""
    found = []
    for word in QUOTED.findall(FENCED.sub("", page.read_text())):
        first, _, rest = word.partition("/")
        if rest and first in FOLDERS:
            if not (ROOT / word).exists():
                found.append(word)
        elif rest and first in OWN_FOLDERS:
            if not (ROOT / "dbops" / word).exists():
                found.append(word)
        elif (
            word.startswith("dbops.") and not re.search(r"\.(conf|env|service|sql|yaml)$", word) and not is_module(word)
        ):
            found.append(word)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_links_to_what_exists(page: Path) -> None:
    assert links_to_nothing(page) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_names_paths_and_modules_that_exist(page: Path) -> None:
    assert names_nothing(page) == []


def test_link_check_finds_a_missing_page_anchor_path_and_module(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[a](#one) [b](#two) [c](gone.md) `dbops/gone.py` `engine/gone.py` `dbops.gone` `dbops.engine`\n"
    )
    assert links_to_nothing(page) == ["#two", "gone.md"]
    assert names_nothing(page) == ["dbops/gone.py", "engine/gone.py", "dbops.gone"]


@pytest.mark.parametrize("page", sorted({part.page for part in PARTS}))
def test_generated_parts_of_page_equal_what_the_code_says(page: str) -> None:
    text = (DOCS / page).read_text()
    assert generated(page, text) == text


def test_blockers_page_has_a_row_for_each_cell_of_the_table() -> None:
    text = (DOCS / "reference" / "blockers.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    shown = {
        (row[0].removeprefix("| "), method): row[2] for row in rows if len(row) == 4 for method in row[1].split(", ")
    }
    cells = {
        (str(work), method): str(cell.effect) for work, row in conflict_table().items() for method, cell in row.items()
    }
    assert cells.items() <= shown.items()


def test_check_fails_and_writes_nothing_when_a_page_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("script.lib.docs.DOCS", tmp_path)
    for part in PARTS:
        (tmp_path / part.page).parent.mkdir(exist_ok=True)
        with (tmp_path / part.page).open("a") as page:
            page.write(f"<!-- {part.name}: begin -->\nold\n<!-- {part.name}: end -->\n")
    old = (tmp_path / "reference" / "blockers.md").read_text()
    assert (main(["--check"]), (tmp_path / "reference" / "blockers.md").read_text()) == (1, old)
    assert (main([]), main(["--check"])) == (0, 0)
    assert (tmp_path / "reference" / "blockers.md").read_text() != old


def test_architecture_shows_the_current_state_machine() -> None:
    for status in Status:
        assert f"| `{status}` |" in ARCHITECTURE
        if TRANSITIONS[status]:
            line = next(part for part in ARCHITECTURE.split("\n") if part.startswith("queued -> "))
            after = line.split(f"{status} -> ", 1)[1].split("      ")[0]
            assert {word.strip() for word in after.split("|")} == {item.value for item in TRANSITIONS[status]}


@pytest.mark.parametrize("name", FILES)
def test_generated_file_is_current(name: str) -> None:
    assert (WRITTEN / name).read_text(encoding="utf-8") == FILES[name]()


def test_glossary_names_classes_and_settings_that_exist() -> None:
    """The last column leads from a term to the code."""
    rows = [line.split("|") for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    names = {name for row in rows for name in re.findall(r"`([A-Za-z_*]+)[`.]", row[3])}
    code = "\n".join(path.read_text() for path in (ROOT / "dbops").rglob("*.py"))
    classes = {name for name in names if re.fullmatch(r"(?:[A-Z][a-z]+){1,}", name)}
    assert {name for name in classes if not re.search(rf"class {name}\b", code)} == set()
    settings = {name.rstrip("*") for name in names if name.startswith("DBOPS_")}
    assert {name for name in settings if name not in code} == set()
    assert len(classes) > 40
    assert len(settings) > 8
