"""Looks at the lab's hosts themselves."""

from pathlib import Path
from typing import Any

from tests.stack import Stack


def one(stack: Stack, name: str, sql: str) -> dict[str, Any]:
    connection = stack.lab.connect(name)
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or {}
    finally:
        connection.close()


def is_replicating(stack: Stack, name: str) -> bool:
    link = one(stack, name, "SHOW SLAVE STATUS")
    return (link.get("Slave_IO_Running"), link.get("Slave_SQL_Running")) == ("Yes", "Yes")


def processes_of(uid: str) -> list[str]:
    """Command lines of processes that carry the run's id."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            cwd = str((path.parent / "cwd").readlink())
        except OSError:
            continue
        if uid in line or uid in cwd:
            found.append(f"{path.parent.name}: {line[:200]} in {cwd}")
    return found
