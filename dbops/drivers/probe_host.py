"""The host part of a probe: run ``remote/probe.sh`` in one round trip and parse its records."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from dbops.drivers.probe_backups import backup_processes, found_schedules
from dbops.drivers.probe_storage import number, parse_storage
from dbops.drivers.probe_stored import parse_files
from dbops.engine.backups.tools import DEFAULT_PORT, LOCAL_NAMES, InstancePlace
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.backups import BackupProcess, FoundSchedule
from dbops.engine.facts.instance import ConfigFacts, DatadirFacts, HostFacts, StatementCheck, Tool
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import CommandResult, Shell

SCRIPT = load("exchangeable", "login_plugins", "storage", "backups") + (
    Path(__file__).parent / "remote" / "probe.sh"
).read_text(encoding="utf-8")
TIMEOUT_SECONDS = 20.0
UNLIMITED = 2**31 - 1
#: ``mysql  Ver 15.1 Distrib 10.11.19-MariaDB``: the client's own number comes first; xtrabackup's has a fourth part
VERSIONS = (
    re.compile(r"OpenSSH_([^\s,]+)"),
    re.compile(r"Distrib (\d+\.\d+\.\d+)"),
    re.compile(r"xtrabackup version (\d+\.\d+\.\d+(?:-\d+)?)"),
    re.compile(r"(?<!\d)(\d+\.\d+\.\d+(?:-\d+(?= for))?)"),
)
#: Marks a statement for the dashboard's own account.
ADMIN = "admin:"
SAID_CHARACTERS = 120
SECRET_OPTION = re.compile(r"password|passwd|secret|filekey$|_auth$|(?<!ssl)_key$")
#: Options that add to their earlier values.
ADDS = {"plugin_load_add", "ignore_db_dirs"}


class Inspect(StrEnum):
    """How much the script reads. ``FILES`` adds links and keys; ``ALL`` also sizes, which walk the whole tree, and crontabs."""

    CHEAP = "0"
    ALL = "1"
    FILES = "2"


@dataclass(frozen=True, slots=True)
class HostReading:
    """The result of one round trip. ``schedules`` is ``None`` if not requested, ``local_privileges`` if that login failed."""

    host: HostFacts
    datadir: DatadirFacts
    config: ConfigFacts | None
    statements: tuple[StatementCheck, ...]
    backups: tuple[BackupProcess, ...]
    schedules: tuple[FoundSchedule, ...] | None
    local_privileges: tuple[str, ...] | None


def read_host(
    shell: Shell,
    *,
    datadir: str,
    defaults_file: str,
    inspect: Inspect,
    socket: str,
    credentials: str,
    statements: list[str],
    address: str = "",
    port: int = DEFAULT_PORT,
    work_dir: str = "",
    plugin_dir: str = "",
    group_suffix: str = "",
    known: Mapping[str, Tool] = MappingProxyType({}),
    known_ciphers: tuple[str, ...] = (),
    clock: Callable[[], float] = time.time,
) -> HostReading:
    """Read the host's facts.

    Args:
        inspect: how much to read.
        plugin_dir, socket: of the server; ``""`` reads it from the option files. Plugins have usual places, too.
        credentials: an option file for the account that runs ``statements``; after ``ADMIN``, with the groups ``..._admin``.
        address, port: of the server, to recognize its backups.
        work_dir: dbops's directory, to recognize its jobs. group_suffix: of the server's option groups.
        known, known_ciphers: programs, and ciphers of ssh, in the last probe. Only a changed program prints its version again.
        clock: dbops's, in seconds since 1970; the host's is compared with it.

    Raises:
        Unreachable, Refused: as ``Shell.run``.
        RemoteFailure: The script did not finish (``host.probe_failed``).
    """
    before = clock()
    result = shell.run(
        SCRIPT,
        datadir,
        defaults_file,
        inspect,
        socket,
        *(_as_lines(known, known_ciphers), plugin_dir, group_suffix, *statements),
        stdin=credentials.encode(),
        timeout_seconds=TIMEOUT_SECONDS,
    )
    records, after = parse_records(result.stdout), clock()
    _refuse_half(result, records)
    host, directory = _host(records, before, after, known, known_ciphers), _datadir(records)
    config = parse_config(records["config"]) if "config" in records else None
    place = _place(
        records, host, directory, config, socket=socket, address=address, port=port, defaults_file=defaults_file
    )
    return HostReading(
        host=host,
        datadir=directory,
        config=config,
        backups=backup_processes(records, place=place, work_dir=work_dir, read_at=after),
        schedules=found_schedules(records) if inspect is Inspect.ALL else None,
        statements=_statements(records, statements),
        local_privileges=_privileges(records.get("local_privileges")),
    )


def _as_lines(known: Mapping[str, Tool], known_ciphers: tuple[str, ...]) -> str:
    """Return the programs that need not run again, one a line, as the script reads them."""
    answered = [
        tool for name, tool in known.items() if tool.identity and tool.version and (name != "ssh" or known_ciphers)
    ]
    return "".join(f"\n{tool.path} {tool.identity}" for tool in answered) + "\n"


def _statements(records: Mapping[str, str], statements: list[str]) -> tuple[StatementCheck, ...]:
    return tuple(
        StatementCheck(statement, _last_line(records.get(f"statement.{number}", "not tried")))
        for number, statement in enumerate(statements)
    )


def _privileges(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(sorted({name.strip() for name in text.split(",")} - {""}))


def _refuse_half(result: CommandResult, records: Mapping[str, str]) -> None:
    """Raise unless the script has finished."""
    if "time.last" not in records:
        if result.exit_status is None:
            raise Unreachable(
                "ssh.lost",
                phrase("Reading the host's facts"),
                cause=phrase("the connection closed before the answer was complete"),
            )
        raise RemoteFailure(
            "host.probe_failed",
            phrase("Reading the host's facts"),
            cause=phrase(
                "exit status {status}: {output}",
                status=result.exit_status,
                output=result.stderr.strip()[-300:],
            ),
        )


def _place(
    records: Mapping[str, str],
    host: HostFacts,
    directory: DatadirFacts,
    config: ConfigFacts | None,
    *,
    socket: str,
    address: str,
    port: int,
    defaults_file: str,
) -> InstancePlace:
    """Return the names by which a process on the host can refer to the instance."""
    return InstancePlace(
        datadir=directory.path,
        sockets=frozenset(filter(None, (socket, config.socket if config else ""))),
        addresses=LOCAL_NAMES | set(filter(None, (address, host.local_address, host.hostname))),
        port=port,
        defaults_file=defaults_file,
        is_only_server=records["server_count"] == "1" and bool(directory.server_pids),
    )


def parse_records(output: str) -> dict[str, str]:
    """Return the ``KEY<TAB>VALUE<NUL>`` records; skip a login shell's greeting before the first one."""
    records: dict[str, str] = {}
    for record in output.split("\0")[:-1]:
        key, separator, value = record.partition("\t")
        if separator:
            records[key.rpartition("\n")[2]] = value
    return records


