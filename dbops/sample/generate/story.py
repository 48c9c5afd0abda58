"""Incidents of the sample's fleet, by days ago and time of day (UTC)."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

GONE, HALTED, LATE = "unreachable", "stopped", "lagging"
REFUSED = "Can't connect to MySQL server (111: Connection refused)"
DUPLICATE = (
    "Could not execute Write_rows event on table shop.orders; Duplicate entry '40118823' for key 'PRIMARY' (1062)"
)
NOT_FOUND = "Could not execute Update_rows event on table billing.invoices; Can't find record in 'invoices' (1032)"
SILENT = "The host does not answer over SSH: timed out after 5 s"


def moment(now: datetime, days_ago: int, clock: str) -> datetime:
    """Return a time of day, a number of days before today."""
    day = now.astimezone(UTC).date() - timedelta(days=days_ago)
    return datetime.combine(day, time.fromisoformat(clock), UTC)


@dataclass(frozen=True, slots=True)
class Incident:
    """A rebuild and its cause. Without ``state`` there was no problem: the rebuild was an exercise.

    ``asked_after``: minutes until the request. ``ends_in``: step of the failure or cancellation.
    """

    days_ago: int
    clock: str
    target: str
    source: str
    by: str
    reason: str
    asked_after: float = 0.0
    state: str = ""
    because: str = ""
    ends_in: str = ""
    status: str = "succeeded"


ANNA, JONAS, PRIYA = "anna.keller", "jonas.meyer", "priya.nair"

INCIDENTS = (
    Incident(52, "00:41", "shop-r2", "shop-b1", PRIYA, "NVMe failed, replaced by the data center", 38, GONE, REFUSED),
    Incident(47, "09:10", "search-r3", "search-b1", ANNA, "Quarterly test that search-b1 can be restored from"),
    Incident(
        44, "13:05", "billing-r1", "billing-b1", ANNA, "Row missing after the crash of 12:58", 25, HALTED, NOT_FOUND
    ),
    Incident(40, "22:15", "search-r1", "search-b1", JONAS, "Power distribution of rack C4 failed", 31, GONE, SILENT),
    Incident(40, "22:15", "search-r2", "search-b1", JONAS, "Power distribution of rack C4 failed", 34, GONE, SILENT),
    Incident(36, "12:00", "shop-r1", "shop-b1", JONAS, "Test that shop-b1 can be restored from"),
    Incident(30, "21:12", "billing-r2", "billing-b1", PRIYA, "File system read-only, disk replaced", 44, GONE, REFUSED),
    Incident(26, "15:20", "crm-r1", "crm-b1", ANNA, "Moved to new hardware"),
    Incident(23, "11:30", "sessions-r1", "sessions-b1", JONAS, "Monthly test of sessions-b1"),
    Incident(
        *(
            21,
            "16:40",
            "shop-r1",
            "shop-b1",
            JONAS,
            "Duplicate key after a write to the replica",
            22,
            HALTED,
            DUPLICATE,
        ),
        ends_in="stream",
        status="cancelled",
    ),
    Incident(21, "18:55", "shop-r1", "shop-b1", JONAS, "Duplicate key; the campaign is over, the source is quiet"),
    Incident(17, "03:22", "crm-b1", "crm-r1", PRIYA, "Mainboard replaced, both disks new", 3160, GONE, SILENT),
    Incident(
        *(9, "13:05", "billing-r1", "billing-b1", PRIYA, "Checksums of two tables differ", 15, HALTED, NOT_FOUND),
        ends_in="prepare",
        status="failed",
    ),
    Incident(8, "12:20", "billing-r1", "billing-b1", ANNA, "Again, now that the host has its 256 GiB"),
    Incident(4, "02:20", "search-r3", "search-b2", ANNA, "Disk failed; search-b1 runs its backup", 18, GONE, REFUSED),
    Incident(
        2,
        "14:10",
        "sessions-r1",
        "sessions-b1",
        JONAS,
        "Duplicate entry after an unsafe statement",
        9,
        HALTED,
        DUPLICATE,
    ),
)


@dataclass(frozen=True, slots=True)
class Outage:
    """A problem that ended without a rebuild. ``hours`` is ``None`` while it continues."""

    days_ago: int
    clock: str
    instance: str
    hours: float | None
    state: str
    because: str


OUTAGES = (
    Outage(50, "08:14", "sessions-r1", 0.35, GONE, REFUSED),
    Outage(43, "03:10", "shop-b1", 1.9, LATE, "lags by 1840 s"),
    Outage(33, "19:02", "search-p1", 0.08, GONE, REFUSED),
    Outage(28, "02:30", "billing-b1", 3.4, LATE, "lags by 2210 s"),
    Outage(20, "22:06", "shop-b1", 0.27, GONE, SILENT),
    Outage(16, "14:02", "crm-r1", 2.8, HALTED, "Relay log read failure: Could not parse relay log event entry (1594)"),
    Outage(13, "05:00", "billing-b1", 2.6, LATE, "lags by 1395 s"),
    Outage(11, "20:12", "billing-r2", 0.4, GONE, SILENT),
    Outage(6, "03:55", "shop-r2", 1.4, LATE, "lags by 904 s"),
    Outage(3, "09:31", "crm-p1", 0.05, GONE, REFUSED),
)
#: Current problems, by minutes since their start.
LAGGING_NOW, LAG_SECONDS, LAGGING_MINUTES = "search-r2", 1912.0, 47

#: Times when dbops was down, without probes: days ago, time, hours.
UNOBSERVED = ((38, "06:00", 1.2), (24, "05:10", 3.1))

#: Days ago (negative: in the future), time, hours, cluster, person, reason.
MAINTENANCE = (
    (48, "21:00", 2.0, "search", JONAS, "MySQL 8.4.4 to 8.4.5, one after another"),
    (29, "20:00", 3.0, "crm", ANNA, "Network of the CRM racks moves to the new switches"),
    (20, "21:30", 1.5, "shop", PRIYA, "Kernel upgrade of shop-b1; it reboots once"),
    (11, "20:00", 2.0, "billing", PRIYA, "Firmware of the RAID controllers"),
    (-3, "22:00", 3.0, "shop", ANNA, "MariaDB 10.11.13 to 10.11.14"),
)
#: A current maintenance window, so that one cluster cannot be rebuilt: hours ago, hours.
ACTIVE_MAINTENANCE = (2, 6.0, "crm", JONAS, "Disks of crm-b1 are replaced, one after the other")


@dataclass(frozen=True, slots=True)
class Announced:
    """A maintenance window."""

    start: datetime
    end: datetime
    cluster: str
    by: str
    why: str


def maintenance(now: datetime) -> list[Announced]:
    """Return all maintenance windows, including future ones."""
    hours_ago, hours, cluster, by, why = ACTIVE_MAINTENANCE
    begun = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    return [
        *(_announced(moment(now, days, clock), hours, *about) for days, clock, hours, *about in MAINTENANCE),
        _announced(begun, hours, cluster, by, why),
    ]


def _announced(start: datetime, hours: float, cluster: str, by: str, why: str) -> Announced:
    return Announced(start, start + timedelta(hours=hours), cluster, by, why)


#: Anomalies of runs: (schedule, days ago) to kind.
RUNS_OF_NOTE = {
    ("shop-nightly", 34): "failed",
    ("shop-nightly", 19): "too long",
    ("shop-nightly", 3): "failed",
    ("shop-weekly-dump", 15): "small",
    ("billing-dump", 41): "failed",
    ("billing-dump", 27): "small",
    ("billing-dump", 12): "too long",
    ("billing-dump", 5): "late",
    ("search-nightly", 25): "failed",
    ("search-nightly", 10): "large",
    ("crm-nightly", 31): "late",
    ("crm-nightly", 6): "missed",
    ("sessions-dump", 29): "failed",
    ("sessions-dump", 14): "too long",
}
