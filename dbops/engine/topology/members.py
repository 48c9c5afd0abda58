"""The inventory's instances of one cluster with their facts, and the matching of connections to them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from dbops.engine.errors import DbopsError
from dbops.engine.facts.instance import Attached, InstanceFacts, ReplicationFacts, ServerFacts
from dbops.engine.flavors import flavor_for
from dbops.engine.states import Role
from dbops.engine.topology.nodes import seen_from


@dataclass(frozen=True, slots=True)
class StoredInstance:
    """One instance of the inventory with the latest facts. ``aliases`` are other hosts' names for its address.

    ``known_as`` is the identity that a person or a rebuild by dbops last confirmed; ``is_ours``: a rebuild by dbops is changing
    it now. ``known_files`` are its data files at that time (``DatadirFacts.files``); ``lost_gtid`` is the GTID history that it
    had and has lost.
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
        """Return the identity of its current data files; ``""`` if unknown."""
        return self.facts.datadir.files if self.facts and self.facts.datadir else ""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """A cluster's instances, and from when to when their facts are fresh: not old, and not of the future.

    ``addresses`` are the write addresses of applications (``host[:port]``).
    """

    members: tuple[StoredInstance, ...]
    fresh_since: datetime
    addresses: tuple[str, ...] = ()
    fresh_until: datetime = datetime.max.replace(tzinfo=UTC)

    def is_fresh(self, facts: InstanceFacts) -> bool:
        return self.fresh_since <= facts.observed_at <= self.fresh_until

    @property
    def primary(self) -> StoredInstance | None:
        return next((item for item in self.members if item.role == Role.PRIMARY), None)

    def is_read(self, member: StoredInstance) -> bool:
        """Return whether the server has fresh facts, and dbops is not rebuilding it."""
        facts = member.facts
        return bool(facts and facts.server and self.is_fresh(facts) and not member.is_ours)

    def server(self, member: StoredInstance) -> ServerFacts | None:
        return member.server if self.is_read(member) else None

    def is_silent(self, member: StoredInstance) -> bool:
        """Return whether the server was probed recently and did not answer."""
        facts = member.facts
        return bool(facts and facts.server is None and facts.server_problem and self.is_fresh(facts))

    def source_of(self, member: StoredInstance, link: ReplicationFacts) -> StoredInstance | None:
        """Return the member at the other end of a connection: by the identity that both ends report, else by address."""
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
        """Return whether a member is the other end. A uuid suffices; a server id does not, because clusters use the same ones,
        unless the other end also lists this replica.
        """
        server = self.server(one)
        if server is None or member.server is None:
            return False
        if server.server_uuid or link.source_uuid:
            return server.server_uuid == link.source_uuid
        is_attached = member.server.server_id in {item.server_id for item in server.replicas}
        return is_attached and link.source_server_id == server.server_id

    def could_be(self, member: StoredInstance, link: ReplicationFacts) -> bool:
        """Return whether a member without facts may be the other end of a connection, by its earlier facts."""
        config = member.facts.config if member.facts else None
        known = {member.known_as, f"server id {config.server_id}" if config and config.server_id else ""} - {""}
        return not known or bool(known & {link.source_uuid, f"server id {link.source_server_id}"})

    def _is_write_address(self, host: str, port: int) -> bool:
        words = {address.casefold() for address in self.addresses}
        return bool({host, f"{host}:{port}", f"[{host}]:{port}"} & words)

    def owner_of(self, attached: Attached) -> StoredInstance | None:
        """Return the member that is an attached replica, also by earlier facts."""
        for member in self.members:
            config = member.facts.config if member.facts else None
            ids = {member.server.server_id if member.server else None, config.server_id if config else None}
            if attached.server_id in ids - {None} or (attached.host, attached.port) == (member.address, member.port):
                return member
        return None


def identity_of(server: ServerFacts) -> str:
    """Return a server's identity: its uuid, or on MariaDB its server id."""
    return server.server_uuid or f"server id {server.server_id}"


def is_of_another(facts: InstanceFacts, others: Collection[str], *, was_known: bool) -> bool:
    """Return whether the server that answers may be another instance's.

    Args:
        others: the identities of the cluster's other instances.
        was_known: this instance had an identity, so an unread option file is no reason to give it a new one.
    """
    server, config = facts.server, facts.config
    if server is None or identity_of(server) in others:
        return True
    if config is None or config.server_id is None:
        return was_known
    return config.server_id != server.server_id


def transactions_lost(server: ServerFacts, seen: str) -> str:
    """Return the transactions that a server had and has lost: a GTID set or position; ``""`` if none, or without GTID.

    Args:
        seen: the GTID set or position of an earlier probe, of the flavor at that time.
    """
    if not seen or seen == server.gtid_executed:
        return ""
    try:
        return flavor_for(server.version, server.flavor).gtid_missing(seen, server.gtid_executed)
    except DbopsError:  # another flavor's format: the difference of identity covers it
        return ""
