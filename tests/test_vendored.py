"""The browser libraries in static/vendor/ are, byte for byte, those that the list names."""

import hashlib
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

VENDOR = Path(__file__).resolve().parent.parent / "static" / "vendor"
PACKAGES = json.loads((VENDOR / "VENDORED.json").read_text())
ENTRIES = [entry for entries in PACKAGES.values() for entry in entries]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_vendored_file_has_its_checksum(entry):
    assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]


def test_vendor_folder_has_no_unlisted_file():
    present = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()}
    assert present == {entry["file"] for entry in ENTRIES} | {"VENDORED.json", "VENDORED.md"}


def test_vendored_file_name_contains_the_version():
    for spec, entries in PACKAGES.items():
        version = spec.rpartition("@")[2]
        for entry in entries:
            assert version in entry["file"] or entry["file"].startswith("LICENSES/"), entry["file"]


def test_vendor_page_names_every_file():
    page = (VENDOR / "VENDORED.md").read_text()
    assert [entry["file"] for entry in ENTRIES if "LICENSES/" not in entry["file"] and entry["file"] not in page] == []


def test_sprite_has_a_symbol_for_each_icon():
    (entry,) = [entry for entry in ENTRIES if "icons" in entry]
    root = ElementTree.parse(VENDOR / entry["file"]).getroot()
    assert [symbol.get("id") for symbol in root] == sorted(entry["icons"])
