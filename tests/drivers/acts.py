"""What dbops does with a server as the dashboard's account, each by the product's own code. An act fails where the account may not."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from dbops.drivers.digests import read_digests
from dbops.drivers.discover import discover
from dbops.drivers.probe_growth import read_growth
from dbops.drivers.probe_server import read_server
from dbops.drivers.waits import read_waits
from dbops.engine.capacity.waits import compare
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.growth import GrowthReading
from dbops.engine.flavors import relaxed_durability
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.run_time_settings import show_run_time_settings
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate import columns, ranges, rows, sizes
from dbops.engine.rebuilds.certificate.bounded import Bounded
from dbops.engine.rebuilds.certificate.inventory import Scope, read_inventory
from dbops.engine.rebuilds.certificate.key_values import bounds_of, range_of
from dbops.engine.rebuilds.certificate.openable import Table, open_tables, tables_of
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.steps.certify.reference import filters_of, reached_by_target, reference_of, version_of
from dbops.engine.rebuilds.steps.certify.rows import identity_of, why_not
from dbops.engine.rebuilds.steps.certify.snapshots import common_snapshot
from dbops.engine.rebuilds.steps.replicate.errant import must_have_nothing_errant
from dbops.engine.rebuilds.steps.replicate.replication import point_to_primary, read_link, read_position
from dbops.engine.rebuilds.steps.replicate.replication_kept import keep_replication
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.start import quiet_settings
from dbops.engine.rebuilds.steps.start import relaxed_durability as relaxing
from dbops.engine.states import Level
from tests.drivers.clusters import PRIMARY, SOURCE, TARGET, Cluster, RealClock
from tests.engine.runs import RecordedJournal

ITEMS = Table("shop", "items")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class Ground:
    """A cluster, and the account that dbops has there. ``folder`` is the work directory of its jobs."""

    cluster: Cluster
    account: Account
    folder: Path

    def on(self, name: str) -> Database:
        return self.cluster.connect(name, self.account)

    @contextmanager
    def run(self, kept: KeptReplication | None = None) -> Iterator[tuple[Run, Database]]:
        """Yield a rebuild and a connection to its target. No step may have had to warn."""
        run = self.cluster.run(self.account, self.folder, kept)
        with closing(self.on(TARGET)) as target:
            yield run, target
        journal = run.journal
        assert isinstance(journal, RecordedJournal)
        assert Level.WARNING not in journal.levels, journal.lines


Act = Callable[[Ground], None]


def read_facts(ground: Ground) -> None:
    """Probe each server."""
    cluster = ground.cluster
    load = cluster.connect(PRIMARY, cluster.account("load"))
    load.query("SELECT 1")
    for name in (PRIMARY, SOURCE, TARGET):
        with closing(ground.on(name)) as database:
            facts = read_server(database, our_users=(), measure=True, now=NOW, previous=None).facts
            assert database.query("SELECT @@SESSION.sql_log_bin AS logs") == [{"logs": 0}]
        assert facts.stored
        assert facts.stored.account_plugins
        assert facts.stored.has_time_zones is not None
        assert facts.gtid_purged is not None
        assert facts.innodb_bytes
        assert (facts.set_at_run_time is not None) is bool(show_run_time_settings(cluster.flavor))
        assert len(facts.replication) == (name != PRIMARY)
        if name == PRIMARY:
            replicas = {cluster.host(one).plan().server_id for one in (SOURCE, TARGET)}
            assert {replica.server_id for replica in facts.replicas} == replicas
        assert ("load" in [client.user for client in facts.clients]) is (name == PRIMARY)
        assert facts.foreign_engines == {"MyISAM": 1}
    load.close()


GROWN = (
    "CREATE DATABASE grown",
    "CREATE TABLE grown.parts (id INT AUTO_INCREMENT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE grown.`odd #name` (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, words TEXT, FULLTEXT KEY (words))",
    "INSERT INTO grown.`odd #name` VALUES (203, 'full')",
    "CREATE TABLE grown.numbers (id INT PRIMARY KEY)",
    "CREATE VIEW grown.seen AS SELECT 1 AS one",
)


def read_what_grows(ground: Ground) -> None:
    """Read what the primary holds, before and after there is more of it."""
    cluster, readings = ground.cluster, []
    for statements in ((), GROWN):
        cluster.own(PRIMARY, *statements)
        with closing(ground.on(PRIMARY)) as database:
            server = read_server(database, our_users=(), measure=True, now=NOW, previous=None).facts
            readings.append(read_growth(database, cluster.flavor, NOW, None, server))
    cluster.own(PRIMARY, "DROP DATABASE grown")
    before, after = readings
    assert None not in [getattr(after, item.name) for item in fields(after) if item.name != "cache_misses"]
    assert after.schemas == (before.schemas or 0) + 1
    assert after.tables == (before.tables or 0) + 3
    assert after.partitions == (before.partitions or 0) + 3
    assert after.auto_increment
    assert (after.auto_increment[0].name, after.auto_increment[0].largest) == ("grown.odd #name.id", 255)
    assert after.auto_increment[0].value == 204
    assert after.largest
    assert {("shop", "items")} <= {(table.schema, table.table) for table in after.largest}
    assert (after.uptime_seconds or 0) >= (before.uptime_seconds or 0)
    assert (after.writes or 0) > (before.writes or 0)
    again = GrowthReading(NOW, auto_increment=after.auto_increment)
    with closing(ground.on(PRIMARY)) as database:
        gone = read_growth(database, cluster.flavor, NOW, again, server).auto_increment
    assert "grown.odd #name.id" not in [column.name for column in gone or ()]


def read_wait_events(ground: Ground) -> None:
    """Read the totals of wait events twice."""
    with closing(ground.on(SOURCE)) as database:
        before, after = (read_waits(database, ground.cluster.flavor) for _ in range(2))
    assert compare(before, after).counters["Questions"] >= 0
    assert after.settings["table_open_cache"] > 0
    assert "Innodb_history_list_length" in after.status


def read_top_statements(ground: Ground) -> None:
    """Read the top statements of a schema, or learn that they are not counted."""
    refused = ""
    with closing(ground.on(SOURCE)) as database:
        try:
            read_digests(database, ground.cluster.flavor, "mysql")
        except RemoteFailure as error:
            refused = error.code
    assert refused in ("", "digests.off")


def named(cluster: Cluster, address: str) -> str:
    """Return the name of the host with an address."""
    return next(host.name for host in cluster.lab.hosts if host.address == address)


def find_servers(ground: Ground) -> None:
    """Discover the cluster from a replica."""
    start = ground.cluster.host(SOURCE)
    found = discover((start.address, start.port), lambda host, _: ground.on(named(ground.cluster, host)))
    assert {named(ground.cluster, node.addresses[0][0]) for node in found.nodes} == {PRIMARY, SOURCE, TARGET}
    assert not any(node.unread or node.problem or node.silent for node in found.nodes)


def compare_objects(ground: Ground) -> None:
    """Read every object for the certificate, and what differs between both servers: nothing."""
    flavor = ground.cluster.flavor
    with closing(ground.on(TARGET)) as plain, closing(ground.on(SOURCE)) as other:
        database = Bounded(plain, flavor, RealClock())
        found = read_inventory(database, flavor, Scope())
        assert not found.hidden
        assert columns.changes(other, database, flavor, ITEMS, exact=True) == []
        opened = open_tables(lambda: ground.on(TARGET), tables_of(database))
        assert not opened.errors
    kinds = {name.partition(" ")[0] for name in found.objects}
    assert {"table", "view", "trigger", "event", "procedure", "schema", "partition", "account", "grant"} <= kinds


def compare_rows(ground: Ground) -> None:
    """Read rows of tables: whole, and by ranges."""
    with closing(ground.on(TARGET)) as database:
        for statement in rows.SESSION:
            database.execute(statement)
        tables, others = sizes.comparable(database)
        assert [str(table) for table in others] == ["shop.old"]
        assert sizes.about_rows(database, [ITEMS]) is not None
        assert sizes.large_of(database, [*tables, *others]) == []
        assert "items" in rows.describe(database, "shop")
        one = rows.describe_one(database, ITEMS)
        assert one
        assert rows.sums(database.query(rows.whole([one]))[0])[0] == 3
        assert len(ranges.samples(database, one, 0.5)) == 1
        for part in (ranges.next_range(database, one, None), ranges.Range(from_=ranges._middle(database, one, 0.5))):
            sql, parameters = ranges.ranged(one, range_of(bounds_of(part)))
            assert rows.sums(database.query(sql, parameters)[0])[0] > 0
        assert identity_of(database)[0] == str(ground.cluster.host(TARGET).plan().server_id)
        assert version_of(database)


def meet(ground: Ground) -> None:
    """Open snapshots of source and target at one position, to which the target has to go."""
    cluster = ground.cluster
    cluster.own(TARGET, cluster.flavor.pause_applier())
    cluster.own(PRIMARY, "REPLACE INTO shop.orders VALUES (1, '2026-01-01', UUID())", write_binlog=True)
    cluster.wait(SOURCE)
    with ground.run() as (run, target), reference_of(run) as reference:
        assert reference.party.name == SOURCE
        assert not why_not(run, target, reference)
        assert not filters_of(run, target, reference)
        with common_snapshot(run, reference) as (position, here, there):
            assert position == reached_by_target(run, target)
            for database in (here, there):
                assert database.query("SELECT COUNT(*) AS n FROM shop.items") == [{"n": 3}]
                database.execute("ROLLBACK TO SAVEPOINT compared")
    cluster.wait(TARGET)


def follow_primary(ground: Ground) -> None:
    """Point the target to the primary again, by GTID."""
    with ground.run() as (run, target):
        point_to_primary(run, target, start=None)
        ground.cluster.wait(TARGET)
        must_have_nothing_errant(run, target, state="")
        link = read_link(target, run.flavor)
        assert link
        assert link.is_running
        assert link.uses_gtid


def set_position(ground: Ground) -> None:
    """Forget replication, as of copied data, and begin at the position of a backup."""
    with ground.run() as (run, target):
        for statement in (*run.flavor.stop_replication(), *run.flavor.forget_replication([""])):
            target.execute(statement)
        assert read_link(target, run.flavor) is None
        have, _ = read_position(target, run.flavor)
        for statement in run.flavor.set_position(Coordinates(gtid=have), ""):
            target.execute(statement)
        point_to_primary(run, target, start=None)
    ground.cluster.wait(TARGET)


def pause_applier(ground: Ground) -> None:
    """Stop the source's applier for the copy, and start it."""
    flavor = ground.cluster.flavor
    with closing(ground.on(SOURCE)) as database:
        database.execute(flavor.pause_applier())
        link = read_link(database, flavor)
        assert link
        assert (link.io_running, link.sql_running) == ("Yes", "No")
        database.execute(flavor.resume_applier())
    ground.cluster.wait(SOURCE)


