"""Looks at a run while it is under way, past the dashboard and past any link that is cut."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql

from lab.hosts import LabHost
from tests.stack import Stack


def received_bytes(target: LabHost, uid: str) -> int:
    """Return what the unpacking process has read, by the kernel's count; 0 where there is none."""
    try:
        pid = int((target.work_dir / "rebuilds" / uid / "jobs" / "stream" / "pid.unpack").read_text())
        return int(Path(f"/proc/{pid}/io").read_text().split()[1])
    except (OSError, ValueError):
        return 0


def over_socket(stack: Stack, name: str, sql: str) -> dict[str, Any]:
    """Ask a host's server over its local socket: no cut link is in the way."""
    account = stack.lab.accounts["owner"]
    connection = pymysql.connect(
        unix_socket=str(stack.lab.host(name).socket),
        user=account.user,
        password=account.password,
        connect_timeout=5,
        ssl_disabled=True,
        cursorclass=pymysql.cursors.DictCursor,
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or {}
    finally:
        connection.close()


def applies(stack: Stack, name: str) -> bool:
    """Say whether the applier of a host runs."""
    row = over_socket(stack, name, stack.lab.flavor.show_replication)
    return bool(row) and stack.lab.flavor.parse_replication(row).sql_running


def seconds_until(what: str, probe: Callable[[], bool], limit_seconds: float) -> float:
    """Return how long it took until ``probe`` was true; ``AssertionError`` past the limit."""
    began = time.monotonic()
    while not probe():
        if time.monotonic() - began > limit_seconds:
            raise AssertionError(f"not within {limit_seconds:g} s: {what}")
        time.sleep(0.2)
    return time.monotonic() - began
