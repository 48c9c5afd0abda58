"""Write the observed states of the sample's instances over time, with times without probes."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dbops.engine.schedule.calendar import Interval
from dbops.models import Instance, InstancePeriod, InstanceState
from dbops.sample.generate.story import (
    LAG_SECONDS,
    LAGGING_MINUTES,
    LAGGING_NOW,
    LATE,
    OUTAGES,
    UNOBSERVED,
    moment,
)

HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Spell:
    """An interval with a problem of an instance."""

    start: datetime
    end: datetime
    state: str
    because: str


def spells_of_story(now: datetime) -> dict[str, list[Spell]]:
    """Return problems by instance that ended without a rebuild."""
    found: dict[str, list[Spell]] = {}
    for item in OUTAGES:
        start = moment(now, item.days_ago, item.clock)
        end = now if item.hours is None else start + timedelta(hours=item.hours)
        found.setdefault(item.instance, []).append(Spell(start, end, item.state, item.because))
    lagging = Spell(now - timedelta(minutes=LAGGING_MINUTES), now, LATE, f"lags by {LAG_SECONDS:.0f} s")
    found.setdefault(LAGGING_NOW, []).append(lagging)
    return found


def make_periods(
    instances: dict[str, Instance], spells: dict[str, list[Spell]], begin: datetime, now: datetime
) -> None:
    """Write the periods of each instance, and link the current one."""
    away = [
        Interval(start, start + timedelta(hours=hours))
        for start, hours in ((moment(now, days, clock), hours) for days, clock, hours in UNOBSERVED)
    ]
    rows = [
        InstancePeriod(
            cluster_id=instance.cluster_id,
            instance=instance,
            name=instance.name,
            role=instance.role,
            state=spell.state,
            because=spell.because[:300],
            started_at=spell.start,
            ended_at=None if spell.end == now else spell.end,
        )
        for instance in instances.values()
        for spell in observed(timeline(instance.role, spells.get(instance.name, []), begin, now), away)
    ]
    InstancePeriod.objects.bulk_create(sorted(rows, key=lambda row: row.started_at))
    for row in InstancePeriod.objects.filter(ended_at=None):
        InstanceState.objects.filter(instance=row.instance_id).update(period=row)


def timeline(role: str, spells: list[Spell], begin: datetime, now: datetime) -> list[Spell]:
    """Return consecutive spells until now, healthy between the problems."""
    well = "writable" if role == "primary" else "replicating"
    found, at = [], begin
    for spell in sorted(spells, key=lambda one: one.start):
        start, end = max(spell.start, at), min(spell.end, now)
        if end <= start:
            continue
        if at < start:
            found.append(Spell(at, start, HEALTHY, well))
        found.append(Spell(start, end, spell.state, spell.because))
        at = end
    return [*found, Spell(at, now, HEALTHY, well)] if at < now else found


def observed(spells: list[Spell], away: list[Interval]) -> list[Spell]:
    """Return spells without the times without probes."""
    for gap in away:
        spells = [part for spell in spells for part in _without(spell, gap)]
    return spells


def _without(spell: Spell, gap: Interval) -> list[Spell]:
    before = Spell(spell.start, min(spell.end, gap.start), spell.state, spell.because)
    after = Spell(max(spell.start, gap.end), spell.end, spell.state, spell.because)
    return [part for part in (before, after) if part.start < part.end]