def parse_config(printed: str) -> ConfigFacts:
    """Parse the output of ``my_print_defaults``: the last of equal options wins, or adds; ``-`` equals ``_``."""
    options: dict[str, str] = {}
    for line in printed.splitlines():
        name, separator, value = line.removeprefix("--").partition("=")
        name = name.replace("-", "_").lower().removeprefix("loose_")
        if name in ADDS and name in options:
            value = f"{options[name]};{value}"
        options[name] = "***" if SECRET_OPTION.search(name) else value if separator else "1"
    return ConfigFacts(
        server_id=number(options.get("server_id")),
        port=number(options.get("port")),
        socket=options.get("socket"),
        datadir=options.get("datadir"),
        read_only=_is_on(options, "read_only"),
        skip_replica_start=_is_on(options, "skip_replica_start") or _is_on(options, "skip_slave_start"),
        options=options,
    )


def parse_version(said: str) -> str | None:
    """Return the version from a program's ``--version`` output."""
    for pattern in VERSIONS:
        if found := pattern.search(said):
            return found[1]
    return None


def _tools(records: Mapping[str, str], known: Mapping[str, Tool]) -> dict[str, Tool]:
    tools = {}
    for key, value in records.items():
        if key.startswith("tool."):
            name = key.removeprefix("tool.")
            path, identity, said = value.split("\n", 2)
            before = known.get(name)
            same = not said and before is not None and (before.path, before.identity) == (path, identity)
            version = parse_version(said)
            answer = "" if version else _last_line(said)[:SAID_CHARACTERS]
            tools[name] = before if before and same else Tool(path, version, identity, answer)
    return tools


