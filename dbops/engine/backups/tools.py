"""Read command lines and statements of backup tools: method, instance and secrets."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbops.engine.facts.backups import Reads
from dbops.engine.states import BackupMethod

DUMP_TOOLS = ("mysqldump", "mariadb-dump", "mysqlpump", "mydumper")
PHYSICAL_TOOLS = ("xtrabackup", "mariadb-backup", "mariabackup", "innobackupex")
#: Options with which a physical tool reads no server.
NO_BACKUP = {
    "--prepare", "--copy-back", "--move-back", "--apply-log", "--decompress", "--stats", "--export",
    "--version", "--help", "--print-defaults",
}  # fmt: skip
DEFAULT_PORT = 3306
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MASK = "********"
SECRET_OPTION = re.compile(
    r"^(--(?=[\w-]*(?:password|passwd|secret|encrypt-key|transition-key))[\w-]++)(=.*)?$", re.IGNORECASE
)
SECRET_IN_ADDRESS = re.compile(r"(://[^/\s:@]*+:)[^/\s@]++@")
COMMAND_CHARACTERS = 1000

#: Statements of dump tools that read a table: mysqldump, mariadb-dump, mydumper (``db``.``table``) and MySQL Shell.
#: FLUSH TABLES WITH READ LOCK is not among them: other programs and people use it too.
_DUMPS = (
    ("mysqlsh", re.compile(r"/\*\s*mysqlsh dump", re.IGNORECASE)),
    (
        "mydumper",
        re.compile(
            r"^\s*SELECT\s+/\*!40001 SQL_NO_CACHE \*/\s.*?\sFROM\s+`(?:[^`]|``)+`\.`", re.IGNORECASE | re.DOTALL
        ),
    ),
    ("mysqldump", re.compile(r"^\s*SELECT\s+/\*!40001 SQL_NO_CACHE \*/\s", re.IGNORECASE)),
)
_PHYSICAL = re.compile(r"^\s*(?:BACKUP STAGE|LOCK (?:INSTANCE|TABLES|BINLOG) FOR BACKUP)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """The known addresses of one instance.

    ``addresses`` are names and addresses of its host with ``port``; ``is_only_server`` says that no other server
    process runs on the host.
    """

    datadir: str
    sockets: frozenset[str]
    addresses: frozenset[str]
    port: int
    defaults_file: str = ""
    is_only_server: bool = False


@dataclass(frozen=True, slots=True)
class SocketEnd:
    """The other end of a process's connection: a socket path, or an address and port."""

    path: str = ""
    address: str = ""
    port: int = 0


def method_of_tool(tool: str) -> BackupMethod:
    """Return the backup method of the program ``tool``."""
    return BackupMethod.DUMP if tool in DUMP_TOOLS else BackupMethod.PHYSICAL


def makes_a_backup(tool: str, words: Sequence[str]) -> bool:
    """Return whether this command line reads a server, rather than an existing copy."""
    options = {word.partition("=")[0].replace("_", "-") for word in words[1:]}
    if options & NO_BACKUP or not words:
        return False
    return tool in DUMP_TOOLS or tool == "innobackupex" or "--backup" in options


def tool_of_statement(statement: str) -> tuple[str, BackupMethod] | None:
    """Return the tool family that sends such a statement (``mysqldump`` also for ``mariadb-dump``)."""
    for tool, pattern in _DUMPS:
        if pattern.search(statement):
            return tool, BackupMethod.DUMP
    if _PHYSICAL.search(statement):
        return "xtrabackup", BackupMethod.PHYSICAL
    return None


def masked_command(words: Iterable[str]) -> str:
    """Return the command line as one text without passwords and keys, cut to ``COMMAND_CHARACTERS``."""
    shown: list[str] = []
    is_secret = False
    for word in words:
        if is_secret and not word.startswith("-"):
            shown.append(MASK)
            is_secret = False
            continue
        is_secret = False
        if found := SECRET_OPTION.match(word):
            shown.append(f"{found[1]}={MASK}" if found[2] is not None else word)
            is_secret = found[2] is None
        elif re.match(r"^-p.+", word):
            shown.append(f"-p{MASK}")
        else:
            shown.append(SECRET_IN_ADDRESS.sub(rf"\1{MASK}@", word))
            is_secret = word == "-p"
    return " ".join(shown)[:COMMAND_CHARACTERS]


def which_instance(
    tool: str, words: Sequence[str], endpoints: Sequence[SocketEnd], place: InstancePlace
) -> tuple[Reads, str]:
    """Return whether the process reads the instance at ``place``, with the reason.

    Connections count most, then the command line, then whether the host has other servers.
    """
    return (
        _by_endpoints(endpoints, place)
        or _by_options(tool, words, place)
        or (
            (Reads.THIS, "the command names no server, and this is the only server on the host")
            if place.is_only_server
            else (Reads.UNCLEAR, "the command names no server, and several servers run on this host")
        )
    )


def _by_endpoints(endpoints: Sequence[SocketEnd], place: InstancePlace) -> tuple[Reads, str] | None:
    for end in endpoints:
        if end.path and _path(end.path) in {_path(socket) for socket in place.sockets}:
            return Reads.THIS, f"connected to {end.path}"
        if end.port == place.port and end.address in place.addresses:
            return Reads.THIS, f"connected to {end.address}:{end.port}"
    if not endpoints:
        return None
    other = endpoints[0]
    return Reads.OTHER, f"connected to {other.path or f'{other.address}:{other.port}'}"


def _by_options(tool: str, words: Sequence[str], place: InstancePlace) -> tuple[Reads, str] | None:
    options = read_options(tool, words)
    host, socket = options.get("host", ""), options.get("socket", "")
    if host and host != "localhost":
        port = int(options["port"]) if options.get("port", "").isdigit() else DEFAULT_PORT
        ours = host in place.addresses and port == place.port
        return (Reads.THIS if ours else Reads.OTHER), f"the command names {host}:{port}"
    if socket:
        ours = _path(socket) in {_path(item) for item in place.sockets}
        return (Reads.THIS if ours else Reads.OTHER), f"the command names {socket}"
    if "datadir" in options:
        ours = options["datadir"].rstrip("/") == place.datadir.rstrip("/")
        return (Reads.THIS if ours else Reads.OTHER), f"the command names {options['datadir']}"
    if place.defaults_file and options.get("defaults-file") == place.defaults_file:
        return Reads.THIS, f"the command reads {place.defaults_file}"
    return None


def read_options(tool: str, words: Sequence[str]) -> dict[str, str]:
    """Return the server options of a command line: ``host``, ``port``, ``socket``, ``datadir``, ``defaults-file``."""
    short = {"-S": "socket", "-P": "port", "-h": "host" if tool in DUMP_TOOLS else "datadir"}
    wanted = {"host", "port", "socket", "datadir", "defaults-file"}
    options: dict[str, str] = {}
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        name, separator, value = word.partition("=")
        key = name.removeprefix("--").replace("_", "-") if name.startswith("--") else short.get(word[:2], "")
        if key not in wanted:
            continue
        if not name.startswith("--"):
            value, separator = word[2:], word[2:]
        options[key] = value if separator else rest.pop(0) if rest else ""
    return options


def _path(path: str) -> str:
    return f"/run/{path.removeprefix('/var/run/')}" if path.startswith("/var/run/") else path
