"""Read every replication connection of a server with its settings."""

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import ReplicationFacts
from dbops.engine.flavors.base import Flavor
from dbops.engine.ports import Database


def read_channels(database: Database, flavor: Flavor) -> list[ReplicationFacts]:
    """Return all connections. Where the account may not read MySQL's tables, the options that only they have are missing.

    Raises as ``Database.query``.
    """
    rows = database.query(flavor.show_replication)
    more: dict[str, dict[str, object]] = {}
    if rows and flavor.show_channel_settings:
        try:
            more = {str(row["CHANNEL_NAME"]): row for row in database.query(flavor.show_channel_settings)}
        except RemoteFailure:
            pass
    return [flavor.parse_replication({**row, **more.get(str(row.get("Channel_Name") or ""), {})}) for row in rows]
