"""The inventory's instances of one cluster with their facts, and who of them is at the other end of a connection."""

from dataclasses import dataclass
from datetime import datetime

from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import Attached, InstanceFacts, ReplicationFacts, ServerFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.states import Role
from dbops.engine.topology.nodes import seen_from


@dataclass(frozen=True, slots=True)
class StoredInstance:
    """One instance of the inventory with the latest facts. ``aliases`` are other hosts' names for its address.

    ``known_as`` is the identity that it had when a person or a rebuild of ours last said that it is right; ``is_ours`` tells that
    a rebuild of ours changes it right now. ``known_files`` are the files that its data was in then (``DatadirFacts.files``), ``lost_gtid``
    is what of its GTID history it had once and lost since.
    """

    name: str
    role: str
    address: str
    port: int
    facts: InstanceFacts | None
    aliases: tuple[str, ...] = ()
    known_as: str = ""
    is_ours: bool = False
    known_files: str = ""
    lost_gtid: str = ""

    @property
    def server(self) -> ServerFacts | None:
        return self.facts.server if self.facts else None

    @property
    def files(self) -> str:
        """What names the files of its data now; ``""`` where that was not read."""
        return self.facts.datadir.files if self.facts and self.facts.datadir else ""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """A cluster's instances, and from when on facts count as fresh. ``addresses`` is where applications write (``host[:port]``)."""

    members: tuple[StoredInstance, ...]
    fresh_since: datetime
    addresses: tuple[str, ...] = ()

    @property
    def primary(self) -> StoredInstance | None:
        return next((item for item in self.members if item.role == Role.PRIMARY), None)

    def is_read(self, member: StoredInstance) -> bool:
        """Tell whether the server was read, freshly, and is not in the hands of a rebuild of ours."""
        facts = member.facts
        return bool(facts and facts.server and facts.observed_at >= self.fresh_since and not member.is_ours)

    def server(self, member: StoredInstance) -> ServerFacts | None:
        return member.server if self.is_read(member) else None

    def is_silent(self, member: StoredInstance) -> bool:
        """Tell whether the server was asked, freshly, and did not answer."""
        facts = member.facts
        return bool(facts and facts.server is None and facts.server_problem and facts.observed_at >= self.fresh_since)

    def source_of(self, member: StoredInstance, link: ReplicationFacts) -> StoredInstance | None:
        """Return the member that a connection leads to: because both of its ends say so, else by address."""
        others = [other for other in self.members if other is not member]
        if link.io_running == "Yes" and (
            found := next((one for one in others if self._is_end(one, member, link)), None)
        ):
            return found
        host = seen_from(member.address, link.source_host).casefold()
        for other in others:
            names = {other.address.casefold(), *(alias.casefold() for alias in other.aliases)}
            if host in names and link.source_port == other.port:
                return other
        primary = self.primary
        return primary if primary is not member and self._is_write_address(host, link.source_port) else None

    def _is_end(self, one: StoredInstance, member: StoredInstance, link: ReplicationFacts) -> bool:
        """A uuid is proof. A server id is none, as clusters use the same ones, unless the other end tells of this replica too."""
        server = self.server(one)
        if server is None or member.server is None:
            return False
        if server.server_uuid or link.source_uuid:
            return server.server_uuid == link.source_uuid
        is_attached = member.server.server_id in {item.server_id for item in server.replicas}
        return is_attached and link.source_server_id == server.server_id

    def could_be(self, member: StoredInstance, link: ReplicationFacts) -> bool:
        """Tell whether a member that was not read now may be where a connection leads, by what was known of it before."""
        config = member.facts.config if member.facts else None
        known = {member.known_as, f"server id {config.server_id}" if config and config.server_id else ""} - {""}
        return not known or bool(known & {link.source_uuid, f"server id {link.source_server_id}"})

    def _is_write_address(self, host: str, port: int) -> bool:
        words = {address.casefold() for address in self.addresses}
        return bool({host, f"{host}:{port}", f"[{host}]:{port}"} & words)

    def owner_of(self, attached: Attached) -> StoredInstance | None:
        """Return the member that an attached replica is, also by what was known of it before."""
        for member in self.members:
            config = member.facts.config if member.facts else None
            ids = {member.server.server_id if member.server else None, config.server_id if config else None}
            if attached.server_id in ids - {None} or (attached.host, attached.port) == (member.address, member.port):
                return member
        return None


def identity_of(server: ServerFacts) -> str:
    """Return what a server is known by: its uuid, or on MariaDB its server id."""
    return server.server_uuid or f"server id {server.server_id}"


def transactions_lost(server: ServerFacts, seen: str) -> str:
    """Return what a server had and does not have any more: a GTID set or position, ``""`` where it has all of it, or uses none.

    Args:
        seen: the GTID set or position that was read before, of whatever flavor answered then.
    """
    if not seen or seen == server.gtid_executed:
        return ""
    try:
        return flavor_for(server.version, server.flavor).gtid_missing(seen, server.gtid_executed)
    except DbopsError:  # another flavor's words: the difference of identity tells of it
        return ""
