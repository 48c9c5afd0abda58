"""A lab: its hosts, their data and operations."""

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import pymysql

from lab import breaking, checks, fleetfile, status
from lab.data import DEFAULT_HOURS, DEFAULT_THREADS, DEFAULT_TPS, Load
from lab.errors import LabError
from lab.flavors import Flavor, flavor_named
from lab.flavors.base import SCHEMA, Account
from lab.hosts import LabHost, make_folder
from lab.processes import run
from lab.secrets import read_or_make_accounts
from lab.settings import DEFAULT_PARENT, Settings, parse_size, read_marker, settings_of, write_marker
from lab.sshd import make_key, public_key
from lab.template import Template

REPLICATION_SECONDS = 60.0
RESUME_SECONDS = 15.0
FILL_POOL_LIMIT = 1024**3


class Lab:
    """One lab, running or not. Creating the object changes nothing; ``up`` builds or starts the lab.

    ``network`` is the first three octets of the hosts' addresses, ``first`` the last octet of the primary's.
    ``prefix`` precedes each host's name, so that two labs can be in one fleet. ``say`` receives progress messages.
    ``templates`` is a folder of filled data directories: labs with equal settings copy one instead of filling their own.
    """

    def __init__(
        self,
        name: str = "demo",
        folder: Path | str | None = None,
        network: str = "127.0.1",
        first: int = 11,
        *,
        replicas: int = 1,
        backups: int = 1,
        size: int | str = "1G",
        tables: int = 4,
        parallel_appliers: int = 0,
        flavor: str = "mariadb",
        prefix: str = "",
        templates: Path | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = Settings(
            name=name,
            network=network,
            first=first,
            replicas=replicas,
            backups=backups,
            size_bytes=size if isinstance(size, int) else parse_size(size),
            tables=tables,
            parallel_appliers=parallel_appliers,
            flavor=flavor,
            prefix=prefix,
        )
        self.folder = (Path(folder) if folder else DEFAULT_PARENT / name).absolute()
        self.template = Template(templates, self.settings) if templates else None
        self.say = say or (lambda text: None)

    @classmethod
    def load(cls, folder: Path | str, say: Callable[[str], None] | None = None) -> "Lab":
        """Return the lab in ``folder``; ``LabError`` if there is none."""
        marker = read_marker(Path(folder).absolute())
        if marker is None:
            raise LabError(f"there is no lab in {folder}. Run lab up")
        lab = cls(folder=folder, say=say)
        lab.settings = settings_of(marker)
        return lab

    # --- parts ----------------------------------------------------------------------------------------------------
    @cached_property
    def flavor(self) -> Flavor:
        return flavor_named(self.settings.flavor)

    @cached_property
    def hosts(self) -> list[LabHost]:
        """All hosts with ascending addresses: primary, backups, replicas."""
        chosen = self.settings
        roles = ["primary"] + ["backup"] * chosen.backups + ["replica"] * chosen.replicas
        hosts = []
        for offset, role in enumerate(roles):
            name = f"{chosen.prefix}{role}-{roles[: offset + 1].count(role)}"
            address = f"{chosen.network}.{chosen.first + offset}"
            hosts.append(LabHost(name, role, address, self.folder / name, chosen))
        return hosts

    @property
    def primary(self) -> LabHost:
        return self.hosts[0]

    def host(self, name: str) -> LabHost:
        """Return the host with this name, with or without the lab's prefix."""
        for host in self.hosts:
            if name in (host.name, host.name.removeprefix(self.settings.prefix)):
                return host
        raise LabError(f"this lab has no host {name}. Hosts: {', '.join(host.name for host in self.hosts)}")

    @property
    def fleet_yaml(self) -> Path:
        return self.folder / "fleet.yaml"

    @property
    def ssh_key(self) -> Path:
        """The private key that every host of the lab accepts."""
        return self.folder / "id_ed25519"

    @cached_property
    def accounts(self) -> dict[str, Account]:
        return read_or_make_accounts(self.accounts_file)

    @property
    def accounts_file(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def write_load(self) -> Load:
        program = checks.find_program("sysbench") or "sysbench"
        return Load(self.folder, self.primary, self.accounts["load"], self.settings, program)

    def connect(self, name: str, account: str = "owner", database: str | None = None) -> status.Connection:
        """Return a connection to a host's server as ``owner`` (all rights), ``admin``, ``backup`` or another account."""
        return status.connect(self.host(name), self.accounts[account], database)

    # --- verbs ----------------------------------------------------------------------------------------------------
    def up(self) -> None:
        """Build the lab, or start an existing one, after all checks."""
        built = self.check_existing()
        self.check_before_start(built=built)
        make_folder(self.folder)
        with self.locked():
            write_marker(self.folder, self.settings, built=built)
            make_key(self.ssh_key, f"dbops-lab {self.settings.name}")
            for host in self.hosts:
                host.prepare(self.flavor, public_key(self.ssh_key))
            if built:
                self.start_sshds()
                self.resume()
            else:
                self.build_or_stop()
            content = fleetfile.fleet(
                self.settings.name,
                self.hosts,
                self.accounts,
                self.ssh_key,
                self.flavor.by_socket,
                own_accounts=self.flavor.own_accounts,
            )
            fleetfile.write_fleet_file(self.fleet_yaml, content)

    def status(self) -> list[status.HostStatus]:
        """Return the status of every host, read in parallel."""
        account, flavor = self.accounts["owner"], self.flavor
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            return list(pool.map(lambda host: status.read_status(host, account, flavor), self.hosts))

    def load_start(self, tps: int = DEFAULT_TPS, threads: int = DEFAULT_THREADS, hours: float = DEFAULT_HOURS) -> int:
        """Start the write load on the primary and return its process number."""
        with self.locked():
            return self.write_load.start(tps, threads, hours)

    def load_stop(self) -> bool:
        with self.locked():
            return self.write_load.stop()

    def break_host(self, name: str, how: str = "wipe", *, force: bool = False) -> str:
        with self.locked():
            return breaking.break_host(self.host(name), how, force=force)

    def down(self) -> None:
        """Stop everything: the load, the replicas and backups, the primary, the sshds."""
        with self.locked():
            self.stop_all()

    def destroy(self) -> None:
        """Stop everything and remove the folder, which must contain the lab's marker."""
        if read_marker(self.folder) is None:
            raise LabError(f"{self.folder} contains no lab. Nothing was removed")
        with self.locked():
            self.stop_all()
            shutil.rmtree(self.folder)

    # --- steps ----------------------------------------------------------------------------------------------------
    def check_existing(self) -> bool:
        """Whether the lab was built; ``LabError`` if the folder contains something else."""
        marker = read_marker(self.folder)
        if marker is None:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise LabError(f"{self.folder} is not empty and contains no lab. Choose another --folder")
            return False
        if settings_of(marker) != self.settings:
            raise LabError(f"the lab in {self.folder} was built with other settings. Run lab destroy, then lab up")
        return bool(marker["built"])

    def check_before_start(self, *, built: bool) -> None:
        user = checks.server_user()
        _ = self.flavor  # its programs are looked up
        checks.check_reachable(self.folder, user)
        if not built:
            checks.check_space(self.folder, checks.bytes_needed(self.settings))
        wanted = [(host.address, host.ssh_port) for host in self.hosts if host.sshd.pid() is None]
        wanted += [(host.address, host.port) for host in self.hosts if host.server_pid() is None]
        checks.check_ports(wanted)

    def start_sshds(self) -> None:
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(lambda host: host.sshd.start(), self.hosts))

    def build_or_stop(self) -> None:
        """Build the lab; on failure or interruption, stop everything."""
        try:
            self.start_sshds()
            self.build()
        except BaseException:
            with suppress(LabError):
                self.stop_all()
            raise

    def build(self) -> None:
        """Fill the primary, copy its data to the other hosts, and start replication."""
        for host in self.hosts:  # remains of an interrupted build
            host.stop_server()
        if self.template is None:
            self.fill_primary()
            self.copy_to(self.hosts[1:], self.primary.data_dir)
        else:
            self.copy_template(self.template)
        self.say("starting servers and replication")
        failures = self.start_servers()
        if failures:
            raise LabError(failures[0])
        source, account = self.primary, self.accounts["replication"]
        statements = self.flavor.replicate_statements(source.address, source.port, account)
        for host in self.hosts[1:]:
            with self.connect(host.name) as connection, connection.cursor() as cursor:
                for statement, values in statements:
                    cursor.execute(statement, values)
        self.write_first_transaction()
        slow = self.wait_for_replication(REPLICATION_SECONDS)
        if slow:
            raise LabError("replication does not run: " + "; ".join(slow))
        write_marker(self.folder, self.settings, built=True)

    def copy_to(self, hosts: list[LabHost], data: Path) -> None:
        self.say("copying the data to the other hosts")
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(lambda host: host.copy_data(data, self.flavor), hosts))

    def copy_template(self, template: Template) -> None:
        """Copy the template's data to each host. The first lab with these settings creates the template."""
        with template.locked():
            if not template.is_made:
                self.fill_primary()
                template.make(self.primary.data_dir, self.accounts_file, self.flavor)
        shutil.copy(template.accounts_file, self.accounts_file)
        self.__dict__.pop("accounts", None)  # the template's passwords apply
        self.copy_to(self.hosts, template.data)

    def fill_primary(self) -> None:
        """Create accounts and data without a binary log, which then starts where all hosts are equal."""
        self.say(f"initialising {self.primary.name}")
        self.primary.make_data_dir()
        plan = self.primary.plan()
        self.flavor.initialise(plan)
        pool_bytes = max(128 * 1024**2, min(self.settings.size_bytes * 5 // 4, FILL_POOL_LIMIT))
        self.primary.start_server([*self.flavor.fill_options, f"--innodb-buffer-pool-size={pool_bytes}"])
        statements = [f"CREATE DATABASE {SCHEMA}", *self.flavor.account_statements(self.accounts)]
        run(self.flavor.superuser_client(plan), stdin=";\n".join(statements) + ";\n")
        self.say(f"filling {self.settings.size_bytes // 1024**2} MiB")
        self.write_load.fill()
        self.primary.stop_server()

    def write_first_transaction(self) -> None:
        """Write to the binary log: without a first GTID, backups have no position."""
        with self.connect(self.primary.name) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {SCHEMA}.lab (name VARCHAR(64) PRIMARY KEY) ENGINE=InnoDB")
            cursor.execute(f"INSERT INTO {SCHEMA}.lab VALUES (%s)", (self.settings.name,))

    def resume(self) -> None:
        """Start an existing lab. A broken host stays down and is reported."""
        self.say("starting servers")
        for failure in self.start_servers():
            self.say(f"left down: {failure}")
        for host in self.hosts[1:]:
            self.resume_replication(host)
        for slow in self.wait_for_replication(RESUME_SECONDS):
            self.say(f"replication does not run: {slow}")

    def resume_replication(self, host: LabHost) -> None:
        statements = self.flavor.resume_statements()
        if statements and host.server_pid() is not None:
            try:
                with self.connect(host.name) as connection, connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
            except pymysql.MySQLError as error:
                self.say(f"{host.name}: {error}")

    def start_servers(self) -> list[str]:
        """Start the primary, then the others in parallel; return the failures of the others."""
        self.primary.start_server()

        def start(host: LabHost) -> str:
            try:
                host.start_server()
            except LabError as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(len(self.hosts)) as pool:
            return [failure for failure in pool.map(start, self.hosts[1:]) if failure]

    def wait_for_replication(self, timeout_seconds: float) -> list[str]:
        """Wait until all running replicas replicate and have the primary's data; return the others with the reason."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            late = self.late_replicas()
            if not late or time.monotonic() > deadline:
                return late
            time.sleep(0.1)

    def late_replicas(self) -> list[str]:
        late = []
        for host in self.hosts[1:]:
            if host.server_pid() is None:
                continue
            try:
                why = self.why_late(host)
            except pymysql.MySQLError as error:  # the accounts may be lost with the data
                why = str(error)
            if why:
                late.append(f"{host.name}: {why}")
        return late

    def why_late(self, host: LabHost) -> str:
        with self.connect(host.name) as connection, connection.cursor() as cursor:
            found = status.replication_of(cursor, self.flavor)
            if found is None:
                return "not set up"
            if not found.works:
                return found.error or "not connected yet"
            cursor.execute(
                "SELECT 1 FROM information_schema.tables WHERE table_schema=%s AND table_name='lab'", (SCHEMA,)
            )
            return "" if cursor.fetchone() else "the first transaction has not arrived"

    def stop_all(self) -> None:
        """Stop everything; continue after an error and raise the first one at the end."""
        replicas: list[Callable[[], object]] = [host.stop_server for host in self.hosts[1:]]
        sshds: list[Callable[[], object]] = [host.sshd.stop for host in self.hosts]
        load: list[Callable[[], object]] = [self.write_load.stop]
        primary: list[Callable[[], object]] = [self.primary.stop_server]
        groups = [load, replicas, primary, sshds]
        errors: list[LabError] = []

        def stopped(stop: Callable[[], object]) -> None:
            try:
                stop()
            except LabError as error:
                errors.append(error)

        with ThreadPoolExecutor(len(self.hosts)) as pool:
            for group in groups:
                list(pool.map(stopped, group))
        if errors:
            raise errors[0]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent a second command on the same lab."""
        if not self.folder.is_dir():
            raise LabError(f"there is no lab in {self.folder}. Run lab up")
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError(f"another command uses the lab in {self.folder}") from None
            yield
