"""Create the sample's inventory source: what orchestrator would list, with what is new and what differs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from dbops.engine.facts.instance import to_record
from dbops.engine.inventory.comparison import DifferenceCode
from dbops.engine.inventory.listing import ListedServer, Listing
from dbops.engine.states import Role
from dbops.models import IgnoredDifference, Instance, InventorySource
from dbops.sample.generate import clusters as plan

MISSING = 7  # each so many replicas is not listed


def write_inventory_source(instances: Mapping[str, Instance], now: datetime) -> None:
    """Create a source that was read a moment ago and is not read again: there is no such server."""
    listed = [
        ListedServer(name, row.address, row.port, row.cluster.name, Role(row.role), has_own_name=False)
        for name, row in instances.items()
        if row.role != Role.TIDB
    ]
    replicas = [server for server in listed if server.role is Role.REPLICA]
    gone = replicas[MISSING::20]
    new = [
        ListedServer(f"{server.cluster}-new-{number}", f"192.0.2.{200 + number}", 3306, server.cluster, Role.REPLICA)
        for number, server in enumerate(replicas[:2], 1)
    ]
    listing = Listing((*(server for server in listed if server not in gone), *new), ())
    source = InventorySource.objects.create(
        name="orchestrator",
        kind="orchestrator",
        address="https://orchestrator.example:3000",
        user="dbops",
        created_by=next(iter(plan.PEOPLE)),
        created_at=now - timedelta(days=40),
        next_read_at=now + timedelta(days=3650),
        read_at=now - timedelta(minutes=12),
        listing=to_record(listing),
    )
    IgnoredDifference.objects.create(
        source=source,
        code=DifferenceCode.NOT_IN_INVENTORY,
        server=new[-1].name,
        listed=new[-1].place,
        ignored_by=source.created_by,
        ignored_at=now - timedelta(days=3),
        reason="A test server without data of its own.",
    )
