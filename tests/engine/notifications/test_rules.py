"""Which events a rule wants, and when they are sent."""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from dbops.engine.notifications.events import EVENTS, EventSeverity
from dbops.engine.notifications.rules import DigestInterval, Rule, check_events, due

BERLIN = ZoneInfo("Europe/Berlin")
INFO, WARNING, CRITICAL = EVENTS["rebuild.done"], EVENTS["cluster.short"], EVENTS["backup.missed"]
ALL = frozenset(EVENTS)
NIGHT = (time(22, 0), time(7, 0))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_rule_wants_its_events_cluster_and_severity() -> None:
    rule = Rule(ALL - {"rebuild.done"}, cluster="shop", minimum=EventSeverity.WARNING)
    assert rule.wants(WARNING, "shop")
    assert rule.wants(CRITICAL, "shop")
    assert not rule.wants(WARNING, "other")
    assert not rule.wants(INFO, "shop")
    assert not rule.wants(EVENTS["rebuild.waiting"], "shop")
    assert not rule.wants(EVENTS["dashboard.process_silent"], "")
    assert Rule(ALL).wants(EVENTS["dashboard.process_silent"], "")


@pytest.mark.parametrize(
    ("quiet", "now", "until"),
    [
        (NIGHT, "2026-07-01 19:59", None),
        (NIGHT, "2026-07-01 20:00", "2026-07-02 05:00"),
        (NIGHT, "2026-07-02 04:59", "2026-07-02 05:00"),
        (NIGHT, "2026-07-02 05:00", None),
        ((time(12, 0), time(13, 0)), "2026-07-01 10:30", "2026-07-01 11:00"),
        ((time(12, 0), time(12, 0)), "2026-07-01 10:00", None),
        # the clock is set forward and back in the night: the end follows it
        (NIGHT, "2026-03-28 22:00", "2026-03-29 05:00"),
        (NIGHT, "2026-10-24 22:00", "2026-10-25 06:00"),
        (None, "2026-07-01 23:00", None),
    ],
)
def test_quiet_hours_hold_until_their_end(quiet: tuple[time, time] | None, now: str, until: str | None) -> None:
    found = due(Rule(ALL, quiet=quiet), WARNING, at(now), BERLIN)
    assert (found.at, found.is_held) == (at(until or now), until is not None)


@pytest.mark.parametrize("digest", DigestInterval)
def test_critical_event_waits_for_nothing(digest: DigestInterval) -> None:
    now = at("2026-07-01 23:30")
    found = due(Rule(ALL, quiet=NIGHT, digest=digest), CRITICAL, now, BERLIN)
    assert (found.at, found.is_held) == (now, False)


@pytest.mark.parametrize(
    ("digest", "now", "then"),
    [
        (DigestInterval.HOURLY, "2026-07-01 10:15", "2026-07-01 11:00"),
        (DigestInterval.HOURLY, "2026-07-01 11:00", "2026-07-01 12:00"),
        (DigestInterval.DAILY, "2026-07-01 05:59", "2026-07-01 06:00"),
        (DigestInterval.DAILY, "2026-07-01 06:00", "2026-07-02 06:00"),
        (DigestInterval.DAILY, "2026-10-24 10:00", "2026-10-25 07:00"),
    ],
)
def test_digest_is_sent_at_its_time(digest: DigestInterval, now: str, then: str) -> None:
    found = due(Rule(ALL, digest=digest), WARNING, at(now), BERLIN)
    assert (found.at, found.is_held) == (at(then), True)


def test_digest_in_quiet_hours_follows_after_them() -> None:
    found = due(Rule(ALL, digest=DigestInterval.HOURLY, quiet=NIGHT), INFO, at("2026-07-01 20:30"), BERLIN)
    assert (found.at, found.is_held) == (at("2026-07-02 05:00"), True)


def test_report_is_in_no_digest_and_respects_quiet_hours() -> None:
    rule = Rule(ALL, digest=DigestInterval.DAILY, quiet=NIGHT)
    assert due(rule, EVENTS["report.weekly"], at("2026-07-01 09:00"), BERLIN).at == at("2026-07-01 09:00")
    assert due(rule, EVENTS["report.weekly"], at("2026-07-01 23:00"), BERLIN).at == at("2026-07-02 05:00")


def test_events_of_a_rule_are_known_and_in_order() -> None:
    assert check_events({"backup.missed", "rebuild.done"}) == ["rebuild.done", "backup.missed"]
    for wrong in ([], ["backup.unknown"]):
        with pytest.raises(ValueError, match="event"):
            check_events(wrong)
