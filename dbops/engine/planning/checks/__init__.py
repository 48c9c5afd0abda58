"""Pre-flight checks: pure functions over a ``PlanInputs``, each giving findings. Order is the order of the page.

To add one: write a function in the module of its subject, name it in that module's ``CHECKS``, describe its codes in
``docs/checks.md`` (a test holds it).
"""

from collections.abc import Callable, Iterator

from dbops.engine.planning.checks import archive, capacity, clone, pair, source, target, topology
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.plan import Finding

Check = Callable[[PlanInputs], Iterator[Finding]]

#: Of a method that reads a running server.
CHECKS: tuple[Check, ...] = (*topology.CHECKS, *target.CHECKS, *pair.CHECKS, *source.CHECKS, *capacity.CHECKS)
#: Of one that reads a finished backup: the server that made it is not asked.
OF_ARCHIVE: tuple[Check, ...] = (
    *topology.CHECKS,
    *target.CHECKS,
    pair.source_is_another,
    pair.members_of_one_cluster,
    *archive.CHECKS,
    pair.formats_fit,
    pair.clocks_agree,
    source.nothing_lies_outside,
    capacity.target_has_room,
)
#: The formats of the data directory are the target's own there: statements are read in.
OF_DUMP: tuple[Check, ...] = (
    *topology.CHECKS,
    *target.CHECKS,
    pair.source_is_another,
    pair.members_of_one_cluster,
    *archive.OF_A_DUMP,
    pair.clocks_agree,
    capacity.target_has_room,
)
#: Of a clone, which the target's own server makes: no backup tool, and nothing that could outrun the redo log.
OF_CLONE: tuple[Check, ...] = (
    *topology.CHECKS,
    *target.CHECKS,
    pair.source_is_another,
    pair.members_of_one_cluster,
    *clone.CHECKS,
    pair.formats_fit,
    source.source_answers,
    source.source_has_a_fit_role,
    source.source_replicates,
    source.source_can_be_replicated_from,
    source.source_holds_nothing_of_its_own,
    source.binlogs_are_kept,
    source.nothing_lies_outside,
    capacity.target_has_room,
)
CHECKS_OF = {"xbstream": CHECKS, "clone": OF_CLONE, "archive": OF_ARCHIVE, "dump": OF_DUMP}


def run_checks(inputs: PlanInputs, method: str = "xbstream") -> tuple[Finding, ...]:
    """Return every finding of a method's checks, none left out because of another."""
    return tuple(finding for check in CHECKS_OF[method] for finding in check(inputs))
