"""Wake-up hints go by name: each name must be a task, and each task must take what is sent."""

import ast
from pathlib import Path

import pytest
from kombu.exceptions import OperationalError

from dbops.celery import app
from dbops.messaging import wakeups

PRODUCT = Path(wakeups.__file__).parents[1]


def published() -> set[str]:
    """Return each task name that product code publishes."""
    found = set()
    for path in PRODUCT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("publish", "wakeups.publish"):
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"
                found.add(node.args[0].value)
    return found


def test_published_names_are_registered_tasks() -> None:
    app.loader.import_default_modules()
    names = published()
    assert len(names) >= 5
    assert {f"{wakeups.TASKS}.{name}" for name in names} <= set(app.tasks)


def test_scheduled_and_routed_names_are_registered_tasks() -> None:
    app.loader.import_default_modules()
    named = {entry["task"] for entry in app.conf.beat_schedule.values()} | set(app.conf.task_routes)
    assert named <= set(app.tasks)


@pytest.mark.parametrize("error", [OperationalError("away"), ConnectionRefusedError()])
def test_publish_survives_an_unreachable_broker(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    sent = []

    def send_task(name: str, **_: object) -> None:
        sent.append(name)
        raise error

    monkeypatch.setattr(app, "send_task", send_task)
    wakeups.publish("reconcile")
    assert sent == ["dbops.worker.tasks.reconcile"]
