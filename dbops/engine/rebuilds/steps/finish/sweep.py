"""Clean up what a rebuild left on a host that did not answer at its end. This can run any number of times."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from dbops.engine.errors import DbopsError
from dbops.engine.rebuilds.steps.base import JobStep, Step
from dbops.engine.rebuilds.steps.copy.clone import close_donor
from dbops.engine.rebuilds.steps.copy.shared_read import give_back
from dbops.engine.rebuilds.steps.finish.clean_up import forget_key, inspect_unless_verified
from dbops.engine.rebuilds.steps.preflight.source_replication import compare_replication
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start.relaxed_durability import restore_durability_at_end


class CleanUpPlace(StrEnum):
    """A machine or a server on which an ended run left something."""

    SOURCE_HOST = "source host"
    SOURCE_SERVER = "source server"
    TARGET_HOST = "target host"
    TARGET_SERVER = "target server"


def needs_sweep(run: Run) -> bool:
    """Return whether an ended run left something that its clean-up could not reach."""
    return bool(left_over(run.checkpoint))


def left_over(checkpoint: Mapping[str, Any]) -> list[CleanUpPlace]:
    """Return the places that the clean-up of an ended run did not reach."""
    opened, donor = bool(checkpoint.get("source_opened")), bool(checkpoint.get("donor_opened"))
    is_compared = "source_found" not in checkpoint or "source_differs" in checkpoint
    left = {
        CleanUpPlace.SOURCE_HOST: opened and not checkpoint.get("source_closed"),
        CleanUpPlace.SOURCE_SERVER: (donor and not checkpoint.get("donor_closed"))
        or ((opened or donor) and not is_compared),
        CleanUpPlace.TARGET_HOST: (opened and not checkpoint.get("key_forgotten")) or not is_target_known(checkpoint),
        CleanUpPlace.TARGET_SERVER: "relaxed" in checkpoint and not checkpoint.get("rolled_back"),
    }
    return [place for place, is_left in left.items() if is_left]


def is_target_known(checkpoint: Mapping[str, Any]) -> bool:
    """Return whether the target was checked after everything there had ended, or needs no check."""
    if not checkpoint.get("touched") or checkpoint.get("verified") or checkpoint.get("rolled_back"):
        return True
    return bool(checkpoint.get("end_checked"))


def sweep(run: Run, steps: Iterable[Step]) -> list[DbopsError]:
    """End every job of the run on the target, release the source, check the data's location. Return what has failed so far."""
    errors: list[DbopsError] = []

    def end_jobs(run: Run) -> None:
        if run.checkpoint.get("jobs_ended") or not run.checkpoint.get("touched"):
            return
        for step in steps:
            if isinstance(step, JobStep):
                step.job(run).stop()
        run.checkpoint["jobs_ended"] = True

    def check_the_end(run: Run) -> None:
        if run.checkpoint.get("jobs_ended"):
            inspect_unless_verified(run)

    for part in (
        end_jobs,
        check_the_end,
        restore_durability_at_end,
        give_back,
        close_donor,
        forget_key,
        compare_replication,
    ):
        try:
            part(run)
        except DbopsError as error:
            errors.append(error)
    return errors
