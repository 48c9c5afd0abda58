"""Plan a backup run before it starts: machine, server, commands and file."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import InstanceFacts, ServerFacts, Tool
from dbops.engine.flavors import Flavor, engines, flavor_for
from dbops.engine.flavors.base import BackupRequest
from dbops.engine.flavors.dumps import dump_options, dump_problem, dump_program, dump_programs, missing_for_dump
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.states import BackupMethod, Role

#: The job on the host, and the file with credentials in its directory.
JOB = "backup"
CREDENTIALS = "backup.cnf"
#: Required free space: a factor of the last backup's size, or of the data's size without a last backup.
MARGIN, LEAST_BYTES = 1.2, 64 * 1024**2
#: The compressor limits the speed of a backup. Measured (zstd 1.5, 2026-11-23): on sysbench rows level 1 is four times
#: as fast as the tool's default level 3 and the file is 10 % smaller; on programs and text it is 1.7 times as fast and
#: the file 1.17 times as large (1.07 times the size of gzip's).
ZSTD_LEVEL = "-1"
#: Compression may use every core: the run has low priority (``back_up.sh``). Measured on 2 cores, 1.1 GB from one copy
#: thread: 3.7 to 4.3 s with two threads, 3.9 to 6.0 s with one.
COMPRESSORS_MAXIMUM = 4
#: One copy thread alternates between reading and sending: the same 1.1 GB took 2.9 s with two. Backup instances use
#: two; one thread spares instances that serve readers.
COPY_THREADS, COPY_THREADS_BESIDE_READERS = 2, 1


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """The settings of schedule and inventory.

    ``last_bytes`` is the size of the last backup file, ``last_mount`` the mount point of its file system in the same
    directory (empty if unknown). ``role`` is the instance's role.
    """

    run_id: str
    instance: str
    schedule: str
    method: BackupMethod
    directory: str
    defaults_file: str
    last_bytes: int | None = None
    last_mount: str = ""
    role: Role = Role.REPLICA


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """Everything that the run will do.

    ``tools`` and ``clients`` are program names, best first. ``datadir_identity`` is ``device:inode``; ``data_bytes``
    is the size of the data, ``expected_bytes`` of the file. ``mount`` is the required mount point of the directory:
    that of the last backup.
    """

    run_id: str
    instance: str
    schedule: str
    method: BackupMethod
    flavor: str
    version: str
    machine: str
    datadir: str
    datadir_identity: str
    server_id: int
    socket: str
    directory: str
    file: str
    tools: tuple[str, ...]
    options: tuple[str, ...]
    compressor: tuple[str, ...]
    clients: tuple[str, ...]
    needed_bytes: int
    data_bytes: int | None
    expected_bytes: int | None
    gtid_enabled: bool
    mount: str = ""
    #: the server's option file, of which the tool gets only what it needs (``flavors.tool_options``)
    defaults_file: str = ""
    #: what the backup lacks by design, as sentences
    gaps: tuple[str, ...] = ()

    @property
    def partial(self) -> str:
        """Return the hidden name of the file while it is written."""
        return f".{self.file}.partial"

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.file}"

    @property
    def partial_path(self) -> str:
        return f"{self.directory}/{self.partial}"

    @property
    def command(self) -> str:
        """Return the pipe as a shell command line."""
        return f"{show([self.tools[0], *self.options])} | {show(self.compressor)} > {self.partial_path}"


def plan_backup(
    asked: BackupSettings, facts: InstanceFacts | None, *, started_at: datetime, run_directory: str
) -> BackupPlan:
    """Return the plan of a run.

    Args:
        asked: settings of the schedule and the inventory.
        facts: of a new probe.
        started_at: part of the file name, in UTC.
        run_directory: of this run on the host; the tool's credentials will be below it.

    Raises:
        Refused: the server does not answer (``backup.no_server``), the schedule has no directory (``backup.no_directory``), a dump
            cannot be made (``dump_refusal``), or the flavor is unknown (``flavor.unknown``,
            ``flavor.unsupported``).
    """
    operation = phrase("Planning a backup of {instance}", instance=asked.instance)
    if not asked.directory.startswith("/"):
        raise Refused(
            "backup.no_directory",
            operation,
            cause=phrase("schedule {schedule} has no directory", schedule=asked.schedule),
        )
    if facts is None or facts.server is None or facts.host is None or facts.datadir is None:
        raise Refused("backup.no_server", operation, cause=_problem(facts))
    server, host = facts.server, facts.host
    flavor = flavor_for(server.version, server.flavor)
    is_dump = asked.method is BackupMethod.DUMP
    program = dump_program(flavor, host.tools) if is_dump else None
    if is_dump and (refusal := dump_refusal(facts, operation)):
        raise refusal
    ending = "sql.gz" if is_dump else "xbstream.zst"
    last, data = asked.last_bytes, facts.datadir.data_bytes
    return BackupPlan(
        run_id=asked.run_id,
        instance=asked.instance,
        schedule=asked.schedule,
        method=asked.method,
        flavor=server.flavor,
        version=server.version,
        machine=f"{host.hostname} {host.machine_id}".strip(),
        datadir=facts.datadir.path,
        datadir_identity=facts.datadir.identity,
        server_id=server.server_id,
        socket=server.socket,
        directory=asked.directory.rstrip("/") or "/",
        file=f"{asked.instance}-{asked.method}-{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{asked.run_id}.{ending}",
        tools=_programs(flavor, program, is_dump=is_dump),
        options=tuple(_options(asked, flavor, facts, server, f"{run_directory}/jobs/{JOB}")),
        compressor=_compressor(asked.method, host.cpu_count),
        clients=flavor.client_programs,
        needed_bytes=int((last or data or 0) * MARGIN) + LEAST_BYTES,
        data_bytes=data,
        expected_bytes=last,
        gtid_enabled=server.gtid_enabled,
        mount=asked.last_mount,
        defaults_file=asked.defaults_file,
        gaps=tuple(_gaps(server, is_dump=is_dump)),
    )


def dump_refusal(facts: InstanceFacts, operation: str) -> Refused | None:
    """Return the refusal of a dump, ``None`` if no reason is known.

    ``backup.dump_program``: a dump by the host's program could not be restored. ``backup.dump_account``: see ``lacking_for_dump``.
    """
    if facts.server is None:
        return None
    flavor = flavor_for(facts.server.version, facts.server.flavor)
    if facts.host and (problem := dump_problem(flavor, dump_program(flavor, facts.host.tools))):
        return Refused("backup.dump_program", operation, cause=problem.rstrip("."))
    lacks = lacking_for_dump(facts)
    return Refused("backup.dump_account", operation, cause=lacks) if lacks else None


def lacking_for_dump(facts: InstanceFacts) -> str:
    """Return which privileges the account of a dump lacks, as the end of a sentence; ``""`` if none, or if that is unknown."""
    if facts.server is None or facts.local_privileges is None:
        return ""
    flavor = flavor_for(facts.server.version, facts.server.flavor)
    missing = missing_for_dump(flavor, facts.server, facts.local_privileges)
    return (
        phrase("the dashboard's account on the local socket lacks {missing} on *.*", missing=", ".join(missing))
        if missing
        else ""
    )


def _programs(flavor: Flavor, program: Tool | None, *, is_dump: bool) -> tuple[str, ...]:
    """Return the names of the tool; the path of a dump program whose version the options were chosen for."""
    if program:
        return (program.path,)
    return dump_programs(flavor) if is_dump else flavor.backup_programs


def _gaps(server: ServerFacts, *, is_dump: bool) -> Iterator[str]:
    """Return what a complete backup of this server does not have."""
    filters = [f"{name} = {value}" for link in server.replication for name, value in sorted(link.filters.items())]
    if filters:
        yield phrase("The backup lacks what replication filters leave out: {filters}.", filters="; ".join(filters))
    if is_dump:
        return
    if lost := engines.not_copied(server.foreign_engines, flavor=server.flavor):
        yield phrase("The backup lacks tables of these engines: {lost}. A dump has them.", lost=engines.as_text(lost))
    if count := server.foreign_engines.get("MEMORY", 0):
        yield phrase("The rows of {count} MEMORY tables are not in the backup.", count=count)
    if server.stored and server.stored.outside_files:
        shown = ", ".join(server.stored.outside_files[:5])
        yield phrase("Table files outside the data directory are restored to their old paths: {shown}.", shown=shown)


def _compressor(method: BackupMethod, cpu_count: int) -> tuple[str, ...]:
    if method is BackupMethod.DUMP:
        return ("gzip", "-c")
    return ("zstd", ZSTD_LEVEL, "-q", "-c", f"-T{max(1, min(COMPRESSORS_MAXIMUM, cpu_count))}")


def _problem(facts: InstanceFacts | None) -> str:
    if facts is None:
        return phrase("no probe has read the instance")
    problem = facts.host_problem or facts.server_problem
    return problem.text if problem else phrase("the server does not answer")


def _options(asked: BackupSettings, flavor: Flavor, facts: InstanceFacts, server: ServerFacts, job: str) -> list[str]:
    """Return the arguments of the program."""
    if asked.method is BackupMethod.DUMP:
        program = dump_program(flavor, facts.host.tools) if facts.host else None
        version = program.version if program else None
        return dump_options(flavor, server, credentials_file=f"{job}/{CREDENTIALS}", program_version=version)
    return flavor.backup_command(
        "tool",
        BackupRequest(
            credentials_file=f"{job}/{CREDENTIALS}",
            socket=server.socket,
            datadir=facts.datadir.path if facts.datadir else server.datadir,
            target_dir=f"{job}/target",
            lsn_dir=f"{job}/lsn",
            parallel=_copy_threads(asked.role, facts),
            slave_info=bool(server.replication) and (server.gtid_enabled or server.parallel_workers < 2),
        ),
    )[1:]


def _copy_threads(role: Role, facts: InstanceFacts) -> int:
    storage = facts.datadir.storage if facts.datadir else None
    if role is not Role.BACKUP or (storage and storage.turns):
        return COPY_THREADS_BESIDE_READERS
    return COPY_THREADS


def metadata_file_names(plan: BackupPlan) -> tuple[str, ...]:
    """Return the names of the metadata files that a physical backup tool writes beside the stream."""
    flavor = flavor_for(plan.version, plan.flavor)
    return tuple(name for kind in ("info", "checkpoints") for name in flavor.metadata_files[kind])


def record_of(plan: BackupPlan) -> dict[str, Any]:
    """Return the content of the record file beside the backup."""
    return {
        "format": "dbops-backup 1",
        "run": plan.run_id,
        "instance": plan.instance,
        "schedule": plan.schedule,
        "method": plan.method.value,
        "file": plan.file,
        "server": f"{plan.flavor} {plan.version}",
        "server_id": plan.server_id,
    }
