"""The reading of an hour becomes one row, with the rates since the one before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dbops.engine.facts.growth import GrowthReading
from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.lifecycle.capacity_readings import note_reading
from dbops.models import CapacityReading, Instance, InstanceState
from dbops.worker import prober
from tests.app.capacity_rows import GIB, NOW, make_growth
from tests.app.factories import make_datadir_facts, make_facts, make_trio

pytestmark = pytest.mark.django_db


def facts(**values: object) -> InstanceFacts:
    directory = make_datadir_facts(disk_bytes=4000 * GIB, kept_bytes=5 * GIB)
    growth = make_growth(**values)
    return replace(make_facts(observed_at=growth.read_at, datadir=directory), growth=growth)


def test_a_reading_is_stored_once() -> None:
    primary, _, _ = make_trio()
    assert note_reading(primary, facts())
    assert not note_reading(primary, facts())
    row = CapacityReading.objects.get()
    assert (row.instance, row.at, row.is_daily, row.schemas, row.tables) == (primary, NOW, False, 40, 800)
    assert row.largest == [{"schema": "shop", "table": "orders", "bytes": 30 * GIB}]
    assert row.auto_increment[0]["largest"] == 2**31 - 1
    assert (row.disk_bytes, row.disk_free_bytes, row.kept_bytes) == (4000 * GIB, 2400 * GIB, 5 * GIB)
    assert (row.backup_bytes, row.file_bytes, row.binlog_expire_seconds) == (1480 * GIB, 1470 * GIB, 7 * 86400)
    assert (row.open_tables, row.questions_per_second) == (None, None)


def test_a_probe_that_read_none_stores_none() -> None:
    primary, _, _ = make_trio()
    assert not note_reading(primary, make_facts())
    assert not note_reading(primary, replace(facts(), observed_at=NOW + timedelta(seconds=15)))
    assert not CapacityReading.objects.exists()


def test_what_was_not_read_is_unknown() -> None:
    primary, _, _ = make_trio()
    growth = make_growth(schemas=None, largest=None, questions=None)
    assert note_reading(primary, InstanceFacts(NOW, growth=growth))
    row = CapacityReading.objects.get()
    assert (row.schemas, row.largest, row.questions, row.disk_bytes, row.redo_capacity_bytes) == (None,) * 5


def test_a_number_that_no_column_can_store_is_unknown() -> None:
    primary, _, _ = make_trio()
    assert note_reading(primary, facts(tables=2**63 - 1, questions=2**64, schemas=10**30))
    row = CapacityReading.objects.get()
    assert (row.tables, row.questions, row.schemas) == (2**63 - 1, None, None)


def test_rates_survive_a_restart() -> None:
    primary, backup, _ = make_trio()
    hour = timedelta(hours=1)
    note_reading(primary, facts())
    note_reading(backup, facts(read_at=NOW + hour / 2, questions=0))
    note_reading(primary, facts(read_at=NOW + hour, uptime_seconds=90_000, questions=1_007_200, writes=4600))
    note_reading(primary, facts(read_at=NOW + 2 * hour, uptime_seconds=600, questions=1200, redo_bytes=2 * 10**9))
    rows = CapacityReading.objects.filter(instance=primary)
    assert [(row.questions_per_second, row.redo_bytes_per_second) for row in rows] == [
        (None, None),
        (2.0, 0.0),
        (2.0, 2 * 10**9 / 600),
    ]
    assert rows[1].writes_per_second == 1.0


def test_a_reading_that_failed_is_unknown_and_interrupts_no_rate() -> None:
    primary, _, _ = make_trio()
    hour = timedelta(hours=1)
    note_reading(primary, facts())
    failed = replace(facts(read_at=NOW + hour), growth=GrowthReading(NOW + hour))
    assert note_reading(primary, failed)
    note_reading(primary, facts(read_at=NOW + 2 * hour, uptime_seconds=93_600, questions=1_014_400))
    rows = CapacityReading.objects.filter(instance=primary)
    assert [(row.schemas, row.connections_peak, row.questions_per_second) for row in rows] == [
        (40, 90, None),
        (None, None, None),
        (40, 90, 2.0),
    ]
    assert [row.disk_bytes for row in rows] == [4000 * GIB] * 3


def test_the_prober_stores_what_a_probe_read(monkeypatch: pytest.MonkeyPatch) -> None:
    primary, _, _ = make_trio()
    InstanceState.objects.update(observed_at=NOW - timedelta(hours=1))
    found = facts(read_at=prober.clock.now())
    monkeypatch.setattr(prober, "read", lambda *_, **__: found)
    instance = Instance.objects.select_related("host", "cluster", "state__period").get(pk=primary.pk)
    assert prober.probe_all([instance]) == 1
    assert CapacityReading.objects.get().at == found.observed_at
    state = InstanceState.objects.get(instance=primary)
    assert state.facts() == from_record(InstanceFacts, to_record(found))