def _host(
    records: Mapping[str, str],
    before: float,
    after: float,
    known: Mapping[str, Tool],
    known_ciphers: tuple[str, ...],
) -> HostFacts:
    # where its file is unchanged, ssh was not started
    ciphers = records["ssh_ciphers"].split() if "ssh_ciphers" in records else known_ciphers
    connection = records["ssh_connection"].split()
    limit = records["open_files_limit"]
    return HostFacts(
        hostname=records["hostname"],
        machine_id=records["machine_id"],
        local_address=connection[2] if len(connection) == 4 else "",
        cpu_count=int(records["cpu_count"] or 1),
        memory_available_bytes=int(records["memory_available_kib"] or 0) * 1024,
        has_aes=records["has_aes"] == "1",
        ssh_ciphers=tuple(ciphers) if "tool.ssh" in records else (),
        open_files_limit=int(limit) if limit.isdigit() else UNLIMITED,
        clock_offset_seconds=clock_offset(records["time.first"], records["time.last"], before, after),
        tools=_tools(records, known),
        has_systemd=records["has_systemd"] == "1",
    )


def clock_offset(first: str, last: str, before: float, after: float) -> float:
    """Return how many seconds the host's clock is certainly ahead of ours.

    The host read its clock between our ``before`` and ``after``: an offset within these bounds cannot be distinguished
    from network delay and counts as zero.
    """
    most, least = _seconds(first) - before, _seconds(last) - after
    return round(least if least > 0 else most if most < 0 else 0.0, 3)


def _datadir(records: Mapping[str, str]) -> DatadirFacts:
    identity = records.get("datadir.identity", "")
    data, _, total = records.get("datadir.sizes", "").partition(" ")
    return DatadirFacts(
        path=records["datadir.path"],
        exists=bool(identity),
        is_empty=records.get("datadir.is_empty") == "1",
        is_mount_point=records.get("datadir.is_mount_point") == "1",
        identity=identity,
        owner=records.get("datadir.owner", ""),
        filesystem=records["datadir.filesystem"],
        free_bytes=int(records["datadir.free_bytes"] or 0),
        data_bytes=number(data),
        total_bytes=number(total),
        disk_bytes=number(records.get("datadir.disk_bytes", "")),
        kept_bytes=number(records.get("datadir.kept", "")),
        server_pids=tuple(int(pid) for pid in records.get("datadir.server_pids", "").split()),
        files=records.get("datadir.files", ""),
        made_at=_born(records.get("datadir.files", "")),
        exchangeable=records.get("datadir.exchangeable", ""),
        storage=parse_storage(records),
        stored=parse_files(records),
    )


def _born(files: str) -> datetime | None:
    """Return a file's creation time; 0 if the file system does not store it."""
    seconds = int(files.rpartition(" ")[2] or 0)
    return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None


def _last_line(text: str) -> str:
    """Remove the statement that the client prints before the error."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def _seconds(text: str) -> float:
    return float(re.sub(r"[^0-9.]", "", text).rstrip("."))  # a date program without %N prints it literally


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "0").lower() not in ("0", "off", "false", "no")