def keep_settings(ground: Ground) -> None:
    """Give the target's replication a delay, a filter and a variable, as it had before, and take them away."""
    flavor = ground.cluster.flavor
    word = "SOURCE" if any(option.name == "SOURCE_DELAY" for option in flavor.connection_options) else "MASTER"
    variable = "slave_net_timeout" if flavor.version < (8, 0, 26) or flavor.name == "mariadb" else "replica_net_timeout"
    for delay, filters, value in ((3, {"Replicate_Ignore_DB": "scratch,other"}, "20"), (0, {}, "10")):
        kept = KeptReplication(options={f"{word}_DELAY": str(delay)}, filters=filters, variables={variable: value})
        with ground.run(kept) as (run, target):
            assert keep_replication(run, target)
            for _ in range(100):
                if keep_replication(run, target) is None:
                    break
                run.clock.sleep(0.05)
            else:
                raise AssertionError("it is not kept")


def relax(ground: Ground) -> None:
    """Relax the target's durability while it catches up, and restore it."""
    flavor = ground.cluster.flavor
    items = relaxed_durability.relaxations(flavor, appliers=8, gtid=True)
    ordinary = [f"SET GLOBAL {name} = 1" for name in ("innodb_flush_log_at_trx_commit", "sync_binlog")]
    ground.cluster.own(TARGET, *ordinary)
    with ground.run() as (run, target):
        relaxing.relax(run, target)
        assert set(run.checkpoint["relaxed"]["was"]) == {item.variable for item in items}
        relaxing.restore_durability(run, target)
    ground.cluster.wait(TARGET)


def be_quiet(ground: Ground) -> None:
    """Keep a started copy quiet, and end that, with an event of another account that the target runs."""
    ground.cluster.own(TARGET, "SET GLOBAL event_scheduler = ON")
    with ground.run() as (run, target):
        quiet_settings.remember_events(run)
        run.checkpoint["own_events"] = [["shop", "nightly"]]
        quiet_settings.begin_quiet(run, target)
        wanted = {setting.variable for setting in quiet_settings.quiet_settings(run.flavor)}
        assert set(run.checkpoint["quiet"]) == wanted
        quiet_settings.end_quiet(run, target)
        target.execute("SET GLOBAL read_only = 1")
    ground.cluster.own(TARGET, "SET GLOBAL event_scheduler = OFF")


#: Everything that a dashboard's account does without an option.
ALWAYS: tuple[Act, ...] = (
    *(read_facts, find_servers, compare_objects, compare_rows, meet, pause_applier, follow_primary, set_position),
    *(keep_settings, relax, be_quiet, read_what_grows, read_wait_events, read_top_statements),
)
