"""Decide whether the target goes back to the intermediate replica that it followed, or why not."""

from dataclasses import dataclass

from dbops.engine.phrases import phrase
from dbops.engine.planning.inputs import KnownInstance, PlanInputs, connections_of

#: An intermediate replica that is further behind is not healthy.
MAX_LAG_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Intermediate:
    """The server between the primary and the target.

    ``address`` is ``host:port``. ``member`` is ``None`` if the inventory does not have it. ``problem`` says why the target cannot go
    back to it, ``""`` if it can.
    """

    address: str
    member: KnownInstance | None
    problem: str

    @property
    def name(self) -> str:
        return self.member.name if self.member else self.address

    @property
    def returns_to(self) -> KnownInstance | None:
        """The member that the target goes back to."""
        return None if self.problem else self.member


def intermediate_of(inputs: PlanInputs) -> Intermediate | None:
    """Return the server that the target followed, ``None`` if that is the primary, or unknown."""
    followed, primary = _followed(inputs), inputs.primary
    if primary is None or followed is None:
        return None
    address, number = followed
    known = primary.server.server_id if primary.server else None
    if address == _address(primary) or (number is not None and number == known):
        return None
    found = [member for member in inputs.members if _is(member, address, number)]
    member = found[0] if len(found) == 1 else None
    return Intermediate(address, member, _problem(inputs, primary, member))


def _followed(inputs: PlanInputs) -> tuple[str, int | None] | None:
    """Return address and server id of the server that the target followed, before a rebuild that did not succeed."""
    if inputs.unrestored:
        return (inputs.unrestored.followed, None) if inputs.unrestored.followed else None
    links = connections_of(inputs.target)
    return (f"{links[0].source_host}:{links[0].source_port}", links[0].source_server_id) if links else None


def _address(member: KnownInstance) -> str:
    return f"{member.address}:{member.port}"


def _is(member: KnownInstance, address: str, number: int | None) -> bool:
    by_number = number is not None and member.server is not None and member.server.server_id == number
    return _address(member) == address or by_number


def _problem(inputs: PlanInputs, primary: KnownInstance, member: KnownInstance | None) -> str:
    if member is None or member.cluster != inputs.target.cluster or member.name == inputs.target.name:
        return phrase("it is no other instance of the cluster")
    server = member.server
    if server is None:
        return phrase("its server does not answer")
    if not server.read_only:
        return phrase("it accepts writes")
    if not (server.log_bin and server.log_replica_updates):
        return phrase("it does not log what it replicates")
    if not all(one and one.gtid_enabled for one in (server, primary.server, inputs.source.server or server)):
        return phrase("a position in another server's log is known by GTID only")
    if server.stored and server.stored.binlog_filters:
        return phrase("its binary log leaves out databases")
    [link, *more] = server.replication or (None,)
    if more or link is None or f"{link.source_host}:{link.source_port}" != _address(primary):
        return phrase("it does not replicate from the primary alone")
    if link.left_out:
        return phrase("it has replication filters")
    if not link.is_running or link.lag_seconds is None or link.lag_seconds > MAX_LAG_SECONDS:
        return phrase("its replication does not keep up")
    return ""
