"""Read the stored inventory, compare it with new values, and list fields that active jobs lock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import Model, Q

from dbops.engine.phrases import phrase
from dbops.engine.states import ACTIVE, RUN_AT_WORK, RunOrigin
from dbops.fleetfile.conflicts import PlacedHost, PlacedInstance
from dbops.fleetfile.rules import SECRETS
from dbops.models import BackupRun, BackupSchedule, Cluster, Host, Instance, LoadTest, Rebuild, RestoreTest
from dbops.models.secret import holds, is_set
from dbops.security.vault_paths import VaultPath

# A running rebuild uses these values: a change could send it to another machine or directory.
FROZEN_INSTANCE = frozenset(
    {"name", "cluster", "host", "role", "address", "port", "datadir", "os_user", "group_suffix"}
)
FROZEN_HOST = frozenset({"name", "ssh_address", "ssh_port", "stream_address", "work_dir", "jump_host"})
# A backup continues regardless of the role; the other values locate its job.
FROZEN_INSTANCE_BY_BACKUP = FROZEN_INSTANCE - {"role"}
# A restore test fetches its file from the source's host and later removes the access there.
FROZEN_INSTANCE_BY_RESTORE_TEST = frozenset({"host"})
# After a change of these, the last facts belong to another server.
IDENTITY: dict[type[Model], frozenset[str]] = {
    Instance: frozenset({"host", "address", "port", "datadir", "defaults_file", "group_suffix"}),
    Host: frozenset({"ssh_address", "ssh_port", "jump_host"}),
}


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """All rows by name, with active rebuilds and dbops's own backup runs by instance key.

    ``tests`` has active restore tests and load tests by host key, ``tests_of`` by key of their source, in words.
    """

    hosts: dict[str, Host]
    clusters: dict[str, Cluster]
    instances: dict[str, Instance]
    rebuilds: dict[int, int]
    schedules: dict[str, BackupSchedule] = field(default_factory=dict)
    backups: dict[int, int] = field(default_factory=dict)
    tests: dict[int, str] = field(default_factory=dict)
    tests_of: dict[int, str] = field(default_factory=dict)

    def datadirs_on_host_of(self, instance: Instance) -> dict[str, str]:
        """Return the data directories by instance name of a host, including the instance itself."""
        return {row.name: row.datadir for row in self.instances.values() if row.host_id == instance.host_id}

    def placed_hosts(self, without: Iterable[str] = ()) -> list[PlacedHost]:
        left_out = set(without)
        return [
            PlacedHost(
                row.name,
                ssh_address=row.ssh_address,
                ssh_port=row.ssh_port,
                work_dir=row.work_dir,
                jump_host=row.jump_host.name if row.jump_host else "",
                certificate_name=row.certificate_name,
            )
            for row in self.hosts.values()
            if row.name not in left_out
        ]

    def placed_instances(self, without: Iterable[str] = ()) -> list[PlacedInstance]:
        left_out = set(without)
        return [
            PlacedInstance(
                row.name,
                host=row.host.name,
                cluster=row.cluster.name,
                role=row.role,
                address=row.address,
                port=row.port,
                datadir=row.datadir,
            )
            for row in self.instances.values()
            if row.name not in left_out
        ]

    def why_frozen(self, row: Model | None, changed: Iterable[str]) -> str:
        """Return why these fields of a host or instance cannot change now; empty if they can."""
        if isinstance(row, Instance):
            frozen, by_backup, concerned = FROZEN_INSTANCE, FROZEN_INSTANCE_BY_BACKUP, [row]
        elif isinstance(row, Host):
            frozen = by_backup = FROZEN_HOST
            concerned = [item for item in self.instances.values() if item.host_id == row.pk]
        else:
            return ""
        changed = set(changed)
        for item in concerned:
            if item.pk in self.rebuilds and (held := ", ".join(sorted(frozen & changed))):
                return phrase(
                    "rebuild {number} of or from {name} has not ended: {fields} cannot change",
                    number=self.rebuilds[item.pk],
                    name=repr(item.name),
                    fields=held,
                )
            if item.pk in self.backups and (held := ", ".join(sorted(by_backup & changed))):
                return phrase(
                    "backup run {number} of {name} has not ended: {fields} cannot change",
                    number=self.backups[item.pk],
                    name=repr(item.name),
                    fields=held,
                )
        return self._frozen_by_test(row, changed)

    def _frozen_by_test(self, row: Instance | Host, changed: set[str]) -> str:
        is_host = isinstance(row, Host)
        test = (self.tests if is_host else self.tests_of).get(row.pk)
        held = ", ".join(sorted((FROZEN_HOST if is_host else FROZEN_INSTANCE_BY_RESTORE_TEST) & changed))
        if not (test and held):
            return ""
        return phrase(
            "{test} uses {name} and has not ended: {fields} cannot change", test=test, name=repr(row.name), fields=held
        )


def load(*, lock: bool = False) -> StoredInventory:
    """Read the whole inventory.

    With ``lock`` (in a transaction), no rebuild can be queued and no backup can start until the transaction ends.

    The lock conflicts with the database's lock on the parent row of a new rebuild or hold.
    """
    hosts, clusters = Host.objects.all(), Cluster.objects.all()
    instances = Instance.objects.select_related("host", "cluster")
    if lock:
        hosts, clusters = hosts.select_for_update(), clusters.select_for_update()
        instances = (
            instances.select_for_update(of=("self",)) if _can_lock_one_table() else instances.select_for_update()
        )
    tests, tests_of = active_tests()
    # a lock cannot join rows that may be missing
    by_key = {row.pk: row for row in hosts}
    for row in by_key.values():
        row.jump_host = by_key[row.jump_host_id] if row.jump_host_id else None
    return StoredInventory(
        hosts={row.name: row for row in by_key.values()},
        clusters={row.name: row for row in clusters},
        instances={row.name: row for row in instances},
        rebuilds=active_rebuilds(),
        backups=active_backups(),
        tests=tests,
        tests_of=tests_of,
        schedules={row.name: row for row in BackupSchedule.objects.select_related("instance")},
    )


def _can_lock_one_table() -> bool:
    return bool(connection.features.has_select_for_update_of)


def active_rebuilds() -> dict[int, int]:
    """Return unfinished rebuilds by the keys of their sources and targets."""
    active = Q(status__in=[item.value for item in ACTIVE]) | Q(target_slot__isnull=False) | Q(holds__isnull=False)
    found: dict[int, int] = {}
    for rebuild in (
        Rebuild.objects.filter(active).prefetch_related("holds").distinct().only("pk", "target_id", "source_id")
    ):
        held = {hold.instance_id for hold in rebuild.holds.all()}
        for pk in held | {rebuild.target_id, rebuild.source_id}:
            found[pk] = rebuild.pk
    return found


def active_backups() -> dict[int, int]:
    """Return dbops's own active or lost backup runs by instance key: their jobs are on the stored host."""
    runs = BackupRun.objects.filter(origin=RunOrigin.MANAGED, status__in=RUN_AT_WORK).order_by()
    return dict(runs.values_list("instance_id", "pk"))


