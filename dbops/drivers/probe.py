"""Probe one instance: the host by SSH, the server by SQL. Each part can fail on its own."""

import posixpath
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dbops.drivers.probe_growth import is_growth_due, read_growth
from dbops.drivers.probe_host import ADMIN, HostReading, Inspect, read_host
from dbops.drivers.probe_server import ServerReading, clients, read_server
from dbops.drivers.probe_tidb import read_tidb
from dbops.engine.backups.tools import DEFAULT_PORT
from dbops.engine.errors import DbopsError, Refused
from dbops.engine.facts.age import age_seconds
from dbops.engine.facts.backups import FoundSchedule
from dbops.engine.facts.growth import GrowthReading
from dbops.engine.facts.instance import DatadirFacts, HostFacts, InstanceFacts, ProbeProblem, StatementCheck
from dbops.engine.flavors.optionfile import credentials_text
from dbops.engine.flavors.privileges import SHOW_GRANTS
from dbops.engine.flavors.tidb import is_tidb
from dbops.engine.hosts.local_login import NO_ACCOUNT, PLUGINS, Account, why_withheld
from dbops.engine.phrases import phrase
from dbops.engine.ports import Database, Shell

#: interval of reading sizes
MEASURE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """An instance's parameters for a probe. ``work_dir`` is dbops's directory on the host.

    ``our_users`` belong to dbops, so their connections do not count as clients. The probe tests the account ``backup`` over the
    local socket with the statements that the backup tool needs, and the login of ``local``, the dashboard's own, there.
    ``is_tidb``: the inventory says that it is a TiDB node.
    """

    datadir: str
    defaults_file: str = ""
    local: Account = NO_ACCOUNT
    backup: Account = NO_ACCOUNT
    our_users: tuple[str, ...] = ()
    address: str = ""
    port: int = DEFAULT_PORT
    work_dir: str = ""
    group_suffix: str = ""
    is_tidb: bool = False


def probe_instance(
    target: ProbeTarget,
    shell: Shell,
    open_database: Callable[[], Database],
    now: datetime,
    previous: InstanceFacts | None = None,
    *,
    is_fresh: bool = False,
) -> InstanceFacts:
    """Return the facts of host and server. Does not raise for their errors.

    Args:
        now: becomes ``observed_at``.
        previous: the last probe's facts, for slow readings that are still valid, and for rates.
        is_fresh: read the facts of the data now (engines, tablespaces, links), not the sizes, which take long.
    """
    began, measure = time.monotonic(), is_measuring_due(now, previous)
    stored = measure or is_fresh or _stops_plans(previous)

    def clock() -> float:
        return now.timestamp() + time.monotonic() - began

    # a plan is waiting for a fresh one
    grows = not is_fresh and is_growth_due(now, previous)
    server, server_problem, growth = _server(target, open_database, now, previous, measure=stored, grows=grows)
    # A wrapper script does not change when its target does: occasionally read all versions.
    known = previous.host if previous and not measure else None
    host, host_problem = _host(target, shell, _inspect(measure, stored), server, known, clock)
    tried = (*host.statements, *(_withheld(target, server) if server else ())) if host else ()
    return InstanceFacts(
        observed_at=now,
        host=host.host if host else None,
        datadir=with_sizes(_with_stored(host.datadir, previous), measure, now, previous) if host else None,
        config=host.config if host else None,
        server=server.facts if server else None,
        backup_account=tuple(item for item in tried if not item.statement.startswith(ADMIN)),
        admin_login=next(
            (replace(item, statement=SHOW_GRANTS) for item in tried if item.statement.startswith(ADMIN)), None
        ),
        local_privileges=host.local_privileges if host else None,
        backup_processes=host.backups if host else None,
        found_schedules=_schedules(host, previous),
        host_problem=host_problem,
        server_problem=server_problem,
        stored_at=now if server and stored else previous.stored_at if previous else None,
        growth=growth or (previous.growth if previous else None),
        **_replication_seen(server, now, previous),
    )


def _replication_seen(server: ServerReading | None, now: datetime, previous: InstanceFacts | None) -> dict[str, Any]:
    """Keep how the instance last replicated while its server is down: a rebuild restores it."""
    if server:
        group = server.facts.group
        return {"replication_seen": server.facts.replication, "replication_seen_at": now, "group_seen": group}
    if previous is None:
        return {}
    return {
        "replication_seen": previous.replication_seen,
        "replication_seen_at": previous.replication_seen_at,
        "group_seen": previous.group_seen,
    }


def is_measuring_due(now: datetime, previous: InstanceFacts | None) -> bool:
    """Whether the sizes are due: never read, ``MEASURE_SECONDS`` ago, or in the future, before the clock was set back."""
    if previous is None or previous.datadir is None or previous.datadir.measured_at is None:
        return True
    age = age_seconds(previous.datadir.measured_at, now)
    return age is None or age >= MEASURE_SECONDS


def with_sizes(found: DatadirFacts, measured: bool, now: datetime, previous: InstanceFacts | None) -> DatadirFacts:
    """Return the directory's facts; use the sizes of ``previous`` if none were read and the directory is the same."""
    if not found.exists:
        return found
    known = previous.datadir if previous else None
    same = known is not None and known.identity == found.identity
    if measured and (found.total_bytes is not None or not same):
        return replace(found, measured_at=now)
    if known is None or not same:
        return found
    # reading took too long: keep the old sizes, and retry after the normal interval
    measured_at = now if measured else known.measured_at
    sizes = {name: getattr(known, name) for name in ("data_bytes", "total_bytes", "kept_bytes")}
    if found.is_empty:
        sizes |= {"data_bytes": 0, "total_bytes": 0}  # plans count on the space of the old data
    return replace(found, measured_at=measured_at, **sizes)


