"""The inventory of a server: its objects, each with a digest of its definition. A few statements for all of them."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.base import Flavor
from dbops.engine.ports import Database
from dbops.engine.rebuilds.certificate.bounded import TOO_LONG, took_too_long
from dbops.engine.rebuilds.certificate.columns import USERS, SchemaDigests, prepare, read_shape
from dbops.engine.rebuilds.certificate.openable import Table

#: Columns of grant tables that no one chose: who granted when, and with which server.
VOLATILE = {"timestamp", "grantor", "password_last_changed", "version_id"}
#: Columns that name a row of a grant table.
NAMING = (
    *(
        "host",
        "user",
        "db",
        "table_name",
        "column_name",
        "routine_name",
        "routine_type",
        "role",
        "priv",
        "with_admin_option",
    ),
    *("proxied_host", "proxied_user", "from_host", "from_user", "to_host", "to_user", "default_role_host"),
    "default_role_user",
)
GRANTS = {
    "mariadb": ("global_priv", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv", "roles_mapping"),
    "mysql": (
        *("user", "db", "tables_priv", "columns_priv", "procs_priv", "proxies_priv"),
        *("global_grants", "role_edges", "default_roles"),
    ),
}
#: dbops makes and drops accounts of this prefix for a clone.
OWN_ACCOUNTS = "dbops-"

TABLES = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, TABLE_TYPE AS kind, ENGINE AS engine, ROW_FORMAT AS row_format,"  # noqa: S608 - constants
    " TABLE_COLLATION AS collation, CREATE_OPTIONS AS options FROM information_schema.TABLES"
    f" WHERE TABLE_SCHEMA NOT IN {USERS} AND TABLE_TYPE NOT LIKE 'TEMP%' AND TABLE_NAME NOT LIKE '#sql%'"
)
#: Kind of object, its statement; ``s`` and ``n`` name it, ``kind`` names its kind better, and every other column is its definition.
DEFINITIONS = {
    "schema": "SELECT SCHEMA_NAME AS n, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"  # noqa: S608 - constants
    f" WHERE SCHEMA_NAME NOT IN {USERS}",
    "view": "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, VIEW_DEFINITION, DEFINER, SECURITY_TYPE"  # noqa: S608 - constants
    f" FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN {USERS}",
    "routine": "SELECT ROUTINE_SCHEMA AS s, ROUTINE_NAME AS n, ROUTINE_TYPE AS kind, DTD_IDENTIFIER, ROUTINE_DEFINITION,"  # noqa: S608
    " SQL_MODE, DEFINER, SECURITY_TYPE FROM information_schema.ROUTINES"
    f" WHERE ROUTINE_SCHEMA NOT IN {USERS}",
    "trigger": "SELECT TRIGGER_SCHEMA AS s, TRIGGER_NAME AS n, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_TIMING,"  # noqa: S608
    " ACTION_STATEMENT, SQL_MODE, DEFINER FROM information_schema.TRIGGERS"
    f" WHERE TRIGGER_SCHEMA NOT IN {USERS}",
    # without the status: a copy's events are turned off
    "event": "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS n, EVENT_TYPE, EXECUTE_AT, INTERVAL_VALUE, INTERVAL_FIELD,"  # noqa: S608
    " EVENT_DEFINITION, SQL_MODE, DEFINER FROM information_schema.EVENTS"
    f" WHERE EVENT_SCHEMA NOT IN {USERS}",
}
#: Tablespaces that people make: MariaDB has none.
TABLESPACES = "SELECT NAME AS n, PAGE_SIZE FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'General' AND NAME <> 'mysql'"
PRIVILEGES = (
    "SELECT PRIVILEGE_TYPE AS name FROM information_schema.USER_PRIVILEGES"
    " WHERE REPLACE(GRANTEE, '''', '') = CURRENT_USER()"
)

IN_OTHER_WORDS = "full types, defaults, collations and expressions of columns, indexes, partitions and views"
#: What an account sees in part, or not at all, without a global privilege.
NEEDED = {
    "tables, columns and routines": "SELECT",
    "definitions of views": "SHOW VIEW",
    "triggers": "TRIGGER",
    "events": "EVENT",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared.

    ``definitions``: not between server series, which write the same definition in other words. ``same_version``: other versions of a
    series write columns, partitions and views in other words. ``row_format``: not after a dump, which does not have those that were once
    a server's default.
    """

    definitions: bool = True
    row_format: bool = True
    same_version: bool = True

    @property
    def is_exact(self) -> bool:
        return self.definitions and self.same_version


