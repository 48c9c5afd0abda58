"""The server that the copy is compared with, and how far it and the target are in the primary's history."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.channels import read_channels
from dbops.engine.phrases import joined, phrase
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import STATEMENT_SECONDS, Bounded
from dbops.engine.rebuilds.plan import PlannedInstance
from dbops.engine.rebuilds.steps.replicate.replication import is_attached_to, read_link, read_position
from dbops.engine.rebuilds.steps.run import Run

#: A statement of the certificate can read every table's definition: longer than other statements.
READ_SECONDS = 30.0
#: A source that is further behind is no measure for the copy.
MAX_LAG_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ReferenceServer:
    """The compared server. ``is_copied``: it is the copied one, so accounts of its own are the target's, too."""

    database: Database
    party: PlannedInstance
    flavor: Flavor
    is_copied: bool
    is_primary: bool


@contextmanager
def reference_of(run: Run) -> Iterator[ReferenceServer]:
    """Connect to the source if it answers and applies the primary's changes without a delay, else to the primary.

    Raises:
        Unreachable: neither answers.
    """
    plan = run.plan
    is_primary = (plan.source.address, plan.source.port) == (plan.primary.address, plan.primary.port)
    if not is_primary:
        with closing(run.source.connect(READ_SECONDS)) as source:
            if _follows(run, source):
                flavor = _flavor(source, run)
                bounded = Bounded(source, flavor, run.clock)
                yield ReferenceServer(bounded, plan.source, flavor, plan.archive is None, False)
                return
    with closing(run.primary.connect(READ_SECONDS)) as primary:
        flavor = _flavor(primary, run)
        bounded = Bounded(primary, flavor, run.clock)
        yield ReferenceServer(bounded, plan.primary, flavor, is_primary and plan.archive is None, True)


def _follows(run: Run, source: Database) -> bool:
    try:
        link = read_link(source, run.flavor)
    except RemoteFailure:
        return False
    if link is None or not link.is_running or link.lag_seconds is None or link.lag_seconds > MAX_LAG_SECONDS:
        return False
    # without GTID, only a place in the primary's own log says how far it is
    return run.plan.uses_gtid or is_attached_to(link, run.plan.primary)


def connect_again(run: Run, reference: ReferenceServer, longest: float = STATEMENT_SECONDS) -> Bounded:
    """Open one more connection to the compared server, with ``longest`` seconds for a query; the caller closes it."""
    server = run.primary if reference.is_primary else run.source
    return Bounded(server.connect(READ_SECONDS), reference.flavor, run.clock, longest=longest)


def connect_to_target(run: Run, longest: float = STATEMENT_SECONDS) -> Bounded:
    """Open one more connection to the target, as ``connect_again``."""
    return Bounded(run.target.connect(READ_SECONDS), run.flavor, run.clock, longest=longest)


def connect_to_source(run: Run, within: float) -> Bounded:
    """Open a connection to the source for ``within`` seconds, where it is not the compared server; the caller closes it."""
    return Bounded(run.source.connect(READ_SECONDS), run.flavor, run.clock, within=within)


def _flavor(database: Database, run: Run) -> Flavor:
    return flavor_for(version_of(database), run.plan.flavor)


def version_of(database: Database) -> str:
    return str(database.query("SELECT @@version AS version")[0]["version"])


def filters_of(run: Run, target: Database, reference: ReferenceServer) -> str:
    """Return the replication filters of either server, for a sentence; empty without any."""
    found = []
    for name, database, flavor in (
        (run.plan.target.name, target, run.flavor),
        (reference.party.name, reference.database, reference.flavor),
    ):
        for link in read_channels(database, flavor):
            if link.left_out:
                found.append(phrase("{name} has {tables}", name=name, tables=", ".join(sorted(link.left_out))))
    return joined(found, "; ")


def reached_by_reference(run: Run, reference: ReferenceServer) -> str:
    """Return how far the compared server is; empty if that is unknown."""
    if run.plan.uses_gtid:
        executed, logged = read_position(reference.database, reference.flavor)
        # a replica's binary log can lack what it has applied
        return (logged or executed) if reference.is_primary else executed
    if reference.is_primary:
        row = reference.database.query(reference.flavor.show_binlog_position)[0]
        return _place(str(row["File"]), int(row["Position"]))
    return _applied(run, reference.database, reference.flavor)


def reached_by_target(run: Run, target: Database) -> str:
    return read_position(target, run.flavor)[0] if run.plan.uses_gtid else _applied(run, target, run.flavor)


def _applied(run: Run, database: Database, flavor: Flavor) -> str:
    """Return the applied position in the primary's log, empty for a server that follows another one."""
    link = read_link(database, flavor)
    if link is None or not is_attached_to(link, run.plan.primary) or link.exec_source_log_pos is None:
        return ""
    return _place(link.relay_source_log_file, link.exec_source_log_pos)


def _place(log_file: str, log_pos: int) -> str:
    return f"{log_file}:{log_pos:020d}"


def has_reached(run: Run, have: str, want: str) -> bool:
    """Return whether a position covers another one; an unknown one counts as covered."""
    if run.plan.uses_gtid:
        return not run.flavor.gtid_missing(want, have)
    return not (have and want) or have >= want
