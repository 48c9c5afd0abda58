"""The interface of a flavor: programs, configuration, accounts and replication."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lab.checks import need_programs

#: programs that every lab needs, with the Debian package of each
COMMON_PROGRAMS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "sysbench": "sysbench",
    "setsid": "util-linux",
    "flock": "util-linux",
}
SCHEMA = "sbtest"
#: every loopback address: the kernel sends from 127.0.0.1 whatever host of the lab a connection is thought to come from
ANY_LAB_HOST = "127.%"


@dataclass(frozen=True, slots=True)
class Account:
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What a host's server is to be; paths are absolute. ``user`` is the operating-system user it runs as."""

    address: str
    port: int
    server_id: int
    role: str
    user: str
    as_root: bool
    config_file: Path
    data_dir: Path
    tmp_dir: Path
    socket: Path
    pid_file: Path
    error_log: Path
    redo_bytes: int
    parallel_appliers: int


@dataclass(frozen=True, slots=True)
class ReplicationStatus:
    """One replica's replication, in words that both flavors share. ``lag_seconds`` is ``None`` while it is unknown."""

    source: str
    io_running: bool
    sql_running: bool
    lag_seconds: int | None
    error: str

    @property
    def works(self) -> bool:
        return self.io_running and self.sql_running


class Flavor(ABC):
    name: str
    #: program name to Debian package
    server_programs: ClassVar[dict[str, str]]
    #: options of a start in which data is filled in: no binary log, nothing durable, little redo to copy afterwards
    fill_options: tuple[str, ...]
    show_replication: str
    gtid_query: str

    def __init__(self) -> None:
        self.programs = need_programs(COMMON_PROGRAMS | self.server_programs)

    @property
    @abstractmethod
    def server(self) -> str:
        """Absolute path of the server program."""

    @property
    @abstractmethod
    def admin(self) -> str:
        """Absolute path of ``mysqladmin`` or its other name."""

    @property
    def host_programs(self) -> dict[str, str]:
        """Programs that a host's sessions are to find before the machine's own of that name."""
        return {}

    @abstractmethod
    def config(self, plan: ServerPlan) -> str:
        """Return the text of ``my.cnf``."""

    @abstractmethod
    def initialise(self, plan: ServerPlan) -> None:
        """Make an empty data directory with system tables."""

    @abstractmethod
    def superuser_client(self, plan: ServerPlan) -> list[str]:
        """Return the client command that may do everything before there are accounts; SQL comes on standard input."""

    @abstractmethod
    def account_statements(self, accounts: Mapping[str, Account]) -> list[str]:
        """Return statements that make the accounts ``owner``, ``admin``, ``replication``, ``backup`` and ``load``."""

    @abstractmethod
    def replicate_statements(self, address: str, port: int, account: Account) -> list[tuple[str, tuple[Any, ...]]]: ...

    @abstractmethod
    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationStatus: ...

    def resume_statements(self) -> list[str]:
        """Return what starts replication again after a server start; empty where it does by itself."""
        return []

    def own_files(self, data_dir: Path) -> list[Path]:
        """Return what a copied data directory must lose because each server needs its own."""
        return []


def config_text(options: Mapping[str, str | int | Path | None], socket: Path) -> str:
    """Return option-file text; an option whose value is ``None`` stands alone."""
    lines = ["[mysqld]"]
    lines += [name if value is None else f"{name} = {value}" for name, value in options.items()]
    return "\n".join([*lines, "", "[client]", f"socket = {socket}", ""])


def create_accounts(accounts: Mapping[str, Account], grants: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return ``CREATE USER`` and ``GRANT`` for every account, by socket and from every host of the lab.

    ``grants`` holds what stands between ``GRANT`` and ``TO`` for each account. Passwords are the lab's own random
    ones (letters, digits, ``-`` and ``_``), so they need no escaping.
    """
    statements = []
    for key, account in accounts.items():
        for host in ("localhost", ANY_LAB_HOST):
            name = f"'{account.user}'@'{host}'"
            statements.append(f"CREATE USER {name} IDENTIFIED BY '{account.password}'")
            for grant in grants[key]:
                pending_status = " WITH GRANT OPTION" if key == "owner" else ""
                statements.append(f"GRANT {grant} TO {name}{pending_status}")
    return statements
