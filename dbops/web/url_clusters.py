"""The cluster that a URL is about: what a person may do there depends on it."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Model
from django.urls import ResolverMatch

from dbops.models import BackupRun, BackupSchedule, Cluster, Instance, LoadTest, Rebuild, RestoreTest

#: By the URL's number: the model, and the way from a row to its cluster.
BY_NUMBER: Mapping[str, tuple[type[Model], str]] = {
    "rebuild_id": (Rebuild, "target__cluster"),
    "run_id": (BackupRun, "instance__cluster"),
    "restore_test_id": (RestoreTest, "run__instance__cluster"),
    "load_test_id": (LoadTest, "source__cluster"),
}
#: By the beginning of the URL's pattern, for those with a name.
BY_NAME: Mapping[str, tuple[type[Model], str]] = {
    "clusters/<": (Cluster, "pk"),
    "availability/<str:name>": (Cluster, "pk"),
    "availability/report/": (Cluster, "pk"),
    "instances/<": (Instance, "cluster"),
    "schedules/<": (BackupSchedule, "instance__cluster"),
    "admin/connection-tests/mysql/": (Instance, "cluster"),
}
#: Their names are in the URL, but they are of the fleet.
KIND_OF_CLUSTERS = "cluster"


def cluster_of(match: ResolverMatch | None) -> int | None:
    """Return the key of the cluster that a URL is about; ``None`` for the fleet, and if there is no such thing. One query at most."""
    if match is None:
        return None
    given: dict[str, Any] = match.kwargs
    for name, (model, way) in BY_NUMBER.items():
        if name in given:
            return _found(model, way, pk=given[name])
    if "name" not in given:
        return None
    if given.get("kind") == KIND_OF_CLUSTERS and match.url_name == "inventory-edit":
        return _found(Cluster, "pk", name=given["name"])
    found = next((target for start, target in BY_NAME.items() if match.route.startswith(start)), None)
    return _found(*found, name=given["name"]) if found else None


def _found(model: type[Model], way: str, **wanted: Any) -> int | None:
    filtered: Callable[..., Any] = model._default_manager.filter
    key: int | None = filtered(**wanted).order_by().values_list(way, flat=True).first()
    return key
