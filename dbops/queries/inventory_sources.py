"""Read inventory sources and their differences from the inventory as it is now."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from dbops.engine.facts.instance import from_record
from dbops.engine.inventory.comparison import InventoryComparison, KnownServer, ListingDifference, compare
from dbops.engine.inventory.listing import Listing
from dbops.engine.states import Role
from dbops.models import IgnoredDifference, Instance, InventorySource


@dataclass(frozen=True, slots=True)
class SourceNow:
    """A source with its last listing, and how that differs from the inventory as it is now."""

    source: InventorySource
    listing: Listing | None
    comparison: InventoryComparison
    open: tuple[ListingDifference, ...]
    ignored: tuple[IgnoredDifference, ...]

    @property
    def state(self) -> str:
        """``failing``, ``unread``, ``different`` or ``equal``."""
        if self.source.error:
            return "failing"
        if self.listing is None:
            return "unread"
        return "different" if self.open else "equal"


def sources(rows: QuerySet[InventorySource] | None = None) -> list[SourceNow]:
    """Return sources by name with their differences. Three queries, however many there are."""
    found = (InventorySource.objects.all() if rows is None else rows).defer("secret").prefetch_related("ignored")
    sources_ = list(found)
    known = known_servers() if sources_ else ()
    return [_now(source, known) for source in sources_]


def known_servers() -> tuple[KnownServer, ...]:
    """Return the instances of the inventory. One query."""
    rows = Instance.objects.select_related("cluster", "host").order_by("name")
    return tuple(_known(row) for row in rows)


def _known(row: Instance) -> KnownServer:
    addresses = (row.host.ssh_address, row.host.stream_address, row.host.name)
    return KnownServer(
        name=row.name,
        cluster=row.cluster.name,
        role=Role(row.role),
        address=row.address,
        port=row.port,
        addresses=tuple(one for one in addresses if one),
    )


def _now(source: InventorySource, known: Iterable[KnownServer]) -> SourceNow:
    ignored = tuple(source.ignored.all())
    if not source.listing:
        return SourceNow(source, None, InventoryComparison((), ()), (), ignored)
    listing = from_record(Listing, source.listing)
    found = compare(listing, tuple(known))
    hidden = {one.difference for one in ignored}
    shown = (one for one in found.differences if one not in hidden)
    return SourceNow(source, listing, found, tuple(shown), ignored)
