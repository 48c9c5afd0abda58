"""A small truthful model of a fleet: machines, directories, servers, and an inventory that may be wrong about all of them.

``World.look`` gives what a probe would see through the inventory's addresses; ``World`` itself knows which directory and
server each name meant at the beginning. The events are what people and failures do to a fleet.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from dbops.engine.facts.instance import Attached, Client, ConfigFacts, InstanceFacts, ProbeProblem, ServerFacts
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from tests.engine import builders

DATADIR, OTHER_DATADIR = "/var/lib/mysql", "/srv/mysql-2"
UUID = "6c4c1c3e-0000-4000-8000-0000000000"
NAMES = {"primary-1": 11, "backup-1": 12, "replica-1": 13, "replica-2": 14}
PRIMARY, SOURCE, TARGET, THIRD = NAMES


@dataclass
class Directory:
    """A data directory. ``truth`` tells whose data it is; ``identity`` is what ``stat`` says, which a copied disk says too."""

    truth: str
    identity: str


@dataclass
class Server:
    """A server. ``follows`` is the truth of the server that it replicates from; ``strangers`` are unlisted
    replicas, ``errant`` counts transactions that exist only there."""

    truth: str
    directory: Directory
    says_datadir: str
    server_id: int
    server_uuid: str
    running: bool = True
    read_only: bool = True
    follows: str = PRIMARY
    strangers: int = 0
    clients: int = 0
    doubled: bool = False
    errant: int = 0


@dataclass
class Machine:
    hostname: str
    machine_id: str
    host_key: str
    directories: dict[str, Directory]
    server: Server


@dataclass
class World:
    """``members`` is the inventory; ``network`` tells which machine has an address."""

    flavor: str = "mariadb"
    machines: dict[str, Machine] = field(default_factory=dict)
    network: dict[str, Machine | None] = field(default_factory=dict)
    members: dict[str, KnownInstance] = field(default_factory=dict)
    last_seen: dict[str, InstanceFacts] = field(default_factory=dict)
    happened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, number in NAMES.items():
            uuid = f"{UUID}{number}" if self.flavor == "mysql" else ""
            directory = Directory(name, f"8:{number}")
            server = Server(name, directory, DATADIR, number, uuid)
            other = Directory(f"{name}, second", f"8:{number}2")
            machine = Machine(
                f"db-{number}",
                f"machine-{number}",
                f"SHA256:{number}",
                {DATADIR: directory, OTHER_DATADIR: other},
                server,
            )
            self.machines[name] = self.network[f"10.0.0.{number}"] = machine
            self.members[name] = builders.member(name, name.partition("-")[0], number, facts=None)
        primary = self.machines[PRIMARY].server
        primary.read_only, primary.follows = False, ""
        for name in NAMES:
            self.last_seen[name] = self.look(name)

    # --- the truth ----------------------------------------------------------------------------------------------------
    @property
    def servers(self) -> list[Server]:
        return [machine.server for machine in self.machines.values()]

    def attached_to(self, server: Server) -> list[Server]:
        return [one for one in self.servers if one.running and one.follows == server.truth]

    def replicas_of(self, server: Server) -> int:
        return len(self.attached_to(server)) + server.strangers if server.running else 0

    def reached(self, name: str) -> Machine | None:
        """Return the machine that SSH to a member ends at: the right address, and the key that is pinned."""
        member = self.members[name]
        machine = self.network.get(member.ssh_address)
        return machine if machine and machine.host_key == member.host_key_fingerprint else None

    # --- what a probe sees --------------------------------------------------------------------------------------------
    def look(self, name: str) -> InstanceFacts:
        """Return what a probe through the inventory's addresses finds now."""
        member, number = self.members[name], NAMES[name]
        machine, answering = self.reached(name), self.network.get(member.address)
        server = answering.server if answering and answering.server.running else None
        return builders.facts(
            number,
            host=self._host_facts(machine, member, number) if machine else None,
            datadir=self._datadir_facts(machine, member.datadir) if machine else None,
            config=self._config(machine, member) if machine else None,
            server=self._server_facts(server, answering) if server and answering else None,
            host_problem=None if machine else ProbeProblem("ssh.unreachable", "no answer, or another key"),
            server_problem=None if server else ProbeProblem("mysql.unreachable", "no answer"),
        )

    def _host_facts(self, machine: Machine, member: KnownInstance, number: int) -> Any:
        tools = {name: builders.Tool(f"/usr/bin/{name}", "10.11.19") for name in builders.PROGRAMS}
        if self.flavor == "mysql":
            tools = {
                name: builders.Tool(f"/usr/bin/{name}", "8.0.40")
                for name in (*builders.PROGRAMS[:6], "mysql", "mysqld", "xbstream")
            } | {"xtrabackup": builders.Tool("/usr/bin/xtrabackup", "8.0.35-31")}
        changes = {"hostname": machine.hostname, "machine_id": machine.machine_id}
        return builders.host(number, local_address=member.ssh_address, tools=tools, **changes)

    def _datadir_facts(self, machine: Machine, path: str) -> Any:
        found = machine.directories.get(path)
        if found is None:
            return builders.datadir(0, path=path, exists=False, identity="", is_empty=True, server_pids=())
        is_used = machine.server.running and machine.server.directory is found
        return builders.datadir(0, path=path, identity=found.identity, server_pids=(100,) if is_used else ())

    def _config(self, machine: Machine, member: KnownInstance) -> ConfigFacts:
        socket = "/run/mysqld/mysqld.sock"
        return ConfigFacts(machine.server.server_id, 3306, socket, machine.server.says_datadir, True, True)

    def _server_facts(self, server: Server, machine: Machine) -> ServerFacts:
        attached = [Attached(one.server_id, "", 3306) for one in self.attached_to(server)]
        attached += [Attached(900 + number, "", None) for number in range(server.strangers)]
        changes: dict[str, Any] = {
            "flavor": self.flavor,
            "version": "10.11.19" if self.flavor == "mariadb" else "8.0.40",
            "server_uuid": server.server_uuid,
            "hostname": machine.hostname,
            "datadir": f"{server.says_datadir}/",
            "read_only": server.read_only,
            "replicas": tuple(attached),
            "clients": tuple(Client("shop", "app", "shop", "Sleep") for _ in range(server.clients)),
            "replication": (builders.link(self._address_of(server.follows)),) if server.follows else (),
        }
        if self.flavor == "mariadb" and server.errant:
            changes["gtid_executed"] = changes["gtid_binlog"] = f"0-{server.server_id}-{100 + server.errant}"
        if self.flavor == "mysql":
            executed = f"{UUID}11:1-100" + (f",{server.server_uuid}:1-{server.errant}" if server.errant else "")
            changes |= {"gtid_executed": executed, "gtid_binlog": "", "version_comment": "MySQL Community Server - GPL"}
        return builders.server(server.server_id, **changes)

    def _address_of(self, truth: str) -> str:
        machine = self.machines[truth]
        return next((address for address, at in self.network.items() if at is machine), "10.9.9.9")

    # --- what a plan is made from -------------------------------------------------------------------------------------
    def inputs(self, live: tuple[str, ...] = tuple(NAMES)) -> PlanInputs:
        """Return what the planner gets: fresh facts of ``live``, of the others what was seen last."""
        for name in live:
            self.last_seen[name] = self.look(name)
        members = {name: replace(member, facts=self.last_seen[name]) for name, member in self.members.items()}
        primary = next((member for member in members.values() if member.role == "primary"), None)
        return PlanInputs(
            target=members[TARGET],
            source=members[SOURCE],
            primary=primary,
            members=tuple(members.values()),
            write_addresses=(),
            now=builders.NOW + timedelta(seconds=1),
            fresh_seconds=60.0,
        )

    def live_names(self) -> tuple[str, ...]:
        """Return the instances probed again just before the work: target, source and the primary at that time."""
        primaries = [name for name, member in self.members.items() if member.role == "primary"]
        return tuple(dict.fromkeys((TARGET, SOURCE, *primaries)))

    def edit(self, name: str, **changes: Any) -> None:
        self.members[name] = replace(self.members[name], **changes)

    def happen(self, event: str, one: str, other: str) -> None:
        self.happened.append(f"{event}({one}, {other})")
        EVENTS[event](self, one, other)


