"""What dbops does with a server in some cases alone: named channels, positions without GTID, a clone, and statements that only read."""

from contextlib import closing
from time import sleep

from dbops.engine.flavors import connection_options, run_time_settings
from dbops.engine.flavors.base import Coordinates, ReplicationSource
from dbops.engine.flavors.channels import read_channels
from dbops.engine.hosts.local_login import Account
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate import columns, rows
from dbops.engine.rebuilds.certificate.openable import Table
from dbops.engine.rebuilds.kept_replication import KeptReplication
from dbops.engine.rebuilds.steps.certify.reference import reference_of
from dbops.engine.rebuilds.steps.certify.snapshots import common_snapshot
from dbops.engine.rebuilds.steps.copy import clone
from dbops.engine.rebuilds.steps.copy.origin import must_be_of_source
from dbops.engine.rebuilds.steps.replicate.errant import must_have_nothing_errant
from dbops.engine.rebuilds.steps.source.release import open_temporary_tables
from tests.drivers.acts import Ground
from tests.drivers.clusters import PRIMARY, SOURCE, TARGET
from tests.drivers.sql_literals import plain_reads, statement_of

CHANNEL = "from here"


def source_of(ground: Ground, name: str, **more: object) -> ReplicationSource:
    host, account = ground.cluster.host(name), ground.cluster.account("replication")
    return ReplicationSource(host.address, host.port, account.user, account.password, **more)  # type: ignore[arg-type]


def replicate(database: Database, ground: Ground, source: ReplicationSource) -> None:
    sql, parameters = ground.cluster.flavor.replicate_from(source)
    database.execute(sql, parameters)
    for statement in ground.cluster.flavor.start_replication():
        database.execute(statement)


def forget(database: Database, ground: Ground, *channels: str) -> None:
    flavor = ground.cluster.flavor
    for statement in (*flavor.stop_replication(), *flavor.forget_replication(channels)):
        database.execute(statement)
    assert read_channels(database, flavor) == []


def use_a_channel(ground: Ground) -> None:
    """Replicate by a named channel: with options, filters and a delay, and at one position with the source."""
    cluster, flavor = ground.cluster, ground.cluster.flavor
    word = "SOURCE" if any(option.name == "SOURCE_DELAY" for option in flavor.connection_options) else "MASTER"
    wanted = {f"{word}_CONNECT_RETRY": "7", f"{word}_DELAY": "2"}
    if flavor.name == "mariadb" or flavor.version < (8, 4, 0):  # error 3139 with GTID
        wanted |= {"IGNORE_SERVER_IDS": "7,8"}
    kept = KeptReplication(channel=CHANNEL, options=wanted)
    with ground.run(kept) as (run, target):
        forget(target, ground, "")
        replicate(target, ground, source_of(ground, PRIMARY, channel=CHANNEL))
        for statement in flavor.stop_replication():
            target.execute(statement)
        replicate(target, ground, source_of(ground, PRIMARY, channel=CHANNEL, options=wanted))
        cluster.wait(TARGET)
        [link] = read_channels(target, flavor)
        assert link.channel == CHANNEL
        assert {name: link.options[name] for name in wanted} == wanted
        for statement in flavor.stop_replication():
            target.execute(statement)
        ordinary = {name: value for name, value in (*link.options.items(), (f"{word}_DELAY", "0")) if value}
        target.execute(
            flavor.change_options(CHANNEL, ordinary | dict.fromkeys(wanted.keys() & {"IGNORE_SERVER_IDS"}, ""))
        )
        filters = {name: FILTERS[name] for name in flavor.filter_names}
        if flavor.name == "mariadb":
            filters["Replicate_Rewrite_DB"] = "old->new,older->newer"
        for statement in (*flavor.set_filters(CHANNEL, filters), *flavor.start_replication()):
            target.execute(statement)
        [link] = read_channels(target, flavor)
        assert (link.options[f"{word}_DELAY"], link.options["IGNORE_SERVER_IDS"]) == ("0", "")
        assert all(connection_options.same_filter(name, link.filters[name], filters[name]) for name in filters)
        for statement in (*flavor.stop_replication(), *flavor.set_filters(CHANNEL, {}), *flavor.start_replication()):
            target.execute(statement)
        cluster.wait(TARGET)
        target.execute(flavor.pause_applier())
        cluster.own(PRIMARY, "REPLACE INTO shop.orders VALUES (1, '2026-01-01', UUID())", write_binlog=True)
        cluster.wait(SOURCE)
        with reference_of(run) as reference, common_snapshot(run, reference) as (position, _, _):
            assert position
        forget(target, ground, CHANNEL)
        replicate(target, ground, source_of(ground, PRIMARY))
    cluster.wait(TARGET)


