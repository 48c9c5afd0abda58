"""A probe of a lab's host as production makes it: over SSH, with accounts on the server's socket."""

from collections.abc import Iterator
from pathlib import Path

from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.probe_server import LSN
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.facts.instance import InstanceFacts, ServerFacts
from dbops.engine.flavors import connection_options
from dbops.engine.flavors.versions import dotted
from dbops.engine.hosts.local_login import Account
from dbops.engine.planning.checks import pair, source
from dbops.engine.rebuilds.plan import Finding
from lab.checks import current_user
from tests.drivers.acts import NOW
from tests.drivers.clusters import PRIMARY, SOURCE, Cluster
from tests.engine.builders import inputs, member

#: Of a data directory, what a backup leaves out: redo, doublewrite, temporary tables, binary and relay logs.
LEFT_OUT = ("ib_logfile", "#innodb_redo/", "#ib_16384_", "ibtmp1", "#innodb_temp/", "binlog.", "relay")
#: Files of a data directory that a probe does not count.
SMALL_BYTES = 1024**2
#: Redo that a server without clients writes within seconds.
MOVED_BYTES = 64 * 1024


def probe(cluster: Cluster, name: str, *, admin: Account, local: Account, backup: Account) -> InstanceFacts:
    """Return the facts of a host and its server. On a busy machine, one in three probes may take too long."""
    host = cluster.host(name)
    key = (cluster.lab.ssh_key).read_text()
    shell = SshShell(SshAddress(host.address, host.ssh_port, current_user(), key, host.sshd.host_key))
    target = ProbeTarget(
        datadir=str(host.data_dir),
        defaults_file=str(host.config_file),
        local=local,
        backup=backup,
        our_users=(admin.user, backup.user),
        address=host.address,
        port=host.port,
        work_dir=str(host.work_dir),
    )
    try:
        for _ in range(3):
            facts = probe_instance(target, shell, lambda: cluster.connect(name, admin), NOW)
            if facts.is_reachable:
                break
        return facts
    finally:
        shell.close()


def about_accounts(facts: InstanceFacts) -> Iterator[Finding]:
    """Yield what a plan says of the accounts on the probed server, as source and as target."""
    world = inputs(
        source=member("backup-1", "backup", 12, facts=facts), target=member("replica-1", "replica", 13, facts=facts)
    )
    yield from source.backup_account_may_finish(world)
    yield from pair.local_logins_work(world)
    yield from pair.dashboard_has_privileges(world)


def size_of_data(datadir: Path) -> int:
    """Return the bytes of a backup of a data directory."""
    files = {path.relative_to(datadir).as_posix(): path for path in datadir.rglob("*") if path.is_file()}
    return sum(path.stat().st_size for name, path in files.items() if not name.startswith(LEFT_OUT))


def check_host(cluster: Cluster, facts: InstanceFacts) -> None:
    """Compare what was read on the host with its option file, its programs and its files."""
    assert facts.host
    assert facts.datadir
    assert facts.config
    host, flavor = cluster.host(SOURCE), cluster.flavor
    plan = host.plan()
    server = next(facts.host.tools[name] for name in flavor.server_programs if name in facts.host.tools)
    assert server.version
    assert server.version.startswith(dotted(flavor.version))
    assert any(name in facts.host.tools for name in flavor.client_programs)
    config = facts.config
    assert (config.server_id, config.port, config.socket) == (plan.server_id, plan.port, str(plan.socket))
    assert (config.datadir, config.read_only) == (str(plan.data_dir), True)
    assert config.skip_replica_start is (flavor.name == "mysql")
    written = {name.replace("-", "_"): str(value) for name, value in _options(host.config_file).items()}
    assert {name: config.options[name] for name in written} == written
    assert facts.datadir.owner.partition(":")[0] == plan.user
    assert facts.datadir.server_pids == (host.server_pid(),)
    assert facts.datadir.data_bytes
    assert 0 <= size_of_data(plan.data_dir) - facts.datadir.data_bytes < SMALL_BYTES
    assert facts.datadir.stored
    assert facts.datadir.stored.links == ()