@dataclass(frozen=True, slots=True)
class Inventory:
    """Digest by object (``table shop.orders``), and what was not compared, with the reason.

    ``parts``: number of columns and indexes. ``tables``: those among the objects. ``shapes``: digests of their columns and indexes, empty
    where those were not read.
    """

    objects: dict[str, str]
    hidden: dict[str, str] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)


def read_inventory(database: Database, flavor: Flavor, scope: Scope) -> Inventory:
    """Read all objects. Raises ``Unreachable`` or ``RemoteFailure`` as ``Database.query``."""
    prepare(database, flavor)
    rows = database.query(TABLES)
    objects: dict[str, str] = {}
    named: dict[str, Table] = {}
    for row in rows:
        table = Table(str(row["s"]), str(row["n"]))
        name = f"{_kind(row)} {table}"
        objects[name], named[name] = _table(row, scope), table
    partitioned = sorted({str(row["s"]) for row in rows if "partitioned" in str(row["options"] or "")})
    if partitioned:
        objects |= _partitions(database, partitioned, scope)
    for kind, sql in DEFINITIONS.items():
        for row in database.query(sql):
            name = ".".join(str(row[part]) for part in ("s", "n") if part in row)
            rest = {key: value for key, value in row.items() if key not in ("s", "n", "kind")}
            objects[f"{str(row.get('kind', kind)).lower()} {name}"] = digest(
                _comparable(rest, scope) if scope.definitions else {}
            )
    if flavor.name == "mysql" and flavor.version >= (8, 0, 0):
        objects |= {f"tablespace {row['n']}": digest(row) for row in database.query(TABLESPACES)}
    held = {str(row["name"]) for row in database.query(PRIVILEGES)}
    hidden = {
        what: f"the account lacks {privilege} on *.*" for what, privilege in NEEDED.items() if privilege not in held
    }
    if not scope.is_exact:
        hidden[IN_OTHER_WORDS] = "the servers are of different versions, which write the same in other words"
    if scope.definitions:
        grants, unread = _grants(database, flavor)
        objects |= grants
        hidden |= unread
    else:
        hidden["definitions, accounts and grants"] = "the servers are of different series"
    shape = _shape(database, flavor, scope, hidden)
    # the columns of a view follow from its definition, those of a sequence are the server's own
    shaped = {name: table for name, table in named.items() if name.startswith("table ")}
    shapes = {name: shape.digests.get(table, "") for name, table in shaped.items()} if shape.digests else {}
    return Inventory(objects, hidden, shape.counts, shaped, shapes)


def _shape(database: Database, flavor: Flavor, scope: Scope, hidden: dict[str, str]) -> SchemaDigests:
    """Read columns and indexes last: so many tables that it takes too long hide nothing else."""
    try:
        return read_shape(database, flavor, exact=scope.is_exact)
    except Unreachable:
        raise
    except RemoteFailure as error:
        if not took_too_long(error):
            raise
        hidden["columns and indexes"] = TOO_LONG
        return SchemaDigests({}, {})


