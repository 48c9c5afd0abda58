"""What a plan is made from: the inventory's words, the latest facts, and this fleet's own history."""

from dataclasses import dataclass, field
from datetime import datetime

from dbops.engine.facts import InstanceFacts, ServerFacts
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.plan import Party
from dbops.engine.topology.differences import OpenDifference

#: Copy rate assumed where a limit must be judged and nothing was measured yet: slow on purpose.
CAUTIOUS_BYTES_PER_SECOND = 100 * 1024**2


@dataclass(frozen=True, slots=True)
class Member:
    """One instance: what the inventory says and what the last probe found."""

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

    @property
    def server(self) -> ServerFacts | None:
        return self.facts.server if self.facts else None

    @property
    def flavor(self) -> Flavor | None:
        """Return the flavor of the running server, ``None`` where it did not answer."""
        return flavor_for(self.server.version, self.server.flavor) if self.server else None

    def party(self) -> Party:
        facts, server = self.facts, self.server
        return Party(
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
        )


@dataclass(frozen=True, slots=True)
class History:
    """What this fleet's own rebuilds measured: bytes a second by step where the work follows the bytes, seconds elsewhere."""

    bytes_per_second: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """All that ``build_plan`` looks at. ``members`` are all instances of the fleet, of every cluster.

    ``differences`` are the confirmed ones of the target's cluster that nobody has accepted.
    """

    target: Member
    source: Member
    primary: Member | None
    members: tuple[Member, ...]
    write_addresses: tuple[str, ...]
    now: datetime
    fresh_seconds: float
    max_lag_seconds: float = 60.0
    keep_old_data: bool = False
    run_id: str = "RUN"
    replication_user: str = ""
    history: History = field(default_factory=History)
    differences: tuple[OpenDifference, ...] = ()

    @property
    def bytes_to_copy(self) -> int | None:
        """What the backup tool will send: measured on the source's disk, else what InnoDB says."""
        facts = self.source.facts
        if facts and facts.datadir and facts.datadir.data_bytes is not None:
            return facts.datadir.data_bytes
        return self.source.server.innodb_bytes if self.source.server else None

    def predict(self, step: str) -> float | None:
        """Return the expected seconds of a step from this fleet's history, ``None`` where there is none."""
        if (rate := self.history.bytes_per_second.get(step)) and self.bytes_to_copy is not None:
            return self.bytes_to_copy / rate
        return self.history.seconds.get(step)

    @property
    def cautious_copy_seconds(self) -> float | None:
        """Expected seconds of the copy for judging limits: from history, else at a slow assumed rate."""
        if self.bytes_to_copy is None:
            return None
        return self.predict("stream") or self.bytes_to_copy / CAUTIOUS_BYTES_PER_SECOND
