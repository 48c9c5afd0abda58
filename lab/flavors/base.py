"""Interface of a flavor: programs, configuration, accounts and replication."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lab.checks import need_programs
from lab.errors import LabError

#: programs that every lab needs, with their Debian packages
COMMON_PROGRAMS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "sysbench": "sysbench",
    "setsid": "util-linux",
    "flock": "util-linux",
}
SCHEMA = "sbtest"
#: every loopback address: the kernel connects from 127.0.0.1, whichever host of the lab is the client
ANY_LAB_HOST = "127.%"


@dataclass(frozen=True, slots=True)
class Account:
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Configuration of a host's server; paths are absolute. ``user`` is its operating-system user."""

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
    """Replication state of a replica, the same for both flavors. ``lag_seconds`` is ``None`` while unknown."""

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
    #: server options while filling data: no binary log, no durability, little redo to copy afterwards
    fill_options: tuple[str, ...]
    show_replication: str
    gtid_query: str
    #: accounts that log in on a host by its system account, without their passwords
    by_socket: ClassVar[tuple[str, ...]] = ()
    #: Whether each host has accounts of its own (``host_accounts``) for what logs in on its socket.
    own_accounts: ClassVar[bool] = False

    def __init__(self) -> None:
        self.programs = need_programs(COMMON_PROGRAMS | self.server_programs)

    @property
    @abstractmethod
    def server(self) -> str:
        """Absolute path of the server program."""

    @property
    @abstractmethod
    def admin(self) -> str:
        """Absolute path of ``mysqladmin`` or ``mariadb-admin``."""

    @property
    def host_programs(self) -> dict[str, str]:
        """Programs that a host's sessions find before the machine's programs of the same name."""
        return {}

    @abstractmethod
    def config(self, plan: ServerPlan) -> str:
        """Return the text of ``my.cnf``."""

    @abstractmethod
    def initialise(self, plan: ServerPlan) -> None:
        """Create an empty data directory with system tables."""

    @abstractmethod
    def superuser_client(self, plan: ServerPlan) -> list[str]:
        """Return the client command with full rights before accounts exist; it reads SQL from standard input."""

    @abstractmethod
    def account_statements(self, accounts: Mapping[str, Account]) -> list[str]:
        """Return statements that create the accounts of ``lab.secrets.USERS``; those of hosts only with ``own_accounts``."""

    @abstractmethod
    def replicate_statements(self, address: str, port: int, account: Account) -> list[tuple[str, tuple[Any, ...]]]: ...

    @abstractmethod
    def parse_replication(self, row: Mapping[str, Any]) -> ReplicationStatus: ...

    def resume_statements(self) -> list[str]:
        """Return statements that start replication after a server start; empty if it starts automatically."""
        return []

    def own_files(self, data_dir: Path) -> list[Path]:
        """Return files to remove from a copied data directory, because each server needs its own."""
        return []


def host_accounts(accounts: Mapping[str, Account], number: int) -> dict[str, Account]:
    """Return the accounts ``local`` and ``backup`` of the host with this number, from 1, in the order of addresses."""
    try:
        return {key: accounts[f"{key}-{number}"] for key in ("local", "backup")}
    except KeyError:
        raise LabError(f"a lab of this flavor has no accounts for host {number}") from None


def config_text(options: Mapping[str, str | int | Path | None], socket: Path) -> str:
    """Return option-file text; an option with the value ``None`` has no ``=``."""
    lines = ["[mysqld]"]
    lines += [name if value is None else f"{name} = {value}" for name, value in options.items()]
    return "\n".join([*lines, "", "[client]", f"socket = {socket}", ""])


def create_accounts(accounts: Mapping[str, Account], grants: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return ``CREATE USER`` and ``GRANT`` for every account, for the socket and every host of the lab.

    ``grants`` has the text between ``GRANT`` and ``TO`` for each account. Passwords are random and consist of
    letters, digits, ``-`` and ``_``, so they need no escaping.
    """
    statements = []
    for key, account in ((key, accounts[key]) for key in grants):
        for host in ("localhost", ANY_LAB_HOST):
            name = f"'{account.user}'@'{host}'"
            statements.append(f"CREATE USER {name} IDENTIFIED BY '{account.password}'")
            for grant in grants[key]:
                pending_status = " WITH GRANT OPTION" if key == "owner" else ""
                statements.append(f"GRANT {grant} TO {name}{pending_status}")
    return statements
