"""A real cluster of one server series: a primary, and two replicas of it. The product's own code talks to it, as any account."""

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbops.drivers.jobs import HostJobs
from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.server_proof import read_proof
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.channels import read_channels
from dbops.engine.flavors.quiet import quiet_settings
from dbops.engine.flavors.relaxed_durability import relaxations
from dbops.engine.flavors.run_time_settings import set_run_time, show_variables
from dbops.engine.flavors.versions import dotted
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Clock
from dbops.engine.rebuilds.clone import FIRST_VERSION, PLUGIN, account_sql
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.rebuilds.steps.run import Accounts, InstanceHandle, Run, RunThresholds, Server
from lab.hosts import LabHost
from lab.lab import Lab
from lab.pytest_plugin import start_lab
from lab.unpacked import MARIADB_11_8, MYSQL, MYSQL_5_7, why_no_mysql_8_0
from tests import run_folder
from tests.engine.runs import RecordedJournal
from tests.fakes import FakeShell
from tests.networks import free_network

MYSQLS = {"mysql-5.7": MYSQL_5_7.why_not(), "mysql-8.0": why_no_mysql_8_0(), "mysql-9.7": MYSQL.why_not()}
SERIES = {"mariadb": "", "mariadb-11.8": MARIADB_11_8.why_not(), **MYSQLS}
PRIMARY, SOURCE, TARGET = "primary-1", "replica-1", "replica-2"
#: What a driver sends when it connects.
AT_CONNECT = ("SET SESSION wait_timeout = 15", "SET SESSION sql_log_bin = 0")
RUN_ID = "0123456789abcdef"


class RealClock(Clock):
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Recorded(MysqlDatabase):
    """A connection that notes each statement that the server took."""

    sent: set[str]

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        rows = super().query(sql, parameters)
        self.sent.add(sql)
        return rows


@dataclass
class Cluster:
    """The servers of a lab. ``sent`` are the statements that they took from the product."""

    lab: Lab
    flavor: Flavor
    sent: set[str] = field(default_factory=lambda: set(AT_CONNECT))
    #: variables of the target that an act can leave changed, with the values of a new lab
    ordinary: dict[str, str] = field(init=False)
    #: the acts that were performed on it
    performed: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        relaxed = relaxations(self.flavor, appliers=8, gtid=True)
        names = [item.variable for item in (*relaxed, *quiet_settings(self.flavor))]
        rows = self.ask(TARGET, show_variables(["read_only", "max_connections", *names]))
        self.ordinary = {str(row["Variable_name"]): str(row["Value"]) for row in rows}

    @property
    def clones(self) -> bool:
        """Whether a clone can read its servers."""
        return self.flavor.name == "mysql" and self.flavor.version >= FIRST_VERSION

    def host(self, name: str) -> LabHost:
        return self.lab.host(name)

    def account(self, key: str) -> Account:
        found = self.lab.accounts[key]
        return Account(found.user, found.password)

    def connect(self, name: str, account: Account | None = None, **options: Any) -> Recorded:
        """Return a connection as ``account``, the owner of all rights by default. The server proves itself as in production."""
        host, account = self.host(name), account or self.account("owner")
        plan = host.plan()
        address = MysqlAddress(host.address, host.port, account.user, account.password)

        def proof() -> Any:
            return read_proof(
                FakeShell(runs_here=True), datadir=str(plan.data_dir), defaults_file=str(plan.config_file)
            )

        database = Recorded(address, prove=proof, **options)
        database.sent = self.sent
        return database

    def took(self, beginning: str) -> bool:
        """Return whether the servers took a statement that begins so."""
        return any(text.startswith(beginning) for text in self.sent)

    def own(self, name: str, *statements: str, write_binlog: bool = False) -> None:
        """Run statements as the owner, which do not count as the product's."""
        database = self.connect(name, write_binlog=write_binlog)
        database.sent = set()
        for statement in statements:
            database.execute(statement)
        database.close()

    def ask(self, name: str, sql: str) -> list[dict[str, Any]]:
        database = self.connect(name)
        database.sent = set()
        rows = database.query(sql)
        database.close()
        return rows

    def executed(self, name: str) -> str:
        variable = "gtid_executed" if self.flavor.name == "mysql" else "gtid_current_pos"
        return re.sub(r"\s", "", str(self.ask(name, f"SELECT @@GLOBAL.{variable} AS gtid")[0]["gtid"]))

    def wait(self, *names: str) -> None:
        """Wait until the replicas run and have all that the primary has."""
        deadline = time.monotonic() + 30
        wanted = self.executed(PRIMARY)
        for name in names or (SOURCE, TARGET):
            while True:
                database = self.connect(name)
                database.sent = set()
                links = read_channels(database, self.flavor)
                database.close()
                running = links and all(link.is_running for link in links)
                if running and not self.flavor.gtid_missing(wanted, self.executed(name)):
                    break
                assert time.monotonic() < deadline, links
                time.sleep(0.05)

    def heal(self) -> None:
        """Let the target replicate from the primary again, as a new lab's does, whatever a test left; and the source be no donor."""
        flavor, database = self.flavor, self.connect(TARGET)
        database.sent = set()
        channels = [link.channel for link in read_channels(database, flavor)]
        words = [*flavor.stop_replication(), *flavor.set_filters("", {}), *flavor.forget_replication(channels)]
        words += [set_run_time(name, value) for name, value in self.ordinary.items()]
        if flavor.name == "mysql" and not self.executed(TARGET):
            words += flavor.set_position(Coordinates(gtid=self.executed(PRIMARY)), "")
        for word in words:
            database.execute(word)
        if self.clones:
            self.own(SOURCE, f"DROP USER IF EXISTS {account_sql(RUN_ID)}")
            if self.ask(SOURCE, f"SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = '{PLUGIN}'"):
                self.own(SOURCE, f"UNINSTALL PLUGIN {PLUGIN}")
        primary, account = self.host(PRIMARY), self.lab.accounts["replication"]
        for sql, parameters in self.lab.flavor.replicate_statements(primary.address, primary.port, account):
            database.execute(sql, parameters)
        database.close()
        self.wait(TARGET)

    def party(self, name: str) -> PlannedInstance:
        host, plan = self.host(name), self.host(name).plan()
        uuid = self.ask(name, "SELECT @@server_uuid AS uuid")[0]["uuid"] if self.flavor.name == "mysql" else ""
        return PlannedInstance(
            name=name,
            role=host.role,
            host=name,
            host_key_fingerprint="",
            ssh_address=host.address,
            ssh_port=host.ssh_port,
            ssh_user="root",
            address=host.address,
            port=host.port,
            datadir=str(plan.data_dir),
            datadir_identity="",
            defaults_file=str(plan.config_file),
            os_user=plan.user,
            configured_server_id=plan.server_id,
            start_command="",
            stop_command="",
            is_answering=True,
            socket=str(plan.socket),
            server_id=plan.server_id,
            server_uuid=str(uuid),
            version=dotted(self.flavor.version),
        )

    def run(self, account: Account, folder: Path, kept: KeptReplication | None = None, **changes: Any) -> Run:
        """Return a rebuild of the target from the source, by the dashboard's account, with real jobs on this machine."""
        target, source, primary = map(self.party, (TARGET, SOURCE, PRIMARY))
        plan = Plan(
            method="xbstream",
            target=target,
            source=source,
            primary=primary,
            flavor=self.flavor.name,
            findings=(),
            steps=(),
            destroys=(),
            old_data="aside",
            aside_path="",
            keep_old_data=False,
            pause_source=False,
            pause_reason="",
            cipher="",
            parallel=1,
            prepare_memory_bytes=0,
            bytes_to_copy=None,
            predicted_seconds=None,
            uses_gtid=True,
            relaxes=True,
            appliers=8,
            replication=kept or KeptReplication(),
        )

        def side(party: PlannedInstance) -> InstanceHandle:
            shell = FakeShell(runs_here=True)
            work_dir = str(folder / party.name)
            jobs = HostJobs(
                shell, work_dir=work_dir, instance_key=party.name, run_id=RUN_ID, token=1, dashboard="dashboard-1"
            )
            return InstanceHandle(party, shell, jobs, lambda _: self.connect(party.name, account))

        return Run(
            run_id=RUN_ID,
            plan=replace(plan, **changes),
            flavor=self.flavor,
            source=side(source),
            target=side(target),
            primary=Server(primary, lambda _: self.connect(PRIMARY, account)),
            accounts=Accounts(account, account, self.account("replication"), self.account("backup")),
            checkpoint={},
            journal=RecordedJournal(),
            clock=RealClock(),
            replan=lambda: (_ for _ in ()).throw(AssertionError("no step plans again")),
            settings=RunThresholds(),
        )