# --- events: each takes the names of two members ----------------------------------------------------------------------
def fail_over(world: World, one: str, other: str) -> None:
    """``one`` becomes the primary; the old one is read-only, or dead, as ``other`` has it. The inventory does not know."""
    chosen = world.machines[one].server
    for server in world.servers:
        server.follows, server.read_only = chosen.truth, True
    chosen.follows, chosen.read_only, chosen.running = "", False, True


def follow_failover(world: World, one: str, other: str) -> None:
    """The inventory's roles are set: ``one`` is the primary."""
    for name, member in world.members.items():
        if member.role == "primary":
            world.edit(name, role="replica")
    world.edit(one, role="primary")


def start_server(world: World, one: str, other: str) -> None:
    world.machines[one].server.running = True


def stop_server(world: World, one: str, other: str) -> None:
    world.machines[one].server.running = False


def take_writes(world: World, one: str, other: str) -> None:
    world.machines[one].server.read_only = False


def write_for_a_moment(world: World, one: str, other: str) -> None:
    """Somebody lifts read_only, writes, and sets it again: what was written is nowhere else."""
    world.machines[one].server.errant += 1


def attach_stranger(world: World, one: str, other: str) -> None:
    world.machines[one].server.strangers += 1


def connect_clients(world: World, one: str, other: str) -> None:
    world.machines[one].server.clients += 1


def replicate_from(world: World, one: str, other: str) -> None:
    world.machines[one].server.follows = world.machines[other].server.truth if one != other else ""


