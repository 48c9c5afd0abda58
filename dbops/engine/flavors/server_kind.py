"""Recognize a server's product, the service that operates it, and its group, from variables and option files.

The marks of services are from public records of such servers: none of them was at hand.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dbops.engine.facts.server_kind import GALERA, GROUP_REPLICATION, MemberGroup, ServerKind
from dbops.engine.flavors.variables import Variables, number_of, text_of, truth_of

#: Some exist on some servers only.
KIND_VARIABLES = (
    *("version", "version_comment", "basedir", "datadir", "aurora_version", "server_uuid", "gtid_mode"),
    *("wsrep_on", "wsrep_provider", "wsrep_cluster_name", "wsrep_gtid_mode"),
    *("group_replication_group_name", "group_replication_view_change_uuid"),
)
GALERA_STATUS = (
    *("wsrep_cluster_state_uuid", "wsrep_cluster_status", "wsrep_cluster_size"),
    *("wsrep_local_state_comment", "wsrep_incoming_addresses"),
)
#: 5.7 has no column for the role.
GROUP_MEMBERS = "SELECT * FROM performance_schema.replication_group_members"
NO_PROVIDER = ("", "none")


def kind_from(variables: Variables, group: MemberGroup | None, *, flavor: str) -> ServerKind:
    """Return a server's kind. ``flavor`` is ``mariadb`` or ``mysql``."""
    service = managed_by(variables)
    product = _product(variables, flavor)
    if service == "Amazon Aurora":
        product = "Amazon Aurora MySQL"
    elif service:
        product = f"{service} ({product})"
    return ServerKind(product=product, managed_by=service, group=group)


def _product(variables: Variables, flavor: str) -> str:
    if flavor == "mariadb":
        return "MariaDB"
    comment = text_of(variables, "version_comment").lower()
    if "percona xtradb cluster" in comment:
        return "Percona XtraDB Cluster"
    return "Percona Server" if "percona" in comment else "MySQL"


def managed_by(variables: Variables) -> str:
    """Return the service that operates a server, ``""`` if it shows no mark of one.

    Aurora has a variable of its own. RDS has its own paths, and a comment on MariaDB. Cloud SQL and Azure append their names to
    the version.
    """
    version, comment = (text_of(variables, name).lower() for name in ("version", "version_comment"))
    if text_of(variables, "aurora_version"):
        return "Amazon Aurora"
    places = (text_of(variables, "basedir"), text_of(variables, "datadir"))
    if any(place.startswith(("/rdsdbbin/", "/rdsdbdata/")) for place in places) or "aws.amazon.com/rds" in comment:
        return "Amazon RDS"
    if "-google" in version or comment == "(google)":
        return "Google Cloud SQL"
    return "Azure Database" if "-azure" in version else ""


def is_in_galera(variables: Variables) -> bool:
    """Return whether the running server is a member, or tries to become one."""
    return truth_of(variables, "wsrep_on") and text_of(variables, "wsrep_provider").lower() not in NO_PROVIDER


def galera_group(variables: Variables, status: Variables, *, flavor: str) -> MemberGroup:
    """Return the group of a Galera member.

    MariaDB numbers write sets on each member alone, unless ``wsrep_gtid_mode`` is on. MySQL's members with GTID use one uuid, the
    inverted one of the cluster's state (wsrep_init_sidno in its source).
    """
    uuid = text_of(status, "wsrep_cluster_state_uuid").lower()
    addresses = text_of(status, "wsrep_incoming_addresses").split(",")
    is_mysql = flavor == "mysql"
    state = text_of(status, "wsrep_local_state_comment")
    is_primary = text_of(status, "wsrep_cluster_status").lower() in ("", "primary")
    return MemberGroup(
        mechanism=GALERA,
        name=text_of(variables, "wsrep_cluster_name"),
        state=state if is_primary else f"{state}, without a majority",
        size=number_of(status, "wsrep_cluster_size") or None,
        members=tuple(place for place in addresses if place and place.upper() != "AUTO"),
        shares_gtids=truth_of(variables, "gtid_mode" if is_mysql else "wsrep_gtid_mode"),
        origins=(uuid, _inverted(uuid)) if is_mysql and uuid else (),
    )


def _inverted(uuid: str) -> str:
    return uuid.translate(str.maketrans("0123456789abcdef", "fedcba9876543210"))


def replication_group(variables: Variables, rows: Sequence[Mapping[str, Any]] | None) -> MemberGroup | None:
    """Return the group of a Group Replication member; ``None`` if the server has no group's name.

    Args:
        rows: of ``GROUP_MEMBERS``, ``None`` if the account cannot read them.
    """
    name = text_of(variables, "group_replication_group_name")
    if not name:
        return None
    members = [{key.upper(): str(value or "") for key, value in row.items()} for row in rows or ()]
    uuid = text_of(variables, "server_uuid").lower()
    own = next((one for one in members if one["MEMBER_ID"].lower() == uuid), {})
    in_group = [one for one in members if one["MEMBER_ID"] and one["MEMBER_STATE"] != "OFFLINE"]
    changes = text_of(variables, "group_replication_view_change_uuid").lower()
    return MemberGroup(
        mechanism=GROUP_REPLICATION,
        name=name,
        state=own.get("MEMBER_STATE", "") or ("" if rows is None else "OFFLINE"),
        role=own.get("MEMBER_ROLE", ""),
        size=None if rows is None else len(in_group),
        members=tuple(f"{one['MEMBER_HOST']}:{one['MEMBER_PORT']}" for one in in_group),
        shares_gtids=True,
        origins=tuple(uuid for uuid in (name.lower(), changes) if uuid not in ("", "automatic")),
    )


def configured_group(options: Mapping[str, str], *, flavor: str) -> MemberGroup | None:
    """Return the group that an option file makes a server join at its start, ``None`` without one.

    Args:
        options: with ``_`` in their names. flavor: of the server's programs; MariaDB's ``wsrep_on`` is off by default.
    """
    provider, switch = options.get("wsrep_provider", ""), options.get("wsrep_on", "0" if flavor == "mariadb" else "1")
    if provider.lower() not in NO_PROVIDER and switch.upper() in ("1", "ON", "TRUE", ""):
        return MemberGroup(GALERA, options.get("wsrep_cluster_name", ""))
    name = options.get("group_replication_group_name", "")
    return MemberGroup(GROUP_REPLICATION, name, shares_gtids=True) if name else None
