"""Read a server's kind: its product, the service that operates it, and its group."""

from collections.abc import Mapping

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.facts.server_kind import MemberGroup, ServerKind
from dbops.engine.flavors.server_kind import (
    GALERA_STATUS,
    GROUP_MEMBERS,
    galera_group,
    is_in_galera,
    kind_from,
    replication_group,
)
from dbops.engine.flavors.variables import text_of
from dbops.engine.ports import Database


def read_kind(database: Database, variables: Mapping[str, str], *, flavor: str) -> ServerKind:
    """Return a server's kind. Only members of a group are asked another statement.

    Args:
        variables: values of ``KIND_VARIABLES``, as far as the server has them. flavor: ``mariadb`` or ``mysql``.

    Raises:
        Unreachable, RemoteFailure: see ``Database.query``.
    """
    return kind_from(variables, _group(database, variables, flavor), flavor=flavor)


def _group(database: Database, variables: Mapping[str, str], flavor: str) -> MemberGroup | None:
    if is_in_galera(variables):
        places = ", ".join(["%s"] * len(GALERA_STATUS))
        rows = database.query(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({places})", GALERA_STATUS)
        status = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
        return galera_group(variables, status, flavor=flavor)
    if not text_of(variables, "group_replication_group_name"):
        return None
    try:
        members = database.query(GROUP_MEMBERS)
    except Unreachable:
        raise
    except RemoteFailure:  # the account may not read it
        return replication_group(variables, None)
    return replication_group(variables, members)