def _stops_plans(previous: InstanceFacts | None) -> bool:
    """Whether the data can stop a plan: it is then read each time, so that a plan is possible soon after a person fixed it."""
    data = previous.server.stored if previous and previous.server else None
    files = previous.datadir.stored if previous and previous.datadir else None
    return bool((data and data.outside_files) or (files and (files.links or files.keys)))


def _inspect(measure: bool, stored: bool) -> Inspect:
    if measure:
        return Inspect.ALL
    return Inspect.FILES if stored else Inspect.CHEAP


def _with_stored(found: DatadirFacts, previous: InstanceFacts | None) -> DatadirFacts:
    """Keep what was last read of the same directory, and asked about its storage, between two readings."""
    known = previous.datadir if previous else None
    if known is None or known.identity != found.identity:
        return found
    if found.storage and known.storage and found.storage.answers is None:
        same = replace(known.storage, answers=None) == found.storage
        found = replace(found, storage=replace(found.storage, answers=known.storage.answers if same else None))
    return found if found.stored is not None else replace(found, stored=known.stored)


def _schedules(host: HostReading | None, previous: InstanceFacts | None) -> tuple[FoundSchedule, ...] | None:
    """Keep the last reading between two readings and while the host is silent, because it rarely changes."""
    if host and host.schedules is not None:
        return host.schedules
    return previous.found_schedules if previous else None


def _server(
    target: ProbeTarget,
    open_database: Callable[[], Database],
    now: datetime,
    previous: InstanceFacts | None,
    *,
    measure: bool,
    grows: bool,
) -> tuple[ServerReading | None, ProbeProblem | None, GrowthReading | None]:
    database = None
    try:
        database = open_database()
        if target.is_tidb:
            return _tidb(target, database, now, previous, grows=grows)
        reading = read_server(
            database,
            our_users=target.our_users,
            measure=measure,
            now=now,
            previous=previous,
            addresses=(target.address,),
        )
        known, flavor = previous.growth if previous else None, reading.flavor
        return reading, None, read_growth(database, flavor, now, known, reading.facts) if grows and flavor else None
    except DbopsError as error:
        return None, _problem(error), None
    finally:
        if database is not None:
            database.close()


def _tidb(
    target: ProbeTarget, database: Database, now: datetime, previous: InstanceFacts | None, *, grows: bool
) -> tuple[ServerReading, None, GrowthReading | None]:
    """Read a TiDB node. Raises ``flavor.not_tidb`` for another server."""
    first = database.query("SELECT VERSION() AS version, @@version_comment AS comment")[0]
    version, comment = str(first["version"]), str(first["comment"])
    if not is_tidb(version, comment):
        raise Refused.unchanged(
            "flavor.not_tidb",
            phrase("Reading a TiDB node"),
            phrase("the server is {version} ({comment})", version=version, comment=comment),
        )
    connected = tuple(clients(database.query("SHOW FULL PROCESSLIST"), target.our_users))
    found = read_tidb(database, version, comment, now=now, previous=previous, grows=grows)
    return ServerReading(replace(found.facts, clients=connected), None), None, found.growth


def _host(
    target: ProbeTarget,
    shell: Shell,
    inspect: Inspect,
    server: ServerReading | None,
    known: HostFacts | None,
    clock: Callable[[], float],
) -> tuple[HostReading | None, ProbeProblem | None]:
    try:
        statements, credentials = _logins(target, server) if server else ([], "")
        reading = read_host(
            shell,
            datadir=target.datadir,
            defaults_file=target.defaults_file,
            group_suffix=target.group_suffix,
            inspect=inspect,
            plugin_dir=server.facts.stored.plugin_dir if server and server.facts.stored else "",
            # a socket path can be relative to the data directory
            socket=posixpath.join(server.facts.datadir, server.facts.socket) if server else "",
            credentials=credentials,
            statements=statements,
            address=target.address,
            port=target.port,
            work_dir=target.work_dir,
            known=known.tools if known else {},
            known_ciphers=known.ssh_ciphers if known else (),
            clock=clock,
        )
    except DbopsError as error:
        return None, _problem(error)
    return reading, None


def _logins(target: ProbeTarget, server: ServerReading) -> tuple[list[str], str]:
    """Return what to try over the local socket, and an option file: the backup account's statements, and the dashboard's login."""
    statements: list[str] = []
    credentials = ""
    if server.flavor is None:
        return statements, credentials
    if target.backup.user and not why_withheld(server.flavor, target.backup):
        statements = server.flavor.statements_of_backup(replica=bool(server.facts.replication))
        credentials = credentials_text(
            server.flavor.credential_groups, target.backup.user, target.backup.password, plugin_dir=PLUGINS
        )
    if target.local.user and not why_withheld(server.flavor, target.local):
        statements = [*statements, f"{ADMIN}{SHOW_GRANTS}"]
        credentials += credentials_text(("client_admin",), target.local.user, target.local.password, plugin_dir=PLUGINS)
    return statements, credentials


def _withheld(target: ProbeTarget, server: ServerReading) -> list[StatementCheck]:
    """Return the tests that would reveal a password."""
    found: list[StatementCheck] = []
    if server.flavor is None:
        return found
    if reason := why_withheld(server.flavor, target.backup):
        found.append(StatementCheck("SELECT 1", reason))
    if reason := why_withheld(server.flavor, target.local):
        found.append(StatementCheck(f"{ADMIN}{SHOW_GRANTS}", reason))
    return found


def _problem(error: DbopsError) -> ProbeProblem:
    return ProbeProblem(error.code, f"{error.operation}: {error.cause}" if error.cause else error.operation)
