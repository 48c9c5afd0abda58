"""Plan a restore test before it starts: file, scratch directory, limits and command lines."""

from dataclasses import dataclass

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import HostFacts, ServerFacts, Tool
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.dump_load import load_server_options
from dbops.engine.flavors.prepare import MIB
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.tuning.prepare import GIB, PrepareOptions, PrepareReason, choose

#: The test job and the removal job on the host.
JOB, REMOVAL = "restore-test", "restore-test-remove"
#: The kind of scratch directories.
KIND = "restore-test"
#: Free space beyond the data: temporary tables, undo logs, and a new redo log.
SPACE_MARGIN, SPACE_LEAST_BYTES = 1.1, 512 * MIB
#: Compressed size of unmeasured data: zstd seldom shrinks a database below this share.
RATIO_UNKNOWN = 6
#: The scratch server reads each table once, so a larger buffer pool would not be faster.
POOL_BYTES = 128 * MIB
#: Memory of a process beyond its pool, and address space beyond that for stacks and mapped libraries.
BESIDE_POOL_BYTES, ADDRESSES_BYTES = 256 * MIB, 3 * GIB
#: Memory limit of the preparation, whatever the redo log: other servers share this host.
PREPARE_MOST_BYTES = 4 * GIB
#: Used if the source's server does not answer.
REDO_CAPACITY_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class RestoreTestLimits:
    """Limits of a restore test on its host.

    ``directory`` holds the scratch directories; empty means beside the backup, or in the directory of dbops on
    another host.
    """

    cores: int = 2
    directory: str = ""
    start_seconds: int = 300


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """The file is on another host.

    ``machine`` is that host's name and machine id; ``pull`` are the arguments of ssh on the test host, ``place`` a
    directory of dbops there.
    """

    holder: str
    machine: str
    pull: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class RestoreTestPlan:
    """Everything that a restore test will do.

    Command lines are without their programs: the host has one of each list, best first. ``machine`` is name and
    machine id. ``holder`` is the host with the file, and ``transport`` ssh's arguments to it, both empty if it is the
    test host. ``needed_bytes`` must be free in ``place``, ``needed_memory_bytes`` in memory. ``most_memory_bytes`` is
    the limit of each process.
    """

    restore_test: str
    source: str
    run_uid: str
    path: str
    bytes: int
    sha256: str
    machine: str
    place: str
    owner: str
    needed_bytes: int
    needed_memory_bytes: int
    most_memory_bytes: int
    cores: int
    start_seconds: int
    prepared_type: str
    unpackers: tuple[str, ...]
    tools: tuple[str, ...]
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    checkpoints: tuple[str, ...]
    unpack: tuple[str, ...]
    prepare: tuple[str, ...]
    server: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    holder: str = ""
    holder_machine: str = ""
    transport: tuple[str, ...] = ()
    kind: str = KIND

    @property
    def scratch(self) -> str:
        return f"{self.place.rstrip('/')}/.dbops-{self.kind}-{self.restore_test}"

    @property
    def sockets(self) -> str:
        return f"/tmp/dbops-{self.kind}-{self.restore_test}"  # noqa: S108 - a fixed name would not be shorter

    @property
    def commands(self) -> tuple[tuple[str, str], ...]:
        """Return the command lines by step."""
        if not self.servers:
            return ()
        server = [self.servers[0], "--no-defaults", *self.server, f"--datadir={self.scratch}/data"]
        start = ("start", f"{show(server)} --socket={self.sockets}/run/s")
        if not self.path:
            return (start,)
        source = f"{show([*self.transport, 'backup'])} | zstd -d -c" if self.transport else f"zstd -d -c < {self.path}"
        return (
            ("unpack", f"{source} | {show([self.unpackers[0], *self.unpack])}"),
            ("prepare", show([self.tools[0], *self.prepare])),
            start,
        )

    def arguments(self) -> list[str]:
        """Return the arguments of ``read_copy_arguments`` on the host."""
        lists = (self.unpackers, self.tools, self.servers, self.clients, self.checkpoints)
        words = (self.unpack, self.prepare, self.server, self.transport)
        numbers = (self.needed_bytes, self.needed_memory_bytes, self.most_memory_bytes, self.cores, self.start_seconds)
        return [
            *(
                self.machine,
                self.path,
                str(self.bytes),
                self.run_uid,
                self.sha256,
                self.place,
                self.restore_test,
                self.owner,
            ),
            *(str(number) for number in numbers),
            self.prepared_type,
            *(" ".join(names) for names in lists),
            *(str(len(one)) for one in words),
            *(word for one in words for word in one),
        ]


