"""Generate a sample fleet with weeks of history, for demonstration only. Used by ``manage.py sample``."""

import random
from datetime import datetime, timedelta

from django.db import transaction

from dbops.models import Cluster, Maintenance, Rebuild
from dbops.sample.generate.acts import EVA, write_log
from dbops.sample.generate.capacity import write_readings
from dbops.sample.generate.digests import write_digest_readings
from dbops.sample.generate.inventory import facts_by_name, make_fleet, make_people, make_schedules, make_states
from dbops.sample.generate.inventory_sources import write_inventory_source
from dbops.sample.generate.load_tests import write_load_tests
from dbops.sample.generate.notifications import write_notifications
from dbops.sample.generate.rebuilds import MadeRebuild, make_rebuilds
from dbops.sample.generate.restore_tests import write_restore_tests
from dbops.sample.generate.runs import draw_runs, write_runs
from dbops.sample.generate.states import Spell, make_periods, spells_of_story
from dbops.sample.generate.storage import make_attestations
from dbops.sample.generate.story import GONE, INCIDENTS, SILENT, maintenance, moment
from dbops.sample.generate.tidb import make_tidb, write_tidb_readings
from dbops.sample.generate.waits import write_wait_readings

SEED = 20


def fill(*, weeks: int, now: datetime, seed: int = SEED) -> dict[str, int]:
    """Fill an empty database in one transaction. The same seed and time give the same history.

    Returns:
        Counts by kind.
    """
    dice = random.Random(seed)  # noqa: S311 - it guards nothing, and is to be the same each time
    begin = now - timedelta(weeks=weeks)
    with transaction.atomic():
        people, instances = make_people(), make_fleet(dice)
        facts = facts_by_name(instances, now)
        make_states(instances, facts, now)
        make_attestations(instances, now)
        spells = spells_of_story(now)
        runs = draw_runs(make_schedules(instances, now), _away(spells, now), begin, now, dice)
        past = MadeRebuild(instances, facts, people, runs, begin, now, dice, spells=spells)
        make_rebuilds(past)
        write_runs(runs, now)
        write_restore_tests(runs, begin, now)
        load_tests = write_load_tests(instances, begin, now, seed)
        make_periods(instances, spells, begin, now)
        make_tidb(begin, now, random.Random(seed))  # noqa: S311 - as above; of its own, so that the rest stays the same
        _announce(begin, now)
        readings = write_tidb_readings(now) + write_readings(instances, now, seed)
        write_wait_readings(instances, now)
        write_digest_readings(instances, now)
        write_inventory_source(instances, now)
        write_notifications(now, by=EVA)
        entries = write_log(instances, begin, now, weeks=weeks, dice=dice)
    return {
        "clusters": Cluster.objects.count(),
        "rebuilds": Rebuild.objects.count(),
        "backup runs": len(runs),
        "load tests": load_tests,
        "capacity readings": readings,
        "maintenance windows": Maintenance.objects.count(),
        "audit entries": entries,
    }


def _away(spells: dict[str, list[Spell]], now: datetime) -> dict[str, list[Spell]]:
    """Return when hosts were down and made no backups."""
    away = {name: [spell for spell in found if spell.because == SILENT] for name, found in spells.items()}
    for item in INCIDENTS:
        if item.state == GONE:
            lost = moment(now, item.days_ago, item.clock)
            spell = Spell(lost, lost + timedelta(minutes=item.asked_after), item.state, item.because)
            away.setdefault(item.target, []).append(spell)
    return away


def _announce(begin: datetime, now: datetime) -> None:
    clusters = {row.name: row for row in Cluster.objects.all()}
    for one in maintenance(now):
        if one.start >= begin:
            Maintenance.objects.create(
                cluster=clusters[one.cluster],
                starts_at=one.start,
                ends_at=one.end,
                reason=one.why,
                created_by=one.by,
            )
