"""Collect the inputs of a plan: the inventory, the latest facts, and the fleet's own history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dbops.engine.backups.archives import Archive, newest
from dbops.engine.backups.restore_test_ends import RestoreTestEnd
from dbops.engine.facts.instance import InstanceFacts, ReplicationFacts, ServerFacts
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.planning.step_estimates import COPY, StepEstimate, StepHistory
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import PlannedInstance
from dbops.engine.schedule.conflicts import MethodTraits
from dbops.engine.states import BackupMethod
from dbops.engine.topology.differences import OpenDifference
from dbops.engine.tuning.doublewrite import Attestation
from dbops.engine.tuning.transport import MeasuredLink

#: Assumed copy rate for judging a limit without a measurement. It is deliberately low.
CAUTIOUS_BYTES_PER_SECOND = 100 * 1024**2


@dataclass(frozen=True, slots=True)
class KnownInstance:
    """One instance: its inventory entry and the facts of its last probe."""

    name: str
    cluster: str
    role: str
    host: str
    host_key_fingerprint: str
    ssh_address: str
    ssh_port: int
    ssh_user: str
    address: str
    port: int
    datadir: str
    defaults_file: str
    os_user: str
    start_command: str
    stop_command: str
    facts: InstanceFacts | None = None
    group_suffix: str = ""
    #: the name in its host certificate, which proves it; empty: the pinned key does
    certificate_name: str = ""
    #: how replication is wanted, whatever it was: ``""`` or ``None`` keeps it
    replication_tls: str = ""
    replication_tls_ca: str = ""
    replication_delay_seconds: int | None = None
    #: users whose password goes to the server's socket and opens an instance on another host, too; ``None``: not looked up
    shared_logins: tuple[str, ...] | None = None
    #: what a person attested of its storage; looked up for a target only
    attestation: Attestation | None = None

    @property
    def server(self) -> ServerFacts | None:
        return self.facts.server if self.facts else None

    @property
    def flavor(self) -> Flavor | None:
        """Return the flavor of the running server, ``None`` if it did not answer."""
        return flavor_for(self.server.version, self.server.flavor) if self.server else None

    def party(self) -> PlannedInstance:
        facts, server = self.facts, self.server
        return PlannedInstance(
            name=self.name,
            role=self.role,
            host=self.host,
            host_key_fingerprint=self.host_key_fingerprint,
            ssh_address=self.ssh_address,
            ssh_port=self.ssh_port,
            ssh_user=self.ssh_user,
            address=self.address,
            port=self.port,
            datadir=facts.datadir.path
            if facts and facts.datadir and facts.datadir.exists
            else self.datadir.rstrip("/"),
            datadir_identity=facts.datadir.identity if facts and facts.datadir else "",
            defaults_file=self.defaults_file,
            os_user=self.os_user,
            configured_server_id=facts.config.server_id if facts and facts.config else None,
            start_command=self.start_command,
            stop_command=self.stop_command,
            is_answering=server is not None,
            socket=(server.socket if server else None)
            or (facts.config.socket if facts and facts.config else None)
            or "",
            local_address=facts.host.local_address if facts and facts.host else "",
            machine=f"{facts.host.hostname} {facts.host.machine_id}".strip() if facts and facts.host else "",
            server_id=server.server_id if server else None,
            server_uuid=server.server_uuid if server else "",
            version=server.version if server else "",
            group_suffix=self.group_suffix,
            certificate_name=self.certificate_name,
        )


def connections_of(target: KnownInstance) -> tuple[ReplicationFacts, ...] | None:
    """Return the target's connections now, or when it was last seen; ``None`` if it was never seen."""
    if target.server:
        return target.server.replication
    return target.facts.replication_seen if target.facts else None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """All inputs of ``build_plan``. ``members``: all instances of the fleet, of every cluster.

    ``differences``: confirmed topology differences of the target's cluster that no person has accepted. ``archives``: readable finished
    backups of the cluster. ``restore_tests``: by run, the last conclusive restore test. ``histories``: measurements of the cluster's
    rebuilds, by method; ``history``: those of the requested method. ``fleet`` and ``others``: the same for all other clusters.
    ``link``: the measurement between the two hosts. ``unrestored``: how the target replicated before a rebuild that changed it and did
    not succeed; ``None`` without such a rebuild. ``source_differs``: the rebuild of the source whose comparison of all rows found
    differences; ``None`` if none did. ``last_write_lock_seconds``: for how long writes on the source waited for the backup tool when it
    last ran there; ``None`` if that is unknown. ``load_tests``: those that run on the hosts of target and source, in words.
    """

    target: KnownInstance
    source: KnownInstance
    primary: KnownInstance | None
    members: tuple[KnownInstance, ...]
    write_addresses: tuple[str, ...]
    now: datetime
    fresh_seconds: float
    max_lag_seconds: float = 60.0
    keep_old_data: bool = False
    certificate_seconds: int = 120
    full_certificate: bool = False
    run_id: str = "RUN"
    replication_user: str = ""
    relaxes: bool = True
    history: StepHistory = field(default_factory=StepHistory)
    differences: tuple[OpenDifference, ...] = ()
    archives: tuple[Archive, ...] = ()
    restore_tests: Mapping[int, RestoreTestEnd] = field(default_factory=dict)
    histories: Mapping[str, StepHistory] = field(default_factory=dict)
    others: StepHistory = field(default_factory=StepHistory)
    fleet: Mapping[str, StepHistory] = field(default_factory=dict)
    archive: Archive | None = None
    link: MeasuredLink | None = None
    unrestored: KeptReplication | None = None
    source_differs: int | None = None
    load_tests: tuple[str, ...] = ()
    last_write_lock_seconds: float | None = None

    def by(self, method: MethodTraits) -> "PlanInputs":
        """Return the inputs for one method: its own history, and the backup that it would read."""
        return replace(
            self,
            history=self.histories.get(method.name, self.history),
            others=self.fleet.get(method.name, self.others),
            archive=archive_for(method, self.archives, source=self.source.name, restore_tests=self.restore_tests),
        )

    @property
    def newer_archives(self) -> tuple[Archive, ...]:
        """Return newer backups of the same instance and method than the one that is read, the newest first."""
        read = self.archive
        if read is None:
            return ()
        alike = [one for one in self.archives if (one.instance, one.method) == (read.instance, read.method)]
        newer = [one for one in alike if (one.taken_at, one.run) > (read.taken_at, read.run)]
        return tuple(sorted(newer, key=lambda one: (one.taken_at, one.run), reverse=True))

    @property
    def flavor(self) -> Flavor | None:
        """Return the flavor of the data that is copied; ``None`` if neither a server nor a backup names it."""
        if self.archive:
            return flavor_for(self.archive.version, self.archive.flavor)
        return self.source.flavor

    @property
    def formats_of(self) -> ServerFacts | None:
        """Return the server whose data formats the copy has: the source, or the primary if the backup's server does not answer."""
        server = self.source.server
        return server or (self.primary.server if self.archive and self.primary else None)

    @property
    def redo_capacity_bytes(self) -> int | None:
        """Return the redo capacity of the source's server, else of the primary: the source may be down when its backup is read."""
        server = self.source.server or (self.primary.server if self.primary else None)
        return server.redo_capacity_bytes if server else None

    @property
    def bytes_to_copy(self) -> int | None:
        return bytes_to_copy(self.source, self.archive)

    @property
    def bytes_of_data(self) -> int | None:
        return bytes_of_data(self.source, self.archive)

    def predict(self, step: str, *, age_seconds: float | None = None) -> StepEstimate | None:
        """Return a step's duration from the cluster's own rebuilds, else from other clusters; ``None`` without any.

        Args:
            age_seconds: age of the data at the begin of the step, ``None`` if unknown.
        """
        size = self.bytes_to_copy
        if own := self.history.expect(step, bytes_to_copy=size, age_seconds=age_seconds):
            return StepEstimate(own)
        others = self.others.of_any_size().expect(step, bytes_to_copy=size, age_seconds=age_seconds)
        return StepEstimate(others, is_of_others=True) if others else None

    @property
    def cautious_copy_seconds(self) -> float | None:
        """Return the expected seconds of the copy for judging limits: from the cluster's own history, else at a slow assumed rate.

        Other clusters do not count: their machines may be faster, and dbops would underestimate the time.
        """
        size = self.bytes_to_copy
        if size is None:
            return None
        copy = self.history.expect(COPY, bytes_to_copy=size, age_seconds=None)
        return copy.p50_seconds if copy else size / CAUTIOUS_BYTES_PER_SECOND


