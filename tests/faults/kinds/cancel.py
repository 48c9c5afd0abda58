"""Faults: a user cancels the rebuild, with and without a running worker."""

import signal
import time
from datetime import UTC, datetime

from tests.faults.matrix import STEPS, Expected, Fault, register
from tests.faults.scene import Scene

#: the clean-up is what a cancel leads to: in it there is nothing left to cancel
CANCELLABLE = STEPS[:-1]


class Cancel(Fault):
    def expect(self, scene: Scene) -> Expected:
        return Expected(status=("cancelled",) if scene.step in CANCELLABLE else ("succeeded",))

    def after(self, scene: Scene) -> None:
        """The old data is where it was or beside, and never gone: nothing was verified."""
        if scene.rebuild()["status"] != "cancelled":
            return
        before, folder = scene.before["replica-1"], scene.target.folder
        aside = folder / f"data.dbops-old-{scene.uid}"
        status = (aside if aside.exists() else scene.target.data_dir).stat()
        assert (status.st_dev, status.st_ino) == before.data_dir, "the old data directory is gone"


@register
class Cancelled(Cancel):
    name = "cancel"
    title = "cancelled by a person"

    def inject(self, scene: Scene) -> None:
        """As ``lifecycle.request_cancel`` writes it: a command would take a second to begin, and the step would be over."""
        scene.stack.write(
            "UPDATE dbops_rebuild SET cancel_requested_at = ?, cancel_requested_by = 'olga' WHERE id = ?",
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
            scene.rebuild_id,
        )

    def during(self, scene: Scene) -> None:
        """The stream is held until its end: a cancel must reach a job that does not move."""
        if scene.step == "stream":
            scene.wait_final(40)


@register
class CancelledWithoutWorker(Cancel):
    name = "cancel-while-dead"
    title = "worker killed with -9, cancelled while there is none, a new one after 3 s"
    telling = "stream"

    def inject(self, scene: Scene) -> None:
        scene.stack.stop("worker", signal.SIGKILL)
        scene.cancel()
        time.sleep(3)
        scene.stack.start("worker")

    def during(self, scene: Scene) -> None:
        if scene.step == "stream":
            scene.wait_final(60)

    def expect(self, scene: Scene) -> Expected:
        status = ("cancelled",) if scene.step in CANCELLABLE else ("succeeded",)
        return Expected(status=status, reattached=True, events=("Cancel requested by",))
