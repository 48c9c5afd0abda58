"""Every statement that dbops sends, the facts of a probe, and the documented accounts, on real servers of each series."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dbops.drivers.discover import discover
from dbops.engine.errors import DbopsError
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.base import Coordinates, ReplicationSource
from dbops.engine.flavors.privileges import SHOW_GRANTS, missing_for_rebuild, needed_for_rebuild
from dbops.engine.hosts.local_login import NO_ACCOUNT
from dbops.engine.states import Severity
from tests.drivers import account_acts
from tests.drivers.acts import ALWAYS, Act, Ground, named
from tests.drivers.clusters import SERIES, SOURCE, TARGET, Cluster, start_cluster
from tests.drivers.documented import CLONE, MYISAM, PERCONA, Documented, Grant
from tests.drivers.probing import about_accounts, check_channels, check_host, check_server, probe
from tests.drivers.rare_acts import CHANNEL, RARE, replicate, source_of
from tests.drivers.sql_literals import untried

pytestmark = pytest.mark.services
#: What the servers of each series were sent.
SENT: dict[str, set[str]] = {}
ACTS = (*ALWAYS, *RARE, account_acts.dump, account_acts.finish_backup, account_acts.follow)


MARKED = (
    pytest.param("mariadb", marks=pytest.mark.runs("MariaDB 10.11", "statements")),
    pytest.param("mariadb-11.8", marks=pytest.mark.runs("MariaDB 11.8", "statements")),
    pytest.param("mysql-5.7", marks=pytest.mark.runs("MySQL 5.7", "statements")),
    pytest.param("mysql-8.0", marks=pytest.mark.runs("MySQL 8.0", "statements")),
    pytest.param("mysql-9.7", marks=pytest.mark.runs("MySQL 9.7", "statements")),
)


@pytest.fixture(scope="module", params=MARKED)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if SERIES[request.param]:
        pytest.skip(SERIES[request.param])
    with start_cluster(request.param, "series") as cluster:
        SENT[request.param] = cluster.sent
        yield cluster


def perform(act: Act, ground: Ground) -> None:
    """Perform an act. After a failure the servers are as new: what follows does not fail for it."""
    try:
        act(ground)
        ground.cluster.performed.add(act)
    except BaseException:
        ground.cluster.heal()
        raise


@pytest.fixture(scope="module")
def documented(cluster: Cluster) -> Iterator[Documented]:
    documented = Documented(cluster)
    documented.create(without=(MYISAM, PERCONA) if cluster.clones else (MYISAM, PERCONA, CLONE))
    yield documented
    documented.drop()


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_documented_accounts_may_do(cluster: Cluster, documented: Documented, act: Act, tmp_path: Path) -> None:
    perform(act, ground_of(cluster, documented, act, tmp_path))


def ground_of(cluster: Cluster, documented: Documented, act: Act, folder: Path) -> Ground:
    """Return the ground of the account whose act it is."""
    others = {account_acts.finish_backup: documented.backup, account_acts.follow: documented.replication}
    return Ground(cluster, others.get(act, documented.dashboard), folder)


def test_probe_finds_no_fault_in_documented_accounts(cluster: Cluster, documented: Documented) -> None:
    account = documented.dashboard
    facts = probe(cluster, SOURCE, admin=account, local=account, backup=documented.backup)
    found = list(about_accounts(facts))
    expected = {"source.account", "source.admin_login", "source.dashboard_account", "target.admin_login"}
    assert {finding.code for finding in found} == expected
    assert {finding.severity for finding in found} == {Severity.OK}, found


def test_each_documented_privilege_is_needed(cluster: Cluster, documented: Documented, tmp_path: Path) -> None:
    ours = [grant for grant in documented.each() if not grant.is_implied_by_super(cluster.flavor)]
    superfluous = [grant for grant in ours if works_without(cluster, documented, grant, tmp_path)]
    # what one option alone makes possible hides what the others need
    documented.create(only=MYISAM)
    assert [grant for grant in superfluous if works_without(cluster, documented, grant, tmp_path)] == []
    for kind, act in {(grant.kind, account_acts.NEEDED_BY[grant.kind][grant.privilege]) for grant in ours}:
        perform(act, Ground(cluster, getattr(documented, kind), tmp_path))


def test_privilege_that_a_rebuild_needs_is_missed(cluster: Cluster, documented: Documented) -> None:
    """A plan knows what would fail after the copy."""
    needed = {names[0] for names in needed_for_rebuild(cluster.flavor)}
    grants = [grant for grant in documented.each() if grant.kind == "dashboard" and grant.privilege in needed]
    assert {grant.privilege for grant in grants} == needed
    for grant in grants:
        documented.take(grant)
        with closing(cluster.connect(SOURCE, documented.dashboard)) as database:
            lines = [str(text) for row in database.query(SHOW_GRANTS) for text in row.values()]
        documented.give(grant)
        assert missing_for_rebuild(cluster.flavor, lines) == (grant.privilege,)


def works_without(cluster: Cluster, documented: Documented, grant: Grant, folder: Path) -> bool:
    """Return whether the act that needs a privilege can do without it."""
    act = account_acts.NEEDED_BY[grant.kind][grant.privilege]
    documented.take(grant)
    try:
        perform(act, Ground(cluster, getattr(documented, grant.kind), folder))
    except (DbopsError, AssertionError):
        return False
    finally:
        documented.give(grant)
    return True


def test_facts_are_those_of_the_server(cluster: Cluster) -> None:
    cluster.wait()
    owner = cluster.account("owner")
    facts = probe(cluster, SOURCE, admin=owner, local=NO_ACCOUNT, backup=NO_ACCOUNT)
    assert facts.server
    check_host(cluster, facts)
    check_server(cluster, facts.server)


def test_each_channel_of_a_replica_is_read(cluster: Cluster) -> None:
    if cluster.flavor.name == "mariadb":
        pytest.skip("its connections are read by one statement, in tests/situations")
    ground = Ground(cluster, cluster.account("owner"), Path("/"))
    word = "SOURCE" if cluster.flavor.version >= (8, 0, 23) else "MASTER"
    with closing(cluster.connect(TARGET)) as database:
        source = source_of(ground, SOURCE, channel="second", options={f"{word}_CONNECT_RETRY": "9"})
        replicate(database, ground, source)
    try:
        cluster.wait(TARGET)
        deadline = time.monotonic() + 30
        while True:  # a connection of the same transactions can pause for a moment
            facts = probe(cluster, TARGET, admin=ground.account, local=NO_ACCOUNT, backup=NO_ACCOUNT)
            assert facts.server
            if all(link.is_running for link in facts.server.replication) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        check_channels(cluster, facts.server)
        start = cluster.host(TARGET)
        found = discover((start.address, start.port), lambda host, _: cluster.connect(named(cluster, host)))
        links = {node.addresses[0][0]: node.links for node in found.nodes}
        assert [link.channel for link in links[start.address] or ()] == ["", "second"]
        assert len(links) == 3
    finally:
        cluster.heal()


def test_every_statement_of_the_flavor_is_tried(cluster: Cluster, documented: Documented, tmp_path: Path) -> None:
    """A new method of a flavor has to be named here: among those with statements, or among the others."""
    names = {name for name in dir(Flavor) if not name.startswith("_")}
    assert names == STATEMENTS.keys() | NO_STATEMENTS
    assert not STATEMENTS.keys() & NO_STATEMENTS
    for act in set(ACTS) - cluster.performed:
        perform(act, ground_of(cluster, documented, act, tmp_path))
    wanted = {name: made(cluster.flavor) for name, made in STATEMENTS.items()}
    missing = {name: [one for one in texts if not cluster.took(one)] for name, texts in wanted.items()}
    assert {name: texts for name, texts in missing.items() if texts} == {}


START = Coordinates(gtid=f"{'1' * 8}-1111-1111-1111-{'1' * 12}:1-5")
#: The statements of each method, at least their beginnings.
STATEMENTS: dict[str, Callable[[Flavor], list[str]]] = {
    "change_options": lambda flavor: [flavor.change_options("", {}).rstrip()],
    "forget_replication": lambda flavor: [*flavor.forget_replication([""]), *flavor.forget_replication([CHANNEL])],
    "oldest_gtid": lambda flavor: [flavor.oldest_gtid("binlog.000001")],
    "pause_applier": lambda flavor: [flavor.pause_applier()],
    "replicate_from": lambda flavor: [
        flavor.replicate_from(ReplicationSource("h", 1, "u", "p", gtid=gtid, channel=channel))[0]
        for gtid, channel in ((True, ""), (False, ""), (True, CHANNEL))
    ],
    "resume_applier": lambda flavor: [flavor.resume_applier()],
    "set_filters": lambda flavor: [one for channel in ("", CHANNEL) for one in flavor.set_filters(channel, {})],
    "set_position": lambda flavor: [one.partition(" =")[0] for one in flavor.set_position(STARTS[flavor.name], "")],
    "show_binlog_position": lambda flavor: [flavor.show_binlog_position],
    "show_channel_settings": lambda flavor: [flavor.show_channel_settings],
    "show_replicas": lambda flavor: [flavor.show_replicas],
    "show_replication": lambda flavor: [flavor.show_replication],
    "start_replication": lambda flavor: flavor.start_replication(),
    "statements_of_backup": lambda flavor: flavor.statements_of_backup(replica=True),
    "stop_replication": lambda flavor: flavor.stop_replication(),
}
STARTS = {"mysql": START, "mariadb": Coordinates(gtid="0-1-5")}
NO_STATEMENTS = {
    *("backup_command", "clone_problem", "compress_problem", "connection_options", "credentials_file", "filter_names"),
    *("gtid_count_missing", "gtid_missing", "metadata_files", "parse_backup_line", "parse_binlog_info"),
    *("parse_checkpoints", "parse_info", "parse_prepare_line", "parse_replication", "parse_tool_version"),
    *(
        "prepare_command",
        "prepare_habits",
        "tool_ignores_unknown_options",
        "variable_name",
        "prepared_type",
        "read_status",
        "read_variables",
    ),
    *("same_run", "server_facts_from", "tool_problem", "tool_warning", "unpack_command"),
}
#: Beginnings of texts that no driver sends to a server, and who shows or runs them.
EXEMPT = (
    # of members of a group alone: tests/situations/test_group_replication.py sends it
    "SELECT * FROM performance_schema.replication_group_members",
    *(
        "SHOW VIEW",
        "SIGNAL SQLSTATE",
        "(SELECT 0 AS i FROM `each`",
    ),  # the name of a privilege, a value, a line of the plan
    *("SET GLOBAL \0 = (its earlier value)", "UNINSTALL PLUGIN \0   -- if"),  # lines of the plan
    # parts of one statement that begins with the clock, and what operators run: tests/drivers/test_waits.py
    *(
        "SELECT 'setup'",
        "SELECT 'status'",
        "SELECT 'setting'",
        "SELECT 'consumer'",
        "SELECT 'instrument'",
        "SELECT 'active'",
    ),
    # where performance_schema is on, as in tests/drivers/test_digests.py, and a client on a load test's host: test_digest_load.py
    *("SELECT TABLE_SCHEMA AS name, COUNT(*)", "SELECT TABLE_NAME AS table_name", "SELECT COALESCE(SUM(COUNT_STAR)"),
    *("SELECT MIN(SCHEMA_NAME)", "SET SESSION \0, sql_mode = ''", "SELECT 'row', "),
    # what operators run of an advice: tests/drivers/test_advice_statements.py
    *("SET PERSIST", "SELECT innodb_set_open_files_limit("),
    "CREATE DATABASE IF NOT EXISTS \0;\nUSE \0;\n\0",  # a client on a load test's host: tests/e2e/test_load_tests.py
    *("(SELECT 'wait'", "UPDATE performance_schema.setup_instruments"),
    "UPDATE mysql.event SET status",  # a line of the plan; scripts/target/quiet_copy.sh runs it
    "SET SESSION sql_mode = '';\nSET GLOBAL clone_valid_donor_list",  # a client on the target's host: tests/e2e/test_clone.py
    *(
        "SELECT /*!40001 SQL_NO_CACHE */",
        "FLUSH TABLES WITH READ LOCK",
        "BACKUP STAGE",
    ),  # signs of other tools' backups
    *("LOCK INSTANCE FOR BACKUP", "LOCK TABLES FOR BACKUP"),
    "GRANT CREATE USER ON *.* TO 'dbops'@'DASHBOARD'",  # one by one, with other names: tests/drivers/documented.py
    *("SHOW TABLE \0.\0 REGIONS", "CREATE USER '\0'@'HOST'"),  # of TiDB: tests/drivers/test_tidb_load.py
)


def test_every_statement_of_the_product_is_tried() -> None:
    if SENT.keys() != {series for series, why_not in SERIES.items() if not why_not}:
        pytest.skip("needs what the tests of every series sent")
    found = untried(set().union(*SENT.values()), EXEMPT)
    assert not found, "\n".join(map(str, found))
