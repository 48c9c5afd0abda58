"""Tests of connections without hosts: what a shell would say, and the addresses that are clicked."""

from typing import Any

import pytest

from dbops.engine.ports import CommandResult
from dbops.models import Cluster, ConnectionTest

PASSWORD = "s3cret-of-shop"
HX = {"HX-Request": "true"}
SSH, MYSQL, STREAM = (
    "/admin/connection-tests/ssh/host-replica-1/",
    "/admin/connection-tests/mysql/replica-1/",
    "/admin/connection-tests/stream/",
)
PAIR = {"source": "host-backup-1", "target": "host-replica-1"}
ASKS = [(SSH, {}), (MYSQL, {}), (STREAM, PAIR)]


class FakeShell:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def run(self, *_: Any, **__: Any) -> CommandResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        return CommandResult(0, self.answer, "")

    def close(self) -> None:
        """Nothing is open."""


def looks(**changed: str) -> str:
    found = {"user": "root", "host": "db-3", "system": "Linux 6.1", "missing": "", "work_writable": "1", "gate": ""}
    found |= {"work_free": "5000000000", "keys": "/root/.ssh/authorized_keys", "keys_writable": "1", "done": "1"}
    return "".join(f"{name}={value}\n" for name, value in (found | changed).items())


def answers(monkeypatch: pytest.MonkeyPatch, answer: str | Exception) -> None:
    for module in ("dbops.worker.connection_tests.runner", "dbops.worker.connection_tests.stream"):
        monkeypatch.setattr(f"{module}.open_shell", lambda host: FakeShell(answer))


def with_accounts(trio: Any) -> Any:
    """Give the cluster of a trio accounts with passwords."""
    Cluster.objects.update(
        admin_user="dbops", admin_password=PASSWORD, backup_user="backup", backup_password=f"b-{PASSWORD}"
    )
    return trio


def only() -> ConnectionTest:
    return ConnectionTest.objects.get()
