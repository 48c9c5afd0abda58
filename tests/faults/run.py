"""One fault, once: play it, look at the hosts, put the lab in order for the next. Used by the tests and by the soak."""

import shutil
from contextlib import suppress

from tests.faults.aftermath import Violation, look
from tests.faults.matrix import Fault
from tests.faults.moments import Missed
from tests.faults.outcomes import Row, row_of
from tests.faults.scene import Scene, get_ready, play
from tests.stack import Stack

MISSES_ALLOWED = 2


def run_fault(
    stack: Stack, fault: type[Fault], step: str, *, full: bool = False, delay_seconds: float = 0.0
) -> tuple[Row, str]:
    """Return the row of this run and, where something was violated, what there is to read about it."""
    for _ in range(MISSES_ALLOWED + 1):
        scene = Scene(stack, fault(), step, full=full, delay_seconds=delay_seconds)
        try:
            violations = _play_and_look(scene)
            break
        except Missed as error:
            violations = [Violation("missed", str(error))]
            scene.wait_final()
        finally:
            _put_in_order(scene)
    row = row_of(scene, [str(violation) for violation in violations])
    return row, _evidence(scene) if violations else ""


def _play_and_look(scene: Scene) -> list[Violation]:
    try:
        get_ready(scene)
        play(scene)
    except Missed:
        raise
    except Exception as error:  # the soak continues, and every row is recorded
        with suppress(AssertionError):
            scene.wait_final()  # our own error is no reason to judge a rebuild that still runs
        kind = "stuck" if scene.rebuild_id and not scene.is_final else "broken"
        return [Violation(kind, f"{type(error).__name__}: {error}"), *(look(scene) if scene.rebuild_id else [])]
    return look(scene)


def _put_in_order(scene: Scene) -> None:
    """Every process of the dashboard lives, the fault is undone, and no old data piles up."""
    scene.fault.tidy(scene)
    stack = scene.stack
    for name, process in list(stack.processes.items()):
        if process.poll() is not None:
            stack.stop(name)
            stack.start(name)
    if not scene.rebuild_id or scene.is_final:
        for path in scene.target.folder.glob("data.dbops-old-*"):
            shutil.rmtree(path)


def _evidence(scene: Scene) -> str:
    if not scene.rebuild_id:
        return scene.stack.tail("worker")
    return f"{scene.stack.state_of_rebuilds()}\n{scene.stack.tail('worker')}"
