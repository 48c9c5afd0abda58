"""Backup schedules in the fleet file."""

import pytest
from django.utils import timezone

from dbops.models import AuditEntry, BackupSchedule
from dbops.operations.fleet import FleetFileErrors, export_fleet
from tests.app.fleetfile.test_import import changed

pytestmark = pytest.mark.django_db

BACKUPS = """\
        service: {systemd_unit: mariadb}
        backups:
          - name: shop-nightly
            method: physical
            run_by: dbops
            cron: "30 2 * * *"
            time_zone: Europe/Berlin
            directory: /backup/shop
            keep_days: 14
          - {name: shop-dump, method: dump, run_by: external, cron: "0 12 * * 0", enabled: false}
"""


@pytest.fixture
def text(folder) -> str:
    return folder.with_change("        service: {systemd_unit: mariadb}\n", BACKUPS)


def errors_of(folder, text: str) -> list[str]:
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text)
    return [str(error) for error in caught.value.errors]


def test_import_reads_schedules_with_defaults(folder, text):
    report = folder.load(text)
    assert report.count("created") == 7
    nightly, dump = BackupSchedule.objects.get(name="shop-nightly"), BackupSchedule.objects.get(name="shop-dump")
    assert (nightly.instance.name, nightly.keep_count, nightly.keep_days, nightly.late_after_seconds) == (
        "shop-1",
        7,
        14,
        900,
    )
    assert nightly.next_due_at > timezone.now()
    assert (dump.is_enabled, dump.next_due_at, dump.time_zone) == (False, None, "UTC")


def test_import_and_export_of_schedules_change_nothing_twice(folder, text):
    folder.load(text)
    before, entries = BackupSchedule.objects.values_list(), AuditEntry.objects.count()
    rows = list(before)
    assert folder.load(text).count("unchanged") == 7
    assert folder.load(export_fleet()).count("unchanged") == 7
    assert list(before.all()) == rows
    assert AuditEntry.objects.count() == entries


def test_keep_count_null_means_no_limit_and_is_exported(folder, text):
    folder.load(text.replace("keep_days: 14", "keep_count:"))
    assert BackupSchedule.objects.get(name="shop-nightly").keep_count is None
    assert folder.load(export_fleet()).count("unchanged") == 7
    assert BackupSchedule.objects.get(name="shop-nightly").keep_count is None
    assert BackupSchedule.objects.get(name="shop-dump").keep_count == 7


def test_import_reports_changed_fields_and_moves_next_due(folder, text):
    folder.load(text)
    due = BackupSchedule.objects.get(name="shop-nightly").next_due_at
    report = folder.load(text.replace('"30 2 * * *"', '"45 2 * * *"'))
    assert changed(report) == [("schedule", "shop-nightly", ["cron"])]
    assert BackupSchedule.objects.get(name="shop-nightly").next_due_at != due


def test_import_keeps_a_schedule_missing_in_the_file(folder, text):
    folder.load(text)
    folder.load()
    assert BackupSchedule.objects.count() == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('cron: "30 2 * * *"', 'cron: "30 25 * * *"', "26: clusters[0].instances[0].backups[0].cron: '30 25"),
        ("time_zone: Europe/Berlin", "time_zone: Europe/Berlni", "27: clusters[0].instances[0].backups[0].time_zone"),
        ("method: physical", "method: phyiscal", "did you mean 'physical'?"),
        ("            directory: /backup/shop\n", "", "23: clusters[0].instances[0].backups[0]:"),
        ("directory: /backup/shop", "directory: /var/lib/mysql/b", "backups[0].directory"),
        ("keep_days: 14", "keep_days: 0", "backups[0].keep_days"),
        ("keep_days: 14", "keep_count: 0", "backups[0].keep_count"),
        ("keep_days: 14", "keep_day: 14", "did you mean 'keep_days'?"),
        ("name: shop-dump,", "name: Shop-Nightly,", "backups[1].name"),
        ("            run_by: dbops\n", "", "'run_by' is missing"),
    ],
)
def test_schedule_errors_have_their_line(folder, text, old, new, expected):
    assert old in text
    found = errors_of(folder, text.replace(old, new, 1))
    assert any(expected in error for error in found), found
    assert not BackupSchedule.objects.exists()


def test_import_refuses_to_move_a_schedule_to_another_instance(folder, text):
    folder.load(text)
    moved = folder.text + BACKUPS.partition("\n")[2]
    assert any("'shop-1'" in error for error in errors_of(folder, moved))
