"""What the plan of a load test needs to know: of its source, host and backup, and the limits from the settings."""

from dataclasses import dataclass
from datetime import datetime

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import HostFacts, InstanceFacts
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.prepare import MIB


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An instance on the host of a load test: its server shares disk and CPU.

    ``takes_writes``: it is a primary, or a probe has seen a server that is not read-only: a failover can be newer than the inventory.
    """

    name: str
    cluster: str
    role: str
    takes_writes: bool = False


@dataclass(frozen=True, slots=True)
class LoadTestLimits:
    """Limits from the settings. ``directory``: of scratch directories, empty for beside the backup or the directory of dbops."""

    server_cores: int = 4
    generator_cores: int = 2
    most_pool_bytes: int = 32 * 1024 * MIB
    most_seconds: int = 8 * 3600
    directory: str = ""
    start_seconds: int = 300
    allows_primary_hosts: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """The other host that runs the load generator.

    Attributes:
        host: facts of the host; ``None`` if its last probe did not read it.
        neighbours: the instances on the host.
        busy: what dbops does on the host now, in words; empty for nothing.
        unreachable: why the scratch server's host cannot connect to it; empty if nothing speaks against it.
    """

    host: HostFacts | None
    neighbours: tuple[Neighbour, ...] = ()
    busy: str = ""
    unreachable: str = ""


@dataclass(frozen=True, slots=True)
class LoadTestFacts:
    """Everything that a plan needs to know.

    Attributes:
        flavor: of the scratch server.
        source: facts of the source; ``None`` if its last probe did not read it.
        host: facts of the host; ``None`` if its last probe did not read it.
        work_dir: the directory of dbops on the host.
        free_bytes: free disk on the host where that is known.
        neighbours: the instances on the host.
        busy: what dbops does on the host now, in words; empty for nothing.
        archive: the backup that is restored; ``None`` for an empty server.
        backup_problem: why the wanted backup cannot be used; empty if it can.
        is_backup_there: whether the file of the backup is on the host.
        generator: the load generator's host; ``None`` for the same one.
        now: the time of planning.
    """

    flavor: Flavor
    source: InstanceFacts | None
    host: HostFacts | None
    work_dir: str
    now: datetime
    free_bytes: int | None = None
    neighbours: tuple[Neighbour, ...] = ()
    busy: str = ""
    archive: Archive | None = None
    backup_problem: str = ""
    is_backup_there: bool = True
    generator: GeneratorFacts | None = None
