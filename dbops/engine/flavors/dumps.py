"""Differences between mysqldump and mariadb-dump: names, options, and the lines of a dump with its position.

``mysqldump`` is a name of both products: on a host with ``default-mysql-client`` it is MariaDB's, whatever the server is. So the
program's own version decides about its options.

``--dump-slave`` and ``--dump-replica`` are not used on replicas: both stop the replica's applier during the dump, and a killed
dump leaves the applier stopped; MySQL's also creates an errant transaction (measured). A replica with its own binary log has its
own position, which covers every applied transaction; with GTID a restored copy needs nothing else.
"""

import re
from collections.abc import Iterable, Mapping

from dbops.engine.facts.instance import ServerFacts, Tool
from dbops.engine.flavors import Flavor, parse_version
from dbops.engine.flavors.base import Coordinates
from dbops.engine.flavors.gtid import without_space
from dbops.engine.flavors.versions import PRODUCTS, dotted, product_of
from dbops.engine.phrases import phrase

_MARIADB_GTID = re.compile(r"SET GLOBAL gtid_slave_pos\s*=\s*'([^']*)'", re.IGNORECASE)
_MYSQL_GTID = re.compile(r"GTID_PURGED\s*=\s*(?:/\*!\d+\s*'\+'\*/\s*)?'([^']*)'", re.IGNORECASE)
_LOG_FILE = re.compile(r"(?:MASTER|SOURCE)_LOG_FILE\s*=\s*'([^']*)'", re.IGNORECASE)
_LOG_POS = re.compile(r"(?:MASTER|SOURCE)_LOG_POS\s*=\s*(\d+)", re.IGNORECASE)


def dump_programs(flavor: Flavor) -> tuple[str, ...]:
    """Return names of the program, best first. On MariaDB ``mysqldump`` is the older name of ``mariadb-dump``."""
    return ("mariadb-dump", "mysqldump") if flavor.name == "mariadb" else ("mysqldump",)


def dump_program(flavor: Flavor, tools: Mapping[str, Tool]) -> Tool | None:
    """Return the program of a host that dumps this server, ``None`` if it has none."""
    return next((tools[name] for name in dump_programs(flavor) if name in tools), None)


def dump_problem(flavor: Flavor, program: Tool | None) -> str:
    """Return why a dump by this program could not be restored, or ``""``.

    Measured with MariaDB's 10.11.19 on MySQL 5.7.22 and 8.0.15: it records no GTID set, and writes the values of generated columns,
    which MySQL refuses to load (error 3105). ``mysql.engine_cost`` of 8.0 has such a column. MySQL's 5.7.26 on 8.0.15: it writes
    system tables that 8.0 does not take (error 3554).
    """
    if program is None or program.version is None:
        return ""
    product, number = product_of(program.version), parse_version(program.version)
    server = f"{PRODUCTS[flavor.name]} {dotted(flavor.version)}"
    found = f"{program.path} is of {PRODUCTS[product]} {program.version}, and the server is {server}"
    if product == flavor.name == "mysql" and number < (8, 0, 0) <= flavor.version:
        return phrase("{found}: its dump has system tables that {server} refuses to load.", found=found, server=server)
    if product == flavor.name:
        return ""
    if flavor.name == "mariadb":
        return phrase("{found}: its dump has no GTID position.", found=found)
    return phrase(
        "{found}: its dump has no GTID set, and MySQL refuses to load tables with generated columns from it.",
        found=found,
    )


def dump_options(
    flavor: Flavor, server: ServerFacts, *, credentials_file: str, program_version: str | None = None
) -> list[str]:
    """Return the options of a dump of all data in one snapshot; writes to InnoDB continue during the dump.

    The position is requested if the server writes a binary log: without one the program refuses. MySQL takes a global read lock
    for a moment; MariaDB takes none (its snapshot has its position).

    Args:
        program_version: of the dump program; ``None`` counts as that of the server.
    """
    options = [
        f"--defaults-file={credentials_file}",
        f"--socket={server.socket}",
        *("--single-transaction", "--quick", "--routines", "--triggers", "--events", "--hex-blob", "--all-databases"),
    ]
    if flavor.name == "mariadb":
        return [*options, *(["--master-data=2", "--gtid"] if server.log_bin else [])]
    program = parse_version(program_version) if program_version else flavor.version
    position = "--source-data=2" if program >= (8, 0, 26) else "--master-data=2"
    return [
        *options,
        f"--set-gtid-purged={'ON' if server.gtid_enabled else 'OFF'}",
        # programs of 8.0 read a table that servers before 8.0 do not have (error 1109)
        *(["--skip-column-statistics"] if flavor.version < (8, 0, 0) <= program else []),
        *([position] if server.log_bin else []),
    ]


#: Triggers of a table without TRIGGER are left out in silence, and a schema without SELECT too (measured with MariaDB 10.11.19 and
#: 11.8.9, MySQL 9.7.4). Without the others the program ends, or writes an error and ends with 0.
OF_EVERY_DUMP = (("SELECT",), ("SHOW VIEW",), ("TRIGGER",), ("EVENT",))


def missing_for_dump(flavor: Flavor, server: ServerFacts, privileges: Iterable[str]) -> list[str]:
    """Return the privileges on all schemas that a dump needs and its account lacks.

    MySQL's program also locks all tables for a moment, and reads tablespaces and its position; MariaDB's needs no more than to read.

    Args:
        privileges: of the account, on all schemas.
    """
    have = set(privileges)
    needed: list[tuple[str, ...]] = [*OF_EVERY_DUMP]
    if flavor.name == "mysql":
        needed.append(("PROCESS",))
        needed += [("RELOAD", "FLUSH_TABLES"), ("REPLICATION CLIENT", "SUPER")] if server.log_bin else []
    if "ALL PRIVILEGES" in have:
        return []
    return [names[0] for names in needed if have.isdisjoint(names)]


def dump_position(text: str) -> Coordinates:
    """Return the position in the statements at the head of a dump; empty if there is none."""
    gtid = _MARIADB_GTID.search(text) or _MYSQL_GTID.search(text)
    log_file, log_pos = _LOG_FILE.search(text), _LOG_POS.search(text)
    return Coordinates(
        log_file=log_file[1] if log_file else "",
        log_pos=int(log_pos[1]) if log_pos else None,
        gtid=without_space(gtid[1]) if gtid else "",
    )
