"""Create or update one object of the inventory; write only changed columns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dbops.database import clock
from dbops.fleetfile import sshkeys
from dbops.fleetfile.schedules import due_column
from dbops.fleetfile.stored import IDENTITY, differences
from dbops.lifecycle.availability_rollups import recount
from dbops.lifecycle.instance_periods import end_periods, rename_periods
from dbops.lifecycle.topology_differences import rename_differences
from dbops.models import BackupSchedule, Cluster, Host, Instance, InstanceState, ServerIdentity
from dbops.models.secret import vault_columns

CREATED, CHANGED, UNCHANGED = "created", "changed", "unchanged"
# The database fills one (an earlier check covers the single primary); the other is empty while off.
NOT_CHECKED = {"primary_slot", "next_due_at"}
#: With another one, the certificate that a connection saw last may be that of another host.
PROVEN = {"certificate_name", "ssh_address", "ssh_port"}
Row = TypeVar("Row", Cluster, Host, Instance, BackupSchedule)
KINDS = {Cluster: "cluster", Host: "host", Instance: "instance", BackupSchedule: "schedule"}


@dataclass(frozen=True, slots=True)
class Item:
    """The outcome for one object. ``changes`` has before and after by field; for secrets only "set" or "changed"."""

    kind: str
    name: str
    outcome: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> list[str]:
        return sorted(self.changes)

    def __str__(self) -> str:
        what = f" ({', '.join(self.fields)})" if self.outcome == CHANGED else ""
        return f"{self.kind} {self.name}: {self.outcome}{what}"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """An import's outcome by object, in the order of the file."""

    items: tuple[Item, ...]

    def count(self, outcome: str) -> int:
        return sum(item.outcome == outcome for item in self.items)

    def __str__(self) -> str:
        return ", ".join(f"{self.count(word)} {word}" for word in (CREATED, CHANGED, UNCHANGED))


def store(
    row: Row | None, model: type[Row], values: Mapping[str, Any], *, actor: str, rewrite: Collection[str] = ()
) -> tuple[Row, Item]:
    """Write ``values``, which must be complete for a new row. Call in a transaction.

    Args:
        rewrite: columns to write even if unchanged.

    Raises:
        ValidationError: The models refuse the values.
    """
    kind = KINDS[model]
    changes = differences(row, model, values)
    wanted = dict(values)
    if "host_key" in changes:
        changes["host_key"] = {
            side: sshkeys.fingerprint_or_empty(key or "") for side, key in changes["host_key"].items()
        }
        wanted.update(host_key_accepted_by=actor, host_key_accepted_at=clock.now())
    if model is Host and row is not None and changes.keys() & PROVEN:
        wanted.update(certificate_since=None, certificate_until=None)
    if row is None:
        row = model(**wanted)
        _set_due(row, changes)
        row.full_clean(exclude=NOT_CHECKED | vault_columns(row))
        row.save()
        if isinstance(row, Instance):
            InstanceState.objects.create(instance=row, probe_due_at=clock.now())
        return row, Item(kind, row.name, CREATED, changes)
    if not changes:
        return row, Item(kind, row.name, UNCHANGED)
    names = [name for name in wanted if name in changes or name in rewrite or name not in values]
    for name in names:
        setattr(row, name, wanted[name])
    names += _set_due(row, changes)
    row.full_clean(exclude=NOT_CHECKED | vault_columns(row))
    row.save(update_fields=names)
    _probe_again(row, changes)
    _count_again(row, changes)
    return row, Item(kind, row.name, CHANGED, changes)


def _set_due(row: Row, changes: Mapping[str, Any]) -> list[str]:
    """Update a schedule's next due time. Return the changed columns."""
    if not isinstance(row, BackupSchedule):
        return []
    columns = due_column(row, changes, clock.now())
    for name, value in columns.items():
        setattr(row, name, value)
    return list(columns)


def _count_again(row: Row, changes: Mapping[str, Any]) -> None:
    """Recount availability if a rename or a new target changes the past.

    References to a host by name follow the rename.
    """
    if isinstance(row, Instance) and "name" in changes:
        rename_periods(row)
        rename_differences(row, changes["name"]["before"])
        recount([row.cluster_id], None, clock.now())
    if isinstance(row, Cluster) and "wanted_replicas" in changes:
        recount([row.pk], None, clock.now())
    if isinstance(row, Host) and "name" in changes:
        Cluster.objects.filter(restore_test_host=changes["name"]["before"]).update(restore_test_host=row.name)


def _probe_again(row: Row, changes: Mapping[str, Any]) -> None:
    """Make the next probe due if its inputs changed; delete facts that can belong to another server."""
    if isinstance(row, BackupSchedule):
        return
    if isinstance(row, Instance):
        states = InstanceState.objects.filter(instance=row)
    elif isinstance(row, Host):
        states = InstanceState.objects.filter(instance__host=row)
    else:
        states = InstanceState.objects.filter(instance__cluster=row)
    if IDENTITY.get(type(row), frozenset()).intersection(changes):
        end_periods(states)
        states.update(probe_due_at=clock.now(), observed_at=None, record={}, gtid_seen="", gtid_lost="")
        ServerIdentity.objects.filter(instance__state__in=states).delete()
    else:
        states.update(probe_due_at=clock.now())
