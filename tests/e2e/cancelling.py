"""Something that happens at the very moment a step begins: a person cancels, a machine changes."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

from tests.stack import Stack


def _wait_for_step(stack: Stack, step: str, done: threading.Event, act: Callable[[int], object]) -> None:
    while not done.is_set():
        rows = stack.rows(
            "SELECT rebuild_id FROM dbops_rebuildstep s JOIN dbops_rebuild r ON r.id = s.rebuild_id"
            " WHERE s.name = ? AND s.state = 'running' AND r.status = 'running'",
            step,
        )
        if rows:
            act(rows[0]["rebuild_id"])
            return
        time.sleep(0.02)


@contextmanager
def at_step(stack: Stack, step: str, act: Callable[[], object]) -> Iterator[None]:
    """Do something once, when a rebuild comes to this step within the block."""
    yield from _at_step(stack, step, lambda _: act())


def ask_to_cancel(stack: Stack, rebuild_id: int) -> None:
    """Write the request as ``lifecycle.request_cancel`` does."""
    stack.write(
        "UPDATE dbops_rebuild SET cancel_requested_at = ?, cancel_requested_by = 'olga' WHERE id = ?",
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        rebuild_id,
    )


def cancelled_in(stack: Stack, step: str) -> AbstractContextManager[None]:
    """Cancel whatever rebuild comes to this step within the block."""
    return contextmanager(_at_step)(stack, step, lambda rebuild_id: ask_to_cancel(stack, rebuild_id))


def _at_step(stack: Stack, step: str, act: Callable[[int], object]) -> Iterator[None]:
    """What ``act`` raises is raised at the end of the block; the watcher never outlives it, or it would act on the next test's rebuild."""
    done = threading.Event()
    with ThreadPoolExecutor(1) as watcher:
        watching = watcher.submit(_wait_for_step, stack, step, done, act)
        try:
            yield
        finally:
            done.set()
            watching.result()
