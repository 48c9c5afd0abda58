"""What came out of each fault in each step: one row each, shown as a table and kept in ``var/faults.json``."""

import fcntl
import json
import re
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.scene import Scene

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "var" / "faults.json"


@dataclass(slots=True)
class Row:
    """One run. ``seconds`` count from the fault to the rebuild's end; ``reattached_seconds`` is what the history says."""

    fault: str
    title: str
    kind: str
    step: str
    status: str = "?"
    code: str = ""
    seconds: float | None = None
    reattached_seconds: int | None = None
    left: str = ""
    violations: list[str] = field(default_factory=list)
    at: str = ""
    commit: str = ""


def row_of(scene: Scene, violations: list[str]) -> Row:
    """Read the row of what has been played."""
    fault = scene.fault
    row = Row(fault.name, fault.title, fault.kind, scene.step, violations=violations)
    row.at = datetime.now(UTC).isoformat(timespec="seconds")
    if scene.rebuild_id:
        rebuild = scene.rebuild()
        row.status, row.left = rebuild["status"], rebuild["outcome"].replace(str(scene.stack.lab.folder), "…")
        row.left = row.left.replace(scene.uid, "RUN")
        row.code = json.loads(rebuild["error"]).get("code", "")
        row.reattached_seconds = reattached_seconds(scene)
    if scene.injected_at and scene.ended_at:
        row.seconds = round(scene.ended_at - scene.injected_at, 1)
    return row


def reattached_seconds(scene: Scene) -> int | None:
    """Return the longest silence in the history, ``None`` when no driver had to re-attach."""
    said = [re.search(r"[Rr]e-?attached after (\d+) s", text) for text in scene.events()]
    return max((int(match[1]) for match in said if match), default=None)


def commit() -> str:
    """Return the commit that runs; ``-dirty`` behind it when something is changed that it does not hold."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def keep(rows: list[Row], path: Path = RESULTS) -> None:
    """Write the rows; of a fault and step that was run before, the newest stays. Parts of the matrix may run side by side."""
    head = commit()
    path.parent.mkdir(exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = {(row["fault"], row["step"]): row for row in read(path)}
        for row in rows:
            row.commit = head
            known[row.fault, row.step] = asdict(row)
        path.write_text(json.dumps(list(known.values()), indent=1, ensure_ascii=False) + "\n")


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else []


def table(rows: list[Row]) -> list[str]:
    """Return the rows as lines of text."""
    head = ("fault", "step", "outcome", "error", "end after", "re-attached", "violations")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.fault,
        row.step,
        row.status,
        row.code,
        f"{row.seconds:.0f} s" if row.seconds is not None else "",
        f"{row.reattached_seconds} s" if row.reattached_seconds is not None else "",
        "; ".join(row.violations)[:120],
    )
