"""Write the parts of ``docs/`` that come from the code.

Each entry of ``PARTS`` names a page, a part of the page, and the function that writes the part. The part is between
``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``; the rest of the page is written by hand.
"""

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from dbops.engine.catalogue import SECTIONS
from dbops.engine.catalogue.entries import Entry
from dbops.engine.flavors import account_statements
from dbops.engine.flavors.tool_options import ALLOWED, BOTH
from dbops.engine.flavors.versions import dotted
from dbops.engine.methods import conflict_table
from dbops.engine.notifications.channels import SERVICES
from dbops.engine.notifications.events import EVENTS
from script.lib.reliability import between, cell

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Where the error codes are documented, below ``DOCS``.
ERRORS = "reference/errors.md"
NOTIFICATIONS = "how-to/notifications.md"
ACCOUNTS = "how-to/accounts.md"
PAGES = {path.name: path.relative_to(DOCS) for path in DOCS.rglob("*.md")}
#: A page that a text of the catalogue names.
NAMED = re.compile(r"\b([a-z-]+\.md)\b")


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


def tool_options() -> str:
    """Return a row for each server option that a backup tool gets."""
    lines = ["| option | for | MariaDB | MySQL |", "|---|---|---|---|"]
    for option in ALLOWED:
        ends = dict(option.until)
        versions = [
            "" if name not in option.flavors else f"before {dotted(ends[name][:2])}" if name in ends else "all"
            for name in BOTH
        ]
        lines.append(f"| {' | '.join([f'`{option.name}`', option.reason, *versions])} |")
    return "\n".join(lines)


def sql(statements: str) -> str:
    """Return a block of SQL."""
    return f"```sql\n{statements}```"


def error_codes() -> str:
    """Return a section for each section of ``dbops.engine.catalogue``."""
    parts = []
    for section in SECTIONS:
        parts += [
            f"## {section.title}",
            linked(section.introduction),
            *(error_code(entry) for entry in section.entries),
        ]
    return "\n\n".join(part for part in parts if part)


def error_code(entry: Entry) -> str:
    """Return the part of the page about one code."""
    points = (("Current state", entry.state), ("Next step", entry.next_step))
    lines = [wrapped(f"* **{name}:** {linked(text)}") for name, text in points]
    return "\n".join([f"### `{entry.code}`", "", wrapped(f"*{entry.who}* {linked(entry.summary)}"), "", *lines])


def wrapped(text: str) -> str:
    """Return a paragraph or a point of a list, at most 140 characters a line."""
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(text, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def linked(text: str) -> str:
    """Return a text whose names of pages are links from the page of the error codes."""

    def link(found: re.Match[str]) -> str:
        return f"[{found[1]}]({os.path.relpath(PAGES[found[1]], Path(ERRORS).parent)})"

    return NAMED.sub(link, text)


def events() -> str:
    """Return a row for each kind of event."""
    lines = ["| event | severity | kind | reported when |", "|---|---|---|---|"]
    for kind in EVENTS.values():
        words = (f"`{kind.name}`", kind.severity, "state" if kind.is_state else "happens once", kind.meaning)
        lines.append(f"| {' | '.join(cell(word) for word in words)} |")
    return "\n".join(lines)


def services() -> str:
    """Return a row for each service that notifications can go to."""
    lines = ["| service | address | options |", "|---|---|---|"]
    for service in SERVICES.values():
        words = (service.title, f"`{service.form}`", ", ".join(f"`{one}`" for one in sorted(service.options)))
        lines.append(f"| {' | '.join(cell(word) for word in words)} |")
    return "\n".join(lines)


def api_operations() -> str:
    """Return a row for each operation of the API."""
    lines = ["| method | address | does | scope |", "|---|---|---|---|"]
    for address, operations in api_document()["paths"].items():
        for method, operation in operations.items():
            changes = any(one["name"] == "Idempotency-Key" for one in operation["parameters"])
            words = (method.upper(), f"`{address}`", operation["summary"], "`operate`" if changes else "`read`")
            lines.append(f"| {' | '.join(cell(word) for word in words)} |")
    return "\n".join(lines)


@cache
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document. Only its code needs Django."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
    import django  # noqa: PLC0415

    django.setup()
    from dbops.web.api.root import openapi  # noqa: PLC0415

    return openapi()


def api_text() -> str:
    """Return the OpenAPI document as a file."""
    return json.dumps(api_document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


#: A part of a page for each table of the engine.
PARTS = (
    Part("reference/blockers.md", "effects", effects),
    Part(ERRORS, "codes", error_codes),
    Part("reference/tools.md", "options", tool_options),
    Part(ACCOUNTS, "mariadb-accounts", lambda: sql(account_statements.MARIADB)),
    Part(ACCOUNTS, "old-mariadb-accounts", lambda: sql(account_statements.OLD_MARIADB)),
    Part(ACCOUNTS, "mysql-accounts", lambda: sql(account_statements.MYSQL)),
    Part(ACCOUNTS, "old-mysql-accounts", lambda: sql(account_statements.OLD_MYSQL)),
    Part(ACCOUNTS, "clone-account", lambda: sql(account_statements.CLONE)),
    Part(NOTIFICATIONS, "events", events),
    Part(NOTIFICATIONS, "services", services),
    Part("how-to/api.md", "operations", api_operations),
)
#: Whole files, by name.
FILES = {"reference/openapi.json": api_text}


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
    for name, write in FILES.items():
        path, wanted = DOCS / name, write()
        differing |= not path.exists() or path.read_text(encoding="utf-8") != wanted
        if words != ["--check"]:
            path.write_text(wanted, encoding="utf-8")
    return int(differing and words == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
