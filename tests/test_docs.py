"""The documents say what the code does."""

from pathlib import Path

from dbops.engine.states import TRANSITIONS, Status

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def modules() -> set[str]:
    """Top-level modules of the product, and those of the engine, as dotted names."""
    found = set()
    for folder in (ROOT / "dbops", ROOT / "dbops" / "engine"):
        for path in folder.iterdir():
            is_package = path.is_dir() and (path / "__init__.py").exists() and path.name != "migrations"
            if is_package or (path.suffix == ".py" and path.name != "__init__.py"):
                found.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


def test_the_architecture_names_every_module() -> None:
    assert sorted(name for name in modules() if f"`{name}`" not in ARCHITECTURE) == []


def test_the_architecture_names_no_module_that_is_gone() -> None:
    named = {word.strip("`") for word in ARCHITECTURE.split() if word.strip(",|").startswith("`dbops.")}
    named = {word.strip("`,|") for word in named}
    assert sorted(named - modules() - {"dbops.engine"}) == []


def test_the_architecture_shows_the_state_machine_as_it_is() -> None:
    for status in Status:
        assert f"| `{status}` |" in ARCHITECTURE
        if TRANSITIONS[status]:
            line = next(part for part in ARCHITECTURE.split("\n") if part.startswith("queued -> "))
            after = line.split(f"{status} -> ", 1)[1].split("      ")[0]
            assert {word.strip() for word in after.split("|")} == {item.value for item in TRANSITIONS[status]}
