"""The pure parts of script/bench capacity: the picture, and the sections of its page."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from script.lib.bench_capacity import PAGE, write_section
from script.lib.bench_capacity_picture import COLOURS, HEIGHT, WIDTH, Curve, draw

SVG = "{http://www.w3.org/2000/svg}"


def curve(title: str, factor: float) -> Curve:
    schemas = (75, 150, 300, 600, 1200)
    return Curve(title, [{"schemas": count, "QPS": 60_000 / factor, "P99": factor * count / 100} for count in schemas])


@pytest.mark.parametrize("factor", [0.01, 1, 37, 1000])
def test_curves_are_inside_of_their_panels(factor: float) -> None:
    root = ElementTree.fromstring(draw([curve("small", 1), curve("large", factor)]))  # noqa: S314 - made here
    lines = root.findall(f"{SVG}polyline")
    assert [line.get("stroke") for line in lines] == [*COLOURS, *COLOURS]
    for number, line in enumerate(lines):
        spots = [tuple(map(float, spot.split(","))) for spot in (line.get("points") or "").split()]
        assert len(spots) == 5
        left = 0 if number < 2 else WIDTH
        assert all(left < x < left + WIDTH and 0 < y < HEIGHT for x, y in spots)
        assert [x for x, _ in spots] == sorted(x for x, _ in spots)


def test_higher_latency_is_higher_up() -> None:
    root = ElementTree.fromstring(draw([curve("small", 10), curve("large", 1)]))  # noqa: S314 - made here
    high, low = ((line.get("points") or "").split()[0].split(",")[1] for line in root.findall(f"{SVG}polyline")[:2])
    assert float(high) < float(low)


def test_a_section_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- script/bench capacity: x -->\nold\n<!-- end of x -->\nz\n")
    write_section(page, "x", "new")
    write_section(page, "x", "newer")
    assert page.read_text() == "a\n<!-- script/bench capacity: x -->\nnewer\n<!-- end of x -->\nz\n"
    with pytest.raises(ValueError, match="y"):
        write_section(page, "y", "new")


def test_the_page_has_both_sections() -> None:
    text = PAGE.read_text()
    for name in ("schemas", "doublewrite"):
        assert text.count(f"<!-- script/bench capacity: {name} -->") == text.count(f"<!-- end of {name} -->") == 1
