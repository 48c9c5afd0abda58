"""The ``clone`` method: the target's MySQL server clones the source's. MySQL 8.0 and newer, no backup tool, no pause."""

from dbops.engine.phrases import phrase
from dbops.engine.planning.checks import (
    capacity,
    clone,
    doublewrite,
    inside,
    kind,
    layout,
    pair,
    source,
    storage,
    target,
    topology,
)
from dbops.engine.planning.method import Method
from dbops.engine.rebuilds.steps.certify.step import Certify
from dbops.engine.rebuilds.steps.copy.clone import Clone, OpenDonor, closing_statements
from dbops.engine.rebuilds.steps.copy.swap_datadir import SwapDatadir
from dbops.engine.rebuilds.steps.finish.clean_up import CleanUp
from dbops.engine.rebuilds.steps.finish.verify import Verify
from dbops.engine.rebuilds.steps.preflight.live_check import PreflightCheck
from dbops.engine.rebuilds.steps.replicate.catch_up import CatchUp
from dbops.engine.rebuilds.steps.replicate.repoint import Repoint
from dbops.engine.rebuilds.steps.start.prepare_and_start import StartServer
from dbops.engine.schedule.conflicts import FOR_A_SERVER, WAITS, Activity, Conflict

METHOD = Method(
    name="clone",
    summary=phrase("Clone the running MySQL source into a new data directory."),
    steps=(
        PreflightCheck(),
        OpenDonor(),
        SwapDatadir(),
        Clone(),
        StartServer(),
        CatchUp(),
        Repoint(),
        Certify(),
        Verify(),
        CleanUp(closing_statements),
    ),
    conflicts={
        **FOR_A_SERVER,
        Activity.SOURCE_DUMP_MANAGED: Conflict(
            WAITS,
            phrase(
                "Both read every page of the source, the clone without a rate limit. The dump's long transaction "
                "keeps every old row version. Both hold the instance."
            ),
        ),
        Activity.SOURCE_DUMP_EXTERNAL: Conflict(
            WAITS,
            phrase(
                "Both read every page of the source, the clone without a rate limit. The dump's long transaction "
                "keeps every old row version."
            ),
        ),
        Activity.SOURCE_PHYSICAL_MANAGED: Conflict(
            WAITS,
            phrase("Both read every page of the source, the clone without a rate limit. Both hold the instance."),
        ),
        Activity.SOURCE_PHYSICAL_EXTERNAL: Conflict(
            WAITS,
            phrase("Both read every page of the source, the clone without a rate limit. The backup ends late."),
        ),
        Activity.SOURCE_READ: Conflict(
            WAITS,
            phrase("One job at a time reads a source, and a donor serves one clone at a time."),
        ),
    },
    # The target's server makes the copy: no backup tool is needed, and the redo log cannot overtake it.
    checks=(
        *topology.CHECKS,
        *target.CHECKS,
        *kind.CHECKS,
        pair.source_is_another,
        pair.members_of_one_cluster,
        pair.local_logins_work,
        pair.dashboard_has_privileges,
        *clone.CHECKS,
        pair.formats_fit,
        source.source_answers,
        source.source_has_a_fit_role,
        source.source_rows_are_equal,
        source.source_replicates,
        source.source_can_be_replicated_from,
        source.source_holds_nothing_of_its_own,
        source.binlogs_are_kept,
        source.nothing_lies_outside,
        *layout.CHECKS,
        *storage.OF_A_CLONE,
        *inside.CHECKS,
        *doublewrite.CHECKS,
        capacity.target_has_room,
    ),
    short=phrase("by a clone"),
    no_pause=phrase("The server creates a consistent copy with its GTID position."),
)