@contextmanager
def start_cluster(series: str, name: str) -> Iterator[Cluster]:
    """Start the servers, with one object of each kind that the certificate compares. ``name`` is of the folder."""
    folder = run_folder.new_folder(name)
    options: dict[str, Any] = {"size": "8M", "replicas": 2, "backups": 0, "flavor": series}
    with start_lab(folder / "lab", free_network(), templates=run_folder.shared() / "labs", **options) as lab:
        with lab.connect(PRIMARY) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CONCAT(@@version, ' ', @@version_comment) AS version")
            version = str(cursor.fetchone()["version"])  # type: ignore[index]
        cluster = Cluster(lab, flavor_for(version, version))
        cluster.own(PRIMARY, *objects(cluster.flavor), write_binlog=True)
        cluster.wait()
        yield cluster
    shutil.rmtree(folder, ignore_errors=True)


def objects(flavor: Flavor) -> list[str]:
    """Return statements that make a schema with every kind of object. Its event is of an account without special rights."""
    statements = [
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE TABLE shop.orders (id INT NOT NULL, at DATE NOT NULL, body TEXT, PRIMARY KEY (id, at))"
        " PARTITION BY HASH (id) PARTITIONS 2",
        "CREATE TABLE shop.items (tenant INT NOT NULL, id INT NOT NULL, name VARCHAR(40), PRIMARY KEY (tenant, id))",
        "CREATE TABLE shop.old (id INT PRIMARY KEY) ENGINE=MyISAM",
        "INSERT INTO shop.items VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, NULL)",
        "CREATE VIEW shop.names AS SELECT name FROM shop.items",
        "CREATE TRIGGER shop.filled BEFORE INSERT ON shop.items FOR EACH ROW SET NEW.name = COALESCE(NEW.name, '')",
        "CREATE PROCEDURE shop.count_items() SELECT COUNT(*) FROM shop.items",
        "CREATE DEFINER = 'load'@'localhost' EVENT shop.nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM shop.orders WHERE at < '2000-01-01'",
    ]
    if flavor.name == "mysql" and flavor.version >= (8, 0, 0):
        statements.append("CREATE TABLESPACE shop ADD DATAFILE 'shop.ibd' ENGINE=InnoDB")
    return statements
