"""The documentation site has every page, and needs no other host."""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from zensical.main import build

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
#: What a browser loads with a page; links are followed by people.
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* rel="?(?:stylesheet|preconnect|icon)[^>]* href="([^"]+)"'
)


def listed(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for item in (nav.values() if isinstance(nav, dict) else nav) for page in listed(item)]


def test_navigation_lists_every_page_once() -> None:
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed(PROJECT["nav"])) == sorted(pages)


def test_pages_load_nothing_from_other_hosts(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    build(str(tmp_path / "zensical.toml"), {"strict": True, "clean": True})
    pages = list((tmp_path / PROJECT["site_dir"]).rglob("*.html"))
    assert len(pages) > 40
    loaded = {found for page in pages for pair in LOADED.findall(page.read_text()) for found in pair if found}
    assert loaded
    assert [address for address in sorted(loaded) if "//" in address] == []