def archive_for(
    method: MethodTraits,
    archives: Iterable[Archive],
    *,
    source: str,
    restore_tests: Mapping[int, RestoreTestEnd] | None = None,
) -> Archive | None:
    """Return the finished backup of an instance that a method would read, ``None`` if there is none or it reads a server.

    Args:
        archives: of any instances and methods.
        source: name of the instance.
        restore_tests: by run, the last conclusive restore test.
    """
    kind = method.reads.backup
    return newest(archives, instance=source, method=kind, restore_tests=restore_tests) if kind else None


def bytes_to_copy(source: KnownInstance, archive: Archive | None) -> int | None:
    """Return the bytes to unpack: measured on the source's disk, else by InnoDB; for a backup, by its tool; for a dump, its file."""
    if archive and archive.method is BackupMethod.DUMP:
        return archive.bytes
    return bytes_of_data(source, archive)


def bytes_of_data(source: KnownInstance, archive: Archive | None) -> int | None:
    """Return the disk size of the data: at the time of the backup, or on the source now."""
    if archive and archive.data_bytes is not None:
        return archive.data_bytes
    facts = source.facts
    if facts and facts.datadir and facts.datadir.data_bytes is not None:
        return facts.datadir.data_bytes
    return source.server.innodb_bytes if source.server else None
