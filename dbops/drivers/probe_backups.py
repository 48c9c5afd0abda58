"""Find running and scheduled backups of a host in the records of ``remote/probe.sh``."""

import ipaddress
import posixpath
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from dbops.engine.backups.tools import (
    DUMP_TOOLS,
    PHYSICAL_TOOLS,
    InstancePlace,
    SocketEnd,
    makes_a_backup,
    masked_command,
    method_of_tool,
    which_instance,
)
from dbops.engine.facts.backups import BackupProcess, FoundSchedule

#: Parents that start many programs: a common parent does not relate two processes.
DAEMONS = frozenset(
    {"systemd", "init", "cron", "crond", "CRON", "anacron", "atd", "sshd", "sshd-session", "tini", "dumb-init"}
)
CRON_LINE = re.compile(r"^(@\w+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(.*)$")
PATH_IN_WORD = re.compile(r"(?:^|=)(/.*)")


def backup_processes(
    records: Mapping[str, str], *, place: InstancePlace, work_dir: str, read_at: float
) -> tuple[BackupProcess, ...]:
    """Return the backup tools that run on the host, oldest first.

    Args:
        place: the probed instance.
        work_dir: dbops's directory on the host; processes that use it belong to dbops.
        read_at: our clock when the host answered, in seconds since 1970; start times are calculated from it.
    """
    found = list(_processes(records, place, work_dir, read_at))
    # a wrapper and its tool are one backup: the outer process determines start and end
    keys = {(process.key, process.method) for process in found}
    outer = (item for item in found if not any((parent, item.method) in keys for parent in item.parents))
    return tuple(sorted(outer, key=lambda process: process.key))


def _processes(
    records: Mapping[str, str], place: InstancePlace, work_dir: str, read_at: float
) -> Iterator[BackupProcess]:
    for record, text in records.items():
        kind, _, number = record.partition(".")
        if kind != "process" or not number.isdigit():
            continue
        words = records.get(f"{record}.argv", "").split("\n")
        lines = [line.partition(" ")[::2] for line in text.splitlines()]
        one = dict(lines)
        tool = _tool(one["tool"])
        if not makes_a_backup(tool, words):
            continue
        boot, ticks, uptime, hertz = one["start"].split()
        parents = [value.split(" ", 2) for name, value in lines if name == "parent"]
        links = dict(value.partition(" ")[::2] for name, value in lines if name == "fd")
        reads, because = which_instance(tool, words, list(_endpoints(lines)), place)
        size, _, file_type = one.get("output", "").partition(" ")
        is_file = file_type.startswith("regular")
        yield BackupProcess(
            key=f"{boot}:{number}:{ticks}",
            pid=int(number),
            tool=tool,
            method=method_of_tool(tool),
            started_at=started_at(read_at, float(uptime), int(ticks), int(hertz)),
            user=one.get("user", ""),
            command=masked_command(words),
            reads=reads,
            because=because,
            is_ours=is_below(work_dir, [*words, *links.values(), one.get("cwd", "")]),
            parents=tuple(f"{boot}:{pid}:{start}" for pid, start, _ in parents),
            family=f"{boot}:{parents[0][0]}:{parents[0][1]}" if parents and not _is_daemon(parents[0]) else "",
            output_path=links.get("1", "") if is_file else "",
            output_bytes=int(size) if is_file and size.isdigit() else None,
        )


def started_at(read_at: float, uptime_seconds: float, ticks: int, hertz: int) -> datetime:
    """Return a process's start time by our clock, because the host's clock can be wrong."""
    age = max(0.0, uptime_seconds - ticks / max(1, hertz))
    return (datetime.fromtimestamp(read_at, UTC) - timedelta(seconds=age)).replace(microsecond=0)


def is_below(directory: str, texts: list[str]) -> bool:
    """Whether a word or link names a path in ``directory``."""
    root = posixpath.normpath(directory) + "/" if directory.startswith("/") else ""
    found = (PATH_IN_WORD.search(text) for text in texts)
    return bool(root) and any(path and (posixpath.normpath(path[1]) + "/").startswith(root) for path in found)


def found_schedules(records: Mapping[str, str]) -> tuple[FoundSchedule, ...]:
    """Return crontab lines and timers that run a backup tool, in the order of their files."""
    zone = records.get("schedules.zone", "") or "UTC"
    found: list[FoundSchedule] = []
    for record, text in records.items():
        kind, _, source = record.partition(".")
        if kind == "crontab":
            found += _crontab(source, text, zone)
        elif kind == "timer":
            user, timing, tool, command = [*text.replace("\t", "\n", 1).split("\n"), "", "", "", ""][:4]
            found.append(_schedule(source, "systemd", timing, zone, user or "root", tool, command))
    return tuple(found)


def _crontab(source: str, text: str, zone: str) -> Iterator[FoundSchedule]:
    """Parse a crontab: system crontabs have the user as sixth word; ``CRON_TZ`` applies to the following lines."""
    has_user = source.endswith("/etc/crontab") or "/etc/cron.d/" in source
    for item in text.split("\n"):
        tool, _, line = item.partition("\t")
        if not tool:
            zone = line.partition("=")[2].strip().strip("\"'") or zone
            continue
        if not (parts := CRON_LINE.match(line.strip())):
            continue
        user, command = [*parts[2].split(maxsplit=1), ""][:2] if has_user else (posixpath.basename(source), parts[2])
        yield _schedule(source, "cron", " ".join(parts[1].split()), zone, user, tool, command)


def _schedule(source: str, kind: str, timing: str, zone: str, user: str, tool: str, command: str) -> FoundSchedule:
    known = _tool(tool)
    method = method_of_tool(known) if known in (*DUMP_TOOLS, *PHYSICAL_TOOLS) else None
    return FoundSchedule(source, kind, timing, zone, user, known, method, masked_command(command.split()))


def _tool(name: str) -> str:
    return "xtrabackup" if name.startswith("xtrabackup") else name


def _is_daemon(parent: list[str]) -> bool:
    return parent[0] == "1" or (parent[2] if len(parent) > 2 else "") in DAEMONS


def _endpoints(lines: list[tuple[str, str]]) -> Iterator[SocketEnd]:
    for name, value in lines:
        if name == "unix":
            yield SocketEnd(path=value)
        elif name == "tcp":
            address, _, port = value.partition(":")
            yield SocketEnd(address=address_of(address), port=int(port, 16))


def address_of(hexadecimal: str) -> str:
    """Decode an address of ``/proc/net/tcp``, which consists of little-endian words."""
    words = [bytes.fromhex(hexadecimal[start : start + 8])[::-1] for start in range(0, len(hexadecimal), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