def plan_restore_test(
    restore_test: str,
    archive: Archive,
    host: HostFacts,
    *,
    owner: str,
    limits: RestoreTestLimits,
    server: ServerFacts | None,
    elsewhere: RemoteFile | None = None,
    kind: str = KIND,
) -> RestoreTestPlan:
    """Plan one restore test.

    Args:
        restore_test, archive: its id on the host (hexadecimal), and the backup.
        host: facts of the host, from a probe of this moment.
        owner, limits: the account whose server would own the data; limits from the settings.
        server: facts of the source if it answers: the redo capacity, and how it writes table names.
        elsewhere, kind: where the file is, if on another host; the kind of the scratch directories, as another job has its own.

    Raises:
        Refused: ``flavor.unknown``, ``flavor.unsupported``, ``restore_test.memory``, or ``restore_test.tool`` (it does not fit).
    """
    flavor = flavor_for(archive.version, archive.flavor)
    place = limits.directory or (elsewhere.place if elsewhere else archive.path.rpartition("/")[0])
    data = f"{place.rstrip('/')}/.dbops-{kind}-{restore_test}/data"
    tool = _tool_of(archive, host, flavor, must_fit=elsewhere is not None)
    preparing = _choose_preparing(flavor, tool, host, limits, server)
    memory = min(preparing.memory_bytes, PREPARE_MOST_BYTES)
    needed_memory = _checked_memory(archive, host, max(memory, POOL_BYTES) + BESIDE_POOL_BYTES)
    return RestoreTestPlan(
        restore_test=restore_test,
        source=archive.instance,
        run_uid=archive.uid,
        path=archive.path,
        bytes=archive.bytes,
        sha256=archive.sha256,
        machine=machine_of(host),
        place=place or "/",
        owner=owner,
        needed_bytes=_bytes_needed(archive),
        needed_memory_bytes=needed_memory,
        most_memory_bytes=needed_memory + ADDRESSES_BYTES,
        cores=max(1, min(limits.cores, host.cpu_count)),
        start_seconds=limits.start_seconds,
        prepared_type=flavor.prepared_type,
        unpackers=flavor.unpack_programs,
        tools=flavor.backup_programs,
        servers=flavor.server_programs,
        clients=flavor.client_programs,
        checkpoints=flavor.metadata_files["checkpoints"],
        unpack=tuple(flavor.unpack_command("tool", data, parallel=1)[1:]),
        prepare=tuple(flavor.prepare_command("tool", data, memory_bytes=memory, options=preparing.options)[1:]),
        server=tuple(_server_options(flavor, server)),
        reasons=preparing.reasons,
        holder=elsewhere.holder if elsewhere else "",
        holder_machine=elsewhere.machine if elsewhere else "",
        transport=elsewhere.pull if elsewhere else (),
        kind=kind,
    )


def _choose_preparing(
    flavor: Flavor, tool: Tool | None, host: HostFacts, limits: RestoreTestLimits, server: ServerFacts | None
) -> PrepareOptions:
    ground = PrepareReason(
        free_bytes=host.memory_available_bytes,
        cpu_count=min(limits.cores, host.cpu_count),
        redo_capacity_bytes=server.redo_capacity_bytes if server else REDO_CAPACITY_BYTES,
    )
    return choose(flavor.prepare_habits(tool.version if tool else None), ground)


def _bytes_needed(archive: Archive) -> int:
    size = archive.data_bytes or archive.bytes * RATIO_UNKNOWN
    return int(size * SPACE_MARGIN) + SPACE_LEAST_BYTES


def machine_of(host: HostFacts) -> str:
    """Return name and machine id of a host, in the form that ``must_be_machine`` compares."""
    return f"{host.hostname} {host.machine_id}".strip()


def _checked_memory(archive: Archive, host: HostFacts, needed: int) -> int:
    """Return the needed bytes of memory. Raises ``Refused`` if the host has fewer."""
    if host.memory_available_bytes >= needed:
        return needed
    raise Refused(
        "restore_test.memory",
        phrase("Planning the restore test of {path}", path=archive.path),
        cause=phrase(
            "{hostname} has {memory_available_bytes} MiB of free memory; {needed} MiB are required",
            hostname=host.hostname,
            memory_available_bytes=host.memory_available_bytes // MIB,
            needed=needed // MIB,
        ),
    )


def _tool_of(archive: Archive, host: HostFacts, flavor: Flavor, *, must_fit: bool) -> Tool | None:
    """Return the host's backup tool. On a chosen test host its version must fit the backup."""
    tool = next((host.tools[name] for name in flavor.backup_programs if name in host.tools), None)
    problem = (
        flavor.tool_problem(tool.version)
        if tool
        else phrase("none of {backup_programs} is installed", backup_programs=", ".join(flavor.backup_programs))
    )
    if not (must_fit and problem):
        return tool
    raise Refused(
        "restore_test.tool",
        phrase("Planning the restore test of {path}", path=archive.path),
        cause=phrase("on {hostname}: {problem}", hostname=host.hostname, problem=problem),
    )


def _server_options(flavor: Flavor, server: ServerFacts | None) -> list[str]:
    """Return the options of the scratch server: no network, accounts, replication or events, and little memory.

    Without grant tables the server loads no plugins or functions of the restored data. Options that some versions
    don't know are ``loose``.
    """
    words = [
        *load_server_options(flavor, memory_bytes=POOL_BYTES),
        *("--skip-grant-tables", "--loose-event-scheduler=OFF", "--loose-performance-schema=OFF", "--loose-mysqlx=OFF"),
        *("--key-buffer-size=8M", "--loose-aria-pagecache-buffer-size=16M", "--max-connections=10"),
        *("--table-open-cache=64", "--loose-innodb-fast-shutdown=2", "--loose-innodb-buffer-pool-load-at-startup=OFF"),
    ]
    return [*words, f"--lower-case-table-names={server.lower_case_table_names}"] if server else words