FILTERS = {
    "Replicate_Do_DB": "shop,sbtest",
    "Replicate_Ignore_DB": "scratch",
    "Replicate_Do_Table": "shop.items,shop.orders",
    "Replicate_Ignore_Table": "shop.old",
    "Replicate_Wild_Do_Table": "sh%.i%,sb%.%",
    "Replicate_Wild_Ignore_Table": "scratch%.%",
    "Replicate_Rewrite_DB": "(old,new),(older,newer)",
}


def use_positions(ground: Ground) -> None:
    """Replicate without GTID: from a known position, and from an unknown one, which changes nothing."""
    cluster, flavor = ground.cluster, ground.cluster.flavor
    with closing(ground.on(TARGET)) as target, closing(ground.on(PRIMARY)) as primary:
        forget(target, ground, "")
        row = primary.query(flavor.show_binlog_position)[0]
        start = Coordinates(str(row["File"]), int(row["Position"]))
        replicate(target, ground, source_of(ground, PRIMARY, gtid=False, start=start))
        cluster.wait(TARGET)
        [link] = read_channels(target, flavor)
        assert not link.uses_gtid
        assert (link.relay_source_log_file, link.exec_source_log_pos) == (start.log_file, start.log_pos)
        forget(target, ground, "")
        replicate(target, ground, source_of(ground, PRIMARY, gtid=False))
        for _ in range(200):
            [link] = read_channels(target, flavor)
            if link.last_io_error:
                break
            sleep(0.05)
        assert "1236" in link.last_io_error or "position-unknown" in link.last_io_error
        forget(target, ground, "")
        replicate(target, ground, source_of(ground, PRIMARY))
    cluster.wait(TARGET)


def read_the_rest(ground: Ground) -> None:
    """Run the statements of steps and workers that only read and take no values."""
    flavor = ground.cluster.flavor
    with ground.run() as (run, target), closing(ground.on(PRIMARY)) as primary:
        assert open_temporary_tables(run) == 0
        row = run.source.connect(1.0).query(flavor.show_binlog_position)[0]
        must_be_of_source(run, Coordinates(str(row["File"]), int(row["Position"])))
        must_have_nothing_errant(run, run.source.connect(1.0), state="", is_copy=False)
        for sql in plain_reads("dbops/engine/rebuilds/steps", "dbops/worker"):
            if flavor.name == "mysql" or "uuid" not in sql:
                assert target.query(sql) or "SHOW" in sql or "EVENTS" in sql
                primary.query(sql)
        assert primary.query(statement_of("dbops/worker/expected_contents.py"), [0, 1000])
        assert columns.changes(primary, target, flavor, Table("shop", "old"), exact=True) == []
        assert rows.describe_one(primary, Table("shop", "gone")) is None


def see_settings(ground: Ground) -> None:
    """See what a statement set at run time; MySQL 5.7 does not tell it."""
    flavor = ground.cluster.flavor
    if not (statement := run_time_settings.show_run_time_settings(flavor)):
        assert flavor.version < (8, 0, 0)
        return
    with closing(ground.on(TARGET)) as database:
        [before] = database.query("SELECT @@GLOBAL.max_connections AS n")
        database.execute(run_time_settings.set_run_time("max_connections", "321"))
        found = run_time_settings.run_time_settings_from(database.query(statement), flavor)
        assert {one.name: one.value for one in found}["max_connections"] == "321"
        database.execute(run_time_settings.set_run_time("max_connections", str(before["n"])))


def open_donor(ground: Ground) -> None:
    """Create the account of a clone on the source, log in as it, and drop it. Servers before 8.0.18 are no donors."""
    if not ground.cluster.clones:
        return
    with ground.run() as (run, _), closing(ground.on(SOURCE)) as source:
        login = None
        try:
            clone.OpenDonor()._open(run, source)
            account = Account(clone.account_name(run.run_id), clone.new_password(run, source, "password"))
            login = ground.cluster.connect(SOURCE, account)
            assert login.query("SELECT 1")
            assert not clone.close_donor(run)  # it is still connected
        finally:
            for _ in range(100):
                if clone.close_donor(run):
                    break
                sleep(0.05)
            if login:
                login.close()
        assert clone.plugin_state(source) == ""


RARE = (use_a_channel, use_positions, read_the_rest, see_settings, open_donor)