def active_tests() -> tuple[dict[int, str], dict[int, str]]:
    """Return active or lost restore tests and load tests, in words, by the keys of their hosts, and by the key of their source."""
    by_host: dict[int, str] = {}
    by_source: dict[int, str] = {}
    for model, what in ((RestoreTest, _restore_test), (LoadTest, _load_test)):
        rows = model._default_manager.filter(status__in=RUN_AT_WORK).order_by()
        for pk, host, source, holder in rows.values_list("pk", "host_id", "source_id", "source__host_id"):
            by_host[host] = by_host[holder] = by_source[source] = what(pk)
    generated = LoadTest.objects.filter(status__in=RUN_AT_WORK, generator_host__isnull=False).order_by()
    by_host |= {host: _load_test(pk) for pk, host in generated.values_list("pk", "generator_host")}
    return by_host, by_source


def _restore_test(number: int) -> str:
    return phrase("restore test {number}", number=number)


def _load_test(number: int) -> str:
    return phrase("load test {number}", number=number)


def differences(row: Model | None, model: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return before and after of each changed field as plain data; for secrets only the fact, and a path in Vault."""
    found: dict[str, Any] = {}
    for name, after in values.items():
        if row is None and after in ("", None, []):
            continue
        if name in SECRETS.get(model, ()):
            if row is None or not holds(row, name, after):
                word = "changed" if row is not None and is_set(row, name) else "set"
                found[name] = f"{word} to {after.column}" if isinstance(after, VaultPath) else word
            continue
        before = getattr(row, name) if row is not None else None
        if before != after:
            found[name] = {"before": _plain(before), "after": _plain(after)}
    return found


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Model) else value