def digest(values: Mapping[str, Any]) -> str:
    """Return 16 hex digits over the values."""
    text = json.dumps({key: _plain(value) for key, value in values.items()}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else None if value is None else str(value)


def _kind(row: Mapping[str, Any]) -> str:
    kind = str(row["kind"])
    return "view" if "VIEW" in kind else "sequence" if kind == "SEQUENCE" else "table"


def _table(row: Mapping[str, Any], scope: Scope) -> str:
    """A view's definition is read after this and replaces it."""
    found = {"engine": row["engine"]}
    if scope.definitions:
        found |= {"collation": row["collation"]} | ({"row_format": row["row_format"]} if scope.row_format else {})
    return digest(_comparable(found, scope))


def _comparable(definition: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return a definition in words that both versions use."""
    if scope.is_exact:
        return dict(definition)
    known = {name: value for name, value in definition.items() if name != "VIEW_DEFINITION"}
    for name in {"collation", "DEFAULT_COLLATION_NAME"} & known.keys():
        known[name] = re.sub("^utf8_", "utf8mb3_", str(known[name]))
    return known


def _partitions(database: Database, schemas: list[str], scope: Scope) -> dict[str, str]:
    places = ", ".join(["%s"] * len(schemas))
    rows = database.query(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS n, PARTITION_NAME AS p, SUBPARTITION_NAME AS sub, PARTITION_METHOD,"  # noqa: S608
        " PARTITION_EXPRESSION, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
        f" WHERE PARTITION_NAME IS NOT NULL AND TABLE_SCHEMA IN ({places})",
        schemas,
    )
    return {
        f"partition {row['s']}.{row['n']} {row['p']}{'/' + str(row['sub']) if row['sub'] else ''}": digest(
            row if scope.is_exact else {}
        )
        for row in rows
    }


def _grants(database: Database, flavor: Flavor) -> tuple[dict[str, str], dict[str, str]]:
    objects: dict[str, str] = {}
    hidden: dict[str, str] = {}
    tables = list(GRANTS[flavor.name])
    if flavor.name == "mariadb" and flavor.version < (10, 4, 0):
        tables[0] = "user"
    if flavor.name == "mysql" and flavor.version < (8, 0, 0):
        tables = tables[:6]
    for table in tables:
        try:
            rows = database.query(f"SELECT * FROM mysql.{table}")  # noqa: S608 - constants
        except Unreachable:
            raise
        except RemoteFailure as error:
            hidden[f"mysql.{table}"] = error.cause
            continue
        for row in rows:
            objects |= _grant(table, row)
    return objects, hidden


def _grant(table: str, found: Mapping[str, Any]) -> dict[str, str]:
    row = {name.lower(): value for name, value in found.items()}
    if str(row.get("user", "")).startswith(OWN_ACCOUNTS):
        return {}
    if table == "global_priv":
        row |= {key.lower(): value for key, value in json.loads(row.pop("priv") or "{}").items()}
    names = [f"{name}={_plain(row[name])}" for name in NAMING if name in row and not isinstance(row[name], int)]
    rest = {name: value for name, value in row.items() if name not in VOLATILE}
    if table in ("global_priv", "user"):
        return {f"account {_plain(row['user'])}@{_plain(row['host'])}": digest(rest)}
    return {f"grant {table} {', '.join(names)}": digest(rest)}


def differences(reference: Inventory, target: Inventory) -> dict[str, str]:
    """Return how each object differs: ``missing`` on the target, ``extra`` there, ``changed``."""
    left, right = reference.objects, target.objects
    found = dict.fromkeys(left.keys() - right.keys(), "missing")
    found |= dict.fromkeys(right.keys() - left.keys(), "extra")
    changed = {name for name in left.keys() & right.keys() if left[name] != right[name]}
    if reference.shapes and target.shapes:
        both = reference.shapes.keys() & target.shapes.keys()
        changed |= {name for name in both if reference.shapes[name] != target.shapes[name]}
    return found | dict.fromkeys(changed, "changed")


def is_account(name: str) -> bool:
    return name.startswith(("account ", "grant "))


def counted(objects: Iterable[str]) -> dict[str, int]:
    """Return the number of objects by kind."""
    counts: dict[str, int] = {}
    for name in objects:
        kind = name.partition(" ")[0]
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))