def swap_addresses(world: World, one: str, other: str) -> None:
    first, second = (f"10.0.0.{NAMES[name]}" for name in (one, other))
    world.network[first], world.network[second] = world.network[second], world.network[first]


def reuse_address(world: World, one: str, other: str) -> None:
    """The machine of ``one`` is gone, and its address is given to that of ``other``."""
    world.network[f"10.0.0.{NAMES[one]}"] = world.machines[other]


def lose_machine(world: World, one: str, other: str) -> None:
    world.network[f"10.0.0.{NAMES[one]}"] = None


def edit_ssh_address(world: World, one: str, other: str) -> None:
    world.edit(one, ssh_address=world.members[other].ssh_address)


def edit_address(world: World, one: str, other: str) -> None:
    world.edit(one, address=world.members[other].address)


def edit_both_addresses(world: World, one: str, other: str) -> None:
    edit_ssh_address(world, one, other)
    edit_address(world, one, other)


def edit_datadir(world: World, one: str, other: str) -> None:
    world.edit(one, datadir=OTHER_DATADIR if world.members[one].datadir == DATADIR else DATADIR)


def rename_host(world: World, one: str, other: str) -> None:
    world.edit(one, host=f"{world.members[one].host}-new")


def rename_machine(world: World, one: str, other: str) -> None:
    world.machines[one].hostname += "-new"


def new_host_key(world: World, one: str, other: str) -> None:
    world.machines[one].host_key += "-new"


def accept_host_key(world: World, one: str, other: str) -> None:
    """A person accepts whatever key is shown at the address of ``one``."""
    if machine := world.network.get(world.members[one].ssh_address):
        world.edit(one, host_key_fingerprint=machine.host_key)


def swap_directories(world: World, one: str, other: str) -> None:
    """Somebody renames the two data directories of a machine into each other's names; a running server stays in its own."""
    held = world.machines[one].directories
    swapped = {DATADIR: held.get(OTHER_DATADIR), OTHER_DATADIR: held.get(DATADIR)}
    world.machines[one].directories = {path: directory for path, directory in swapped.items() if directory}


def restore_elsewhere(world: World, one: str, other: str) -> None:
    """The data of ``one`` is replaced by a fresh directory under the same name, and its server runs there."""
    fresh = Directory(f"{one}, restored", f"8:{NAMES[one]}3")
    machine = world.machines[one]
    machine.directories[DATADIR] = machine.server.directory = fresh
    machine.server.says_datadir = DATADIR


def move_datadir(world: World, one: str, other: str) -> None:
    """The server of ``one`` is moved to its machine's second directory."""
    machine = world.machines[one]
    fresh = Directory(f"{one}, moved", f"8:{NAMES[one]}4")
    machine.server.directory = machine.directories.setdefault(OTHER_DATADIR, fresh)
    machine.server.says_datadir = OTHER_DATADIR


def remove_directory(world: World, one: str, other: str) -> None:
    """What is at the usual path of ``one`` is moved out of the way; a running server stays in it."""
    world.machines[one].directories.pop(DATADIR, None)


def duplicate_server_id(world: World, one: str, other: str) -> None:
    world.machines[one].server.server_id = world.machines[other].server.server_id


def duplicate_uuid(world: World, one: str, other: str) -> None:
    world.machines[one].server.server_uuid = world.machines[other].server.server_uuid


def clone_machine(world: World, one: str, other: str) -> None:
    """``one`` is made from a copy of ``other``'s disk: host key, inodes and server ids are the same; the machine is not."""
    source, copy = world.machines[other], world.machines[one]
    copy.host_key = source.host_key
    for path, directory in source.directories.items():
        if path in copy.directories:
            copy.directories[path].identity = directory.identity
    copy.server.server_id, copy.server.server_uuid = source.server.server_id, source.server.server_uuid


def second_server(world: World, one: str, other: str) -> None:
    """A second process is started on the directory of ``one``."""
    world.machines[one].server.doubled = True


EVENTS: dict[str, Callable[[World, str, str], None]] = {
    event.__name__: event
    for event in (
        fail_over,
        follow_failover,
        start_server,
        stop_server,
        take_writes,
        write_for_a_moment,
        attach_stranger,
        connect_clients,
        replicate_from,
        swap_addresses,
        reuse_address,
        lose_machine,
        edit_ssh_address,
        edit_address,
        edit_both_addresses,
        edit_datadir,
        rename_host,
        rename_machine,
        new_host_key,
        accept_host_key,
        swap_directories,
        restore_elsewhere,
        move_datadir,
        remove_directory,
        duplicate_server_id,
        duplicate_uuid,
        clone_machine,
        second_server,
    )
}
#: What happens to an inventory is refused while a rebuild runs (``test_wrong_machine_rows.py``): only the rest comes later.
EDITS = ("follow_failover", "edit_ssh_address", "edit_address", "edit_both_addresses", "edit_datadir", "rename_host")
EDITS += ("accept_host_key",)
