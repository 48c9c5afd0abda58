"""Load what advice for a cluster rests on: readings, waits, the stored forecast, and storage."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from dbops.engine.capacity.advice import advise
from dbops.engine.capacity.advice_inputs import WAITS_COUNT_FOR, Advice, AdviceInputs, AdviceKind
from dbops.engine.capacity.contention import contentions
from dbops.engine.capacity.limits import CapacityLimit
from dbops.engine.capacity.waits import WaitComparison
from dbops.engine.facts.instance import InstanceFacts, from_record
from dbops.engine.flavors.versions import parse_version
from dbops.engine.tuning.doublewrite import judge_doublewrite
from dbops.loaders.load_test_results import results_of
from dbops.models import CapacityReading, Cluster, InstanceState, StorageAttestation, WaitReading

#: Columns of a reading that advice is about.
COLUMNS = (
    *("schemas", "tables", "partitions", "open_tables", "open_definitions", "cache_misses_per_second"),
    *("table_open_cache", "table_open_cache_instances", "table_definition_cache", "innodb_open_files"),
    *("open_files_limit", "max_connections", "redo_capacity_bytes", "redo_bytes_per_second"),
)


def advice_of(
    cluster: Cluster,
    readings: Mapping[str, CapacityReading],
    limits: Iterable[CapacityLimit],
    now: datetime,
) -> tuple[Advice, ...]:
    """Return the advice for the instances of a cluster, by kind and name. Four queries.

    Args:
        readings: the latest one of each instance. limits: of the cluster.
    """
    facts, waits, attested = _facts(cluster), _latest_waits(cluster, now - WAITS_COUNT_FOR), _attested(cluster)
    tested, knee = results_of(cluster)
    limits = tuple(limits)
    found: list[Advice] = []
    for name, one in sorted(facts.items()):
        reading, measured = readings.get(name), waits.get(name)
        if one.server is None or reading is None:
            continue
        comparison, at = measured or (WaitComparison(), None)
        storage = judge_doublewrite(name, facts, attested[name].attestation() if name in attested else None, now.date())
        given = AdviceInputs(
            instance=name,
            flavor=one.server.flavor,
            version=parse_version(one.server.version),
            values={column: float(value) for column in COLUMNS if (value := getattr(reading, column)) is not None},
            read_at=reading.at,
            settings=comparison.settings,
            contentions=contentions(comparison),
            counters=comparison.counters,
            gauges=comparison.values,
            waits_at=at,
            limits=[limit for limit in limits if limit.instance == name],
            is_doublewrite_safe=bool(storage and storage.may_be_off and storage.repairs),
            doublewrite=one.server.doublewrite,
            tested=tested,
            knee=knee,
        )
        found += advise(given)
    kinds = list(AdviceKind)
    return tuple(sorted(found, key=lambda one: (kinds.index(one.kind), one.instance)))


def _facts(cluster: Cluster) -> dict[str, InstanceFacts]:
    rows = InstanceState.objects.filter(instance__cluster=cluster).values_list("instance__name", "record")
    return {name: from_record(InstanceFacts, record) for name, record in rows if record}


def _latest_waits(cluster: Cluster, since: datetime) -> dict[str, tuple[WaitComparison, datetime | None]]:
    """Return the newest result since a time of each instance with its time."""
    rows = WaitReading.objects.filter(
        instance__cluster=cluster, status=WaitReading.Statuses.SUCCEEDED, finished_at__gte=since
    )
    found = rows.order_by("pk").values_list("instance__name", "result", "finished_at")
    return {name: (from_record(WaitComparison, result), at) for name, result, at in found}


def _attested(cluster: Cluster) -> dict[str, StorageAttestation]:
    rows = StorageAttestation.objects.filter(instance__cluster=cluster).select_related("instance")
    return {row.instance.name: row for row in rows}
