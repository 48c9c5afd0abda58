"""Write the results of the fault matrix and the soak into ``docs/reference/reliability.md``.

    .venv/bin/python script/lib/reliability.py

Reads ``var/faults.json`` and ``var/soak.json``; a part without results keeps its text.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "reliability.md"
Row = dict[str, Any]


def between(text: str, name: str, content: str) -> str:
    """Return the page with ``content`` between the markers of this name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"The markers of {name} are missing")
    return pattern.sub(lambda _: f"{begin}{content.rstrip()}\n{end}", text)


def cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"


def faults(rows: list[Row]) -> str:
    """Return one table for each kind of fault."""
    parts = [_summary(rows)]
    for kind in sorted({row["kind"] for row in rows}):
        of_kind = [row for row in rows if row["kind"] == kind]
        lines = [
            f"### {kind.capitalize()}",
            "",
            "| fault | step | outcome | error | rebuild ended after | re-attached after | violations |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_line(row) for row in of_kind]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _summary(rows: list[Row]) -> str:
    bad = sum(1 for row in rows if row["violations"])
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    names = len({row["fault"] for row in rows})
    last = max(row["at"] for row in rows)[:10]
    return (
        f"{len(rows)} runs of {names} faults, {bad} with a violation. Last run {last} (UTC), commit {commits}; "
        "seconds count from the fault."
    )


def _line(row: Row) -> str:
    violations = "; ".join(row["violations"]) or "none"
    values = (
        row["title"],
        row["step"],
        row["status"],
        f"`{row['code']}`" if row["code"] else "",
        seconds(row["seconds"]),
        seconds(row["reattached_seconds"]),
        violations,
    )
    return "| " + " | ".join(cell(value) for value in values) + " |"


def soak(result: Row) -> str:
    """Return the counts of the last soak."""
    head = (
        f"{result['minutes']:.0f} minutes, seed {result['seed']}, {result['at'][:10]} (UTC), commit {result['commit']}: "
        f"{result['rebuilds']} rebuilds, {result['faults']} injected faults."
    )
    lines = [head, "", "| count | |", "|---|---|"]
    lines += [f"| {cell(name)} | {count} |" for name, count in result["counts"].items()]
    lines += ["", "| outcome | rebuilds |", "|---|---|"]
    lines += [f"| {cell(name)} | {count} |" for name, count in result["outcomes"].items()]
    return "\n".join(lines)


def main() -> None:
    text = PAGE.read_text()
    sections: dict[str, Callable[[Any], str]] = {"faults": faults, "soak": soak}
    for name, render in sections.items():
        path = ROOT / "var" / f"{name}.json"
        if path.exists():
            text = between(text, name, render(json.loads(path.read_text())))
        else:
            sys.stderr.write(f"{path} is missing: {name} is unchanged\n")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
