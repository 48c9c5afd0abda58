"""Small catalogues of translations, compiled for one test."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.utils import translation

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=1; plural=0;\\n"\n'


def catalogue(folder: Path, settings: Any, texts: Mapping[str, str], *, language: str = "ja") -> Iterator[None]:
    """Have Django read these texts instead of dbops's. A key with ``|`` is a context and a text."""
    po = folder / language / "LC_MESSAGES" / "django.po"
    po.parent.mkdir(parents=True)
    po.write_text(HEADER + "".join(map(_entry, texts.items())))
    subprocess.run(["msgfmt", "-o", po.with_suffix(".mo"), po], check=True)
    settings.LOCALE_PATHS = [folder]
    yield
    translation.deactivate()


def _entry(pair: tuple[str, str]) -> str:
    key, text = pair
    context, bar, msgid = key.rpartition("|")
    return (f'\nmsgctxt "{context}"' if bar else "") + f'\nmsgid "{msgid}"\nmsgstr "{text}"\n'