def _options(path: Path) -> dict[str, str]:
    """Return the options of the server's group that have a value."""
    text = path.read_text().partition("[mysqld]\n")[2].partition("\n[")[0]
    pairs = (line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def check_server(cluster: Cluster, server: ServerFacts) -> None:
    """Compare what the server answered with what was set."""
    host, flavor = cluster.host(SOURCE), cluster.flavor
    plan = host.plan()
    assert (server.flavor, server.version) == (flavor.name, dotted(flavor.version))
    assert (server.server_id, server.port, server.socket) == (plan.server_id, plan.port, str(plan.socket))
    assert server.datadir.rstrip("/") == str(plan.data_dir)
    assert (server.read_only, server.log_bin, server.log_replica_updates, server.gtid_enabled) == (True,) * 4
    assert (server.gtid_executed, server.binlog_format) == (cluster.executed(SOURCE), "ROW")
    assert bool(server.server_uuid) is (flavor.name == "mysql")
    assert (server.binlog_expire_seconds, server.page_size, server.doublewrite) == (86400, 16384, "ON")
    writes = server.page_writes
    assert writes is not None
    assert writes.is_direct is not None
    assert None not in (writes.pages, writes.doublewritten)
    assert (writes.use_atomic == "ON") is (server.flavor == "mariadb")
    assert server.redo_capacity_bytes == max(plan.redo_bytes, 16 * 1024**2)
    assert server.external_paths == ()
    assert server.gtid_purged == ""
    assert server.parallel_workers == int(cluster.ordinary.get("replica_parallel_workers", 0))
    status = str(cluster.ask(SOURCE, "SHOW ENGINE INNODB STATUS")[0]["Status"])
    assert 0 <= int(LSN.findall(status)[0]) - server.redo_lsn < MOVED_BYTES
    assert (server.clone is not None) is cluster.clones
    stored, primary = server.stored, cluster.host(PRIMARY)
    assert stored
    assert not stored.is_encrypted
    assert (stored.outside_files, stored.components, stored.binlog_filters) == ((), (), {})
    assert stored.settings["innodb_page_size"] == "16384"
    assert stored.account_plugins
    login = (
        "mysql_native_password" if flavor.version < (8, 0, 0) or flavor.name == "mariadb" else "caching_sha2_password"
    )
    assert login in stored.account_plugins
    [link] = server.replication
    assert (link.source_host, link.source_port, link.source_user) == (primary.address, primary.port, "repl")
    assert (link.io_running, link.sql_running, link.lag_seconds, link.uses_gtid) == ("Yes", "Yes", 0.0, True)
    assert link.source_server_id == primary.plan().server_id, link
    assert connection_options.value_of("CONNECT_RETRY", link.options) == "2"
    assert (connection_options.value_of("SSL", link.options) == "1") is (cluster.lab.settings.flavor in WITH_TLS)


#: Series whose replicas of the lab use TLS: MariaDB does by default from 11.4 on.
WITH_TLS = ("mariadb-11.8", "mysql-8.0", "mysql-9.7")


def check_channels(cluster: Cluster, facts: ServerFacts) -> None:
    """Two connections, of which one is named: both are read, each with its source and options."""
    links = {link.channel: link for link in facts.replication}
    assert set(links) == {"", "second"}
    assert links[""].source_host == cluster.host(PRIMARY).address
    assert links["second"].source_host == cluster.host(SOURCE).address
    retries = [connection_options.value_of("CONNECT_RETRY", links[name].options) for name in ("", "second")]
    # the lab's, or the server's default after another test has attached it again
    assert retries in (["2", "9"], ["60", "9"]), retries
    assert all(link.is_running for link in links.values()), links
