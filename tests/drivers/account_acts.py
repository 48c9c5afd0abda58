"""What the accounts of backups, dumps and replication do with a server, and which act shows that a privilege is missing."""

import subprocess
from contextlib import closing
from time import monotonic, sleep

from dbops.drivers.probe_server import read_server
from dbops.engine.flavors.base import BackupRequest, ReplicationSource
from dbops.engine.flavors.channels import read_channels
from dbops.engine.flavors.dumps import dump_options, dump_position
from dbops.engine.flavors.optionfile import credentials_text
from tests.drivers import acts, rare_acts
from tests.drivers.acts import NOW, Act, Ground
from tests.drivers.clusters import PRIMARY, SOURCE, TARGET
from tests.drivers.rare_acts import replicate


def programs(ground: Ground) -> dict[str, str]:
    """Return the programs of a host of the lab."""
    flavor = ground.cluster.lab.flavor
    return {**flavor.programs, **flavor.host_programs}


def over_socket(ground: Ground, *statements: str) -> None:
    """Run statements in one session on the source's socket, by the client program of its host."""
    place = ground.folder / "client.cnf"
    place.write_text(credentials_text(("client",), ground.account.user, ground.account.password))
    place.chmod(0o600)
    known = programs(ground)
    client = next(known[name] for name in (*ground.cluster.flavor.client_programs, "mysql") if name in known)
    socket = ground.cluster.host(SOURCE).socket
    words = [client, f"--defaults-file={place}", f"--socket={socket}", "--batch", "-e", "; ".join(statements)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stderr[-500:]
    ground.cluster.sent.update(statements)


def dump(ground: Ground) -> None:
    """Dump the source over its socket, with triggers, events, routines, views and a position."""
    flavor, place = ground.cluster.flavor, ground.folder / "dump.cnf"
    with closing(ground.cluster.connect(SOURCE)) as database:
        facts = read_server(database, our_users=(), measure=False, now=NOW, previous=None).facts
    place.write_text(credentials_text(("client",), ground.account.user, ground.account.password))
    place.chmod(0o600)
    known = programs(ground)
    program = known.get("mysqldump") or known["mariadb"].removesuffix("mariadb") + "mariadb-dump"
    options = dump_options(flavor, facts, credentials_file=str(place))
    if flavor.version[:2] == (5, 7):  # MariaDB's program dumps it
        options = [word for word in options if not word.startswith("--set-gtid-purged")]
    done = subprocess.run([program, *options], capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stderr[-500:]
    for words in ("TRIGGER", "EVENT", "PROCEDURE", "VIEW"):
        assert words in done.stdout
    assert dump_position(done.stdout).log_file


def finish_backup(ground: Ground) -> None:
    """Run the statements that the probe tries, and those of the tool: the whole tool where it is here."""
    flavor = ground.cluster.flavor
    over_socket(ground, *flavor.statements_of_backup(replica=True))
    if flavor.name == "mysql":
        over_socket(ground, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES")
        if flavor.version >= (8, 0, 0):
            read = "SELECT COUNT(*) FROM performance_schema.replication_group_members"
            over_socket(ground, "LOCK INSTANCE FOR BACKUP", "SELECT * FROM performance_schema.log_status", read)
    if tool := next((place for name, place in programs(ground).items() if name in flavor.backup_programs), ""):
        run_tool(ground, tool)


def run_tool(ground: Ground, tool: str) -> None:
    """Stream a backup of the source to nowhere."""
    flavor, source = ground.cluster.flavor, ground.cluster.host(SOURCE).plan()
    place, account, folder = ground.folder / "backup.cnf", ground.account, ground.folder / "tool"
    place.write_text(flavor.credentials_file(account.user, account.password, plugin_dir=""))
    place.chmod(0o600)
    folder.mkdir(exist_ok=True)
    request = BackupRequest(
        str(place), str(source.socket), str(source.data_dir), str(folder), str(folder), 1, open_files_limit=4096
    )
    words = flavor.backup_command(tool, request)
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def lock_tables(ground: Ground) -> None:
    """Lock tables of an engine without snapshots."""
    over_socket(ground, "FLUSH TABLES shop.old WITH READ LOCK")


def follow(ground: Ground) -> None:
    """Replicate from the primary as the account."""
    cluster, flavor = ground.cluster, ground.cluster.flavor
    host, account = cluster.host(PRIMARY), ground.account
    with closing(cluster.connect(TARGET)) as database:
        for statement in flavor.stop_replication():
            database.execute(statement)
        replicate(database, ground, ReplicationSource(host.address, host.port, account.user, account.password))
        cluster.own(PRIMARY, "REPLACE INTO shop.orders VALUES (1, '2026-01-01', UUID())", write_binlog=True)
        wanted, deadline, missing = cluster.executed(PRIMARY), monotonic() + 10, "all"
        while missing and monotonic() < deadline:
            [link] = read_channels(database, flavor)
            missing = flavor.gtid_missing(wanted, cluster.executed(TARGET))
            assert not link.last_io_error, link.last_io_error
            sleep(0.05)
    assert not missing
    cluster.heal()


#: What a privilege is for: the act of the account that fails without it.
DASHBOARD: dict[str, Act] = {
    **dict.fromkeys(("SELECT", "PROCESS", "REPLICATION CLIENT", "REPLICATION SLAVE"), acts.read_facts),
    **dict.fromkeys(("BINLOG MONITOR", "SLAVE MONITOR", "REPLICATION MASTER ADMIN", "BINLOG ADMIN"), acts.read_facts),
    **dict.fromkeys(("SHOW VIEW", "TRIGGER", "EVENT"), acts.compare_objects),
    **dict.fromkeys(("RELOAD", "READ_ONLY ADMIN"), acts.set_position),
    **dict.fromkeys(("REPLICATION SLAVE ADMIN", "REPLICATION_SLAVE_ADMIN"), acts.pause_applier),
    **dict.fromkeys(("SUPER", "SYSTEM_VARIABLES_ADMIN"), acts.relax),
    **dict.fromkeys(
        ("CONNECTION_ADMIN", "CONNECTION ADMIN", "SET USER", "SET_USER_ID", "SET_ANY_DEFINER"), acts.be_quiet
    ),
    "EXECUTE": dump,
    **dict.fromkeys(("CREATE USER", "BACKUP_ADMIN", "INSERT", "DELETE"), rare_acts.open_donor),
}
BACKUP: dict[str, Act] = dict.fromkeys(
    ("PROCESS", "RELOAD", "REPLICATION CLIENT", "BACKUP_ADMIN", "BINLOG MONITOR", "SLAVE MONITOR"), finish_backup
)
BACKUP |= {"SELECT": finish_backup, "LOCK TABLES": lock_tables}
NEEDED_BY = {"dashboard": DASHBOARD, "backup": BACKUP, "replication": {"REPLICATION SLAVE": follow}}
