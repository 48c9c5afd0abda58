"""Collect, merge, check and compile the translations: ``script/translate``.

Texts come from three places: calls of ``gettext`` and its kind, calls of ``phrase`` of the engine, and the catalogue of errors, whose
entries need no mark.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.core.management.commands import makemessages

from dbops.engine.catalogue import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("dbops", "templates")
#: German is prepared: its file is complete as a list, and its texts are still English.
LANGUAGES = ("ja", "de")
OFFERED = ("ja",)
CATALOGUE = "dbops/catalogue_texts.py"
PO, MO = "locale/{}/LC_MESSAGES/django.po", "locale/{}/LC_MESSAGES/django.mo"


class Collect(makemessages.Command):
    """Django's command, with the engine's function, and files that change only with the texts."""

    xgettext_options = [
        *makemessages.Command.xgettext_options,
        "--keyword=phrase",
        "--keyword=phrases:1,2",
        "--no-location",
        "--sort-output",
    ]
    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-location", "--sort-output", "--no-fuzzy-matching"]
    msgattrib_options = ["--no-obsolete", "--sort-output"]


def catalogue_texts() -> Iterator[str]:
    """Yield the texts of the catalogue of errors."""
    for section in SECTIONS:
        yield from (section.title, section.introduction)
        for entry in section.entries:
            yield from (entry.summary, entry.state, entry.next_step)


def collect(folder: Path) -> None:
    """Bring the .po files below ``folder`` up to date with the sources there."""
    texts = folder / CATALOGUE
    lines = dict.fromkeys(f"gettext_noop({text!r})" for text in catalogue_texts() if text)
    texts.write_text("\n".join(lines) + "\n")
    before = Path.cwd()
    os.chdir(folder)
    try:
        call_command(Collect(), locale=list(LANGUAGES), no_obsolete=True, verbosity=0)
    finally:
        os.chdir(before)
        texts.unlink()
    for language in LANGUAGES:
        po = folder / PO.format(language)
        kept = [line for line in po.read_text().splitlines() if not line.startswith(('"POT-Creation', '"PO-Revision'))]
        po.write_text("\n".join(kept) + "\n")


def compiled(po: Path, mo: Path) -> None:
    """Compile a file, after the checks of its placeholders."""
    subprocess.run(["msgfmt", "--check-format", "--no-hash", "-o", mo, po], check=True)


def missing(po: Path) -> str:
    """Return the entries that have no translation."""
    return subprocess.run(
        ["msgattrib", "--untranslated", "--no-obsolete", po], check=True, capture_output=True, text=True
    ).stdout


@contextmanager
def collected() -> Iterator[Path]:
    """Yield a folder with the sources and up-to-date .po files. It has nothing else, such as tests with texts of their own."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for part in (*SOURCES, "locale"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        collect(copy)
        yield copy


def write() -> None:
    with collected() as copy:
        for language in LANGUAGES:
            shutil.copy(copy / PO.format(language), ROOT / PO.format(language))
            compiled(ROOT / PO.format(language), ROOT / MO.format(language))


def check() -> list[str]:
    """Return what is wrong with the files, one line each."""
    wrong = []
    with collected() as copy:
        for language in LANGUAGES:
            po, mo = PO.format(language), MO.format(language)
            if (copy / po).read_text() != (ROOT / po).read_text():
                wrong.append(f"{po} differs from the sources: run script/translate")
            compiled(ROOT / po, copy / mo)
            if (copy / mo).read_bytes() != (ROOT / mo).read_bytes():
                wrong.append(f"{mo} is not compiled from {po}: run script/translate")
    for language in OFFERED:
        if left := missing(ROOT / PO.format(language)):
            wrong.append(f"{PO.format(language)}: not complete\n{left}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/translate")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args().check:
        write()
        return 0
    wrong = check()
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
    sys.exit(main())
