"""The sample fleet: filled by one command, the same each time, readable on every page, and never among real figures."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLResolver, get_resolver, reverse
from django.utils import timezone

from dbops.engine.availability.record import Cause
from dbops.engine.capacity.limits import LimitKind, LimitState
from dbops.engine.facts.instance import from_record
from dbops.engine.load_tests.comparison import Verdict as LoadVerdict
from dbops.engine.load_tests.knee import KneeKind
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.schedule.conflicts import Activity
from dbops.engine.states import RunStatus, Status, StepState
from dbops.engine.tuning.doublewrite import DoublewriteVerdict, Standing
from dbops.models import (
    AuditEntry,
    BackupRun,
    Cluster,
    Hold,
    Instance,
    InstancePeriod,
    LoadTest,
    Maintenance,
    Rebuild,
    RebuildSample,
    RebuildStep,
    RestoreTest,
)
from dbops.operations.audit_log import verify_log
from dbops.queries.audit.log import stored
from dbops.queries.capacity import cluster_limits, soon_by_cluster
from dbops.queries.fleet.doublewrite import doublewrite_page
from dbops.queries.load_tests import plan_of
from dbops.sample.database_check import is_sample
from dbops.sample.generate import fill
from tests.app.factories import make_operator

WEEKS = 4
BAR = "Sample: generated history, no real servers"
FOR_EVER = 10**9


@pytest.fixture(scope="module")
def _filled(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The sample, made once: each test works in a savepoint of its own beneath it."""
    with django_db_blocker.unblock(), transaction.atomic():
        fill(weeks=WEEKS, now=timezone.now())
        yield
        transaction.set_rollback(True)


@pytest.fixture
def sample(_filled: None, db: None, settings: Any) -> None:
    settings.SAMPLE = True
    settings.FACTS_MAX_AGE_SECONDS = settings.PROBE_INTERVAL_SECONDS = FOR_EVER


@pytest.fixture
def reader(sample: None) -> Client:
    client = Client()
    client.force_login(make_operator())
    return client


@pytest.mark.usefixtures("sample")
def test_sample_has_several_kinds_of_clusters_with_history() -> None:
    assert Cluster.objects.count() == 6
    assert Cluster.objects.filter(instances__role="tidb").distinct().count() == 1
    statuses = set(Rebuild.objects.values_list("status", flat=True))
    assert statuses == {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}
    assert Rebuild.objects.filter(method="rollback", follows__status=Status.FAILED).exists()
    runs = set(BackupRun.objects.values_list("status", flat=True))
    assert {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.MISSED, RunStatus.ENDED} <= runs
    flags = {flag for found in BackupRun.objects.values_list("flags", flat=True) for flag in found}
    assert {"late", "too_long", "large"} <= flags
    states = set(InstancePeriod.objects.values_list("state", flat=True))
    assert states == {"healthy", "unreachable", "stopped", "lagging"}
    assert RebuildSample.objects.exists()


@pytest.mark.usefixtures("sample")
def test_sample_rebuilds_are_consistent() -> None:
    """Plans are whole, steps follow one another, and no source was read by two at once."""
    for rebuild in Rebuild.objects.all():
        assert from_record(Plan, rebuild.plan).refusals == (), rebuild
        steps = list(RebuildStep.objects.filter(rebuild=rebuild).exclude(started_at=None))
        ends = [rebuild.requested_at, rebuild.started_at, *(step.finished_at for step in steps), rebuild.finished_at]
        assert ends == sorted(ends), rebuild
        is_good = rebuild.status == Status.SUCCEEDED
        assert is_good == all(step.state == StepState.DONE for step in rebuild.steps.all())
    copies = Rebuild.objects.exclude(method="rollback")
    for rebuild in copies:
        release = rebuild.steps.get(name="release").finished_at or rebuild.finished_at
        others = copies.filter(source=rebuild.source, started_at__gte=rebuild.started_at, started_at__lt=release)
        assert list(others) == [rebuild]
        runs = BackupRun.objects.filter(instance=rebuild.source)
        assert not runs.filter(started_at__lte=rebuild.started_at, finished_at__gt=rebuild.started_at).exists()


def test_sample_has_limits_near_far_and_unknown(reader: Client) -> None:
    soon = soon_by_cluster(timezone.now())
    assert {limit.kind for limit in soon.values()} == {LimitKind.DISK, LimitKind.SCHEMAS, LimitKind.AUTO_INCREMENT}
    states = {limit.state for row in Cluster.objects.all() for limit in cluster_limits(row).limits}
    assert states == set(LimitState)
    for name in Cluster.objects.values_list("name", flat=True):
        charts = reader.get(reverse("cluster-capacity", args=[name])).context["charts"]
        # TiDB reports sizes, and nothing of InnoDB
        drawn = [bool(chart.drawing) for chart in charts]
        assert any(drawn) if name == "ledger" else all(drawn), name


@pytest.mark.usefixtures("sample")
def test_sample_has_a_tidb_table_with_one_hot_store(reader: Client) -> None:
    page = reader.get(reverse("cluster", args=["ledger"])).context
    rows = {row.table.name: row for row in page["tidb"].rows}
    assert [name for name, row in rows.items() if row.is_noticeable] == ["ledger.events"]
    assert [way.name for way in rows["ledger.events"].ways if way.statements] == ["partitions", "shards", "random_ids"]
    assert all(one.state == "healthy" for one in page["page"].row.rows)


@pytest.mark.usefixtures("sample")
def test_sample_shows_each_verdict_on_doublewrite() -> None:
    found = set()
    for instance in Instance.objects.all():
        page = doublewrite_page(instance)
        if page is not None:
            found.add((page.advice.verdict, page.advice.standing, page.advice.repairs))
    assert found == {
        (DoublewriteVerdict.SAFE, None, True),
        (DoublewriteVerdict.ATTEST, Standing.VALID, True),
        (DoublewriteVerdict.ATTEST, None, True),
        (DoublewriteVerdict.KEEP, None, True),
        (DoublewriteVerdict.KEEP, None, False),
    }


def test_sample_has_a_load_test_of_each_end(reader: Client) -> None:
    found = {row.status: row.pk for row in LoadTest.objects.order_by("pk")}
    assert set(found) == {RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED}
    conclusions = [
        reader.get(reverse("load-test", args=[row.pk])).context["page"].conclusion for row in LoadTest.objects.all()
    ]
    knees = [(one.knee.kind, one.knee.after, one.knee.at) for one in conclusions if one.knee and one.knee.after]
    assert knees == [(KneeKind.WALL, 300, 600)]
    assert [one.ab.verdict for one in conclusions if one.ab] == [LoadVerdict.FASTER]
    assert all(one.report for one in conclusions)
    for row in LoadTest.objects.filter(status=RunStatus.SUCCEEDED):
        expected = plan_of(row).estimate.fill
        assert expected is not None
        assert expected < 2 * next(step["seconds"] for step in row.steps if step["name"] == "fill"), row.reason


@pytest.mark.usefixtures("sample")
def test_sample_periods_never_overlap() -> None:
    ends: dict[int | None, datetime] = {}
    for row in InstancePeriod.objects.order_by("instance", "started_at"):
        assert ends.get(row.instance_id, row.started_at) <= row.started_at, row
        assert row.ended_at is None or row.ended_at > row.started_at
        ends[row.instance_id] = row.ended_at or timezone.now()
    assert InstancePeriod.objects.filter(ended_at=None).count() == len(ends)


def test_sample_always_has_a_blocked_cluster(reader: Client) -> None:
    now = timezone.now()
    assert Maintenance.objects.filter(starts_at__lte=now, ends_at__gt=now).count() == 1
    answer = reader.get("/", {"show": "blocked"})
    [row] = [row for row in answer.context["fleet"].rows if row.agenda.cluster.name == "crm"]
    assert Activity.MAINTENANCE in [blocker.work for blocker in row.agenda.eligibility.blockers]


@pytest.mark.usefixtures("sample")
def test_sample_audit_log_verifies_and_is_in_order() -> None:
    findings, _, count = verify_log(stored(), actor="eva")
    assert findings == []
    assert count > 200
    first, *others = AuditEntry.objects.order_by("sequence")
    assert first.action == "sample.generated"
    assert is_sample()
    found = [
        entry.detail["happened_at"] for entry in others if entry.action != "audit.verified" or entry.actor != "eva"
    ]
    assert found == sorted(found)


def pages(resolver: Any = None, prefix: str = "/") -> Iterator[tuple[str, str]]:
    """Every address that can be opened, with the sample's objects in its places, and its name."""
    run, rebuild = BackupRun.objects.exclude(started_at=None).first(), Rebuild.objects.filter(status="failed").get()
    restore_test, month = RestoreTest.objects.filter(status="failed").get(), f"{timezone.now():%Y-%m}"
    values = {"str": "billing", "int": str(rebuild.pk), "method": "resume", "month": month}
    special = {
        "instances": "billing-r1",
        "runs": str(run.pk if run else 0),
        "restore_tests": str(restore_test.pk),
        # keys grow from test to test where a database does not reset them; this one counts from 1
        "audit": str(AuditEntry.objects.order_by("-sequence").values_list("sequence", flat=True)[0]),
        "schedules": "billing-dump",
    }
    for item in (resolver or get_resolver()).url_patterns:
        route, before = prefix + str(item.pattern), ""
        while "<" in route:
            start, _, rest = route.partition("<")
            before = start.rstrip("/").rpartition("/")[2]
            kind, _, rest = rest.partition(">")
            route = start + special.get(before, values.get(kind.partition(":")[0], "x")) + rest
        if isinstance(item, URLResolver):
            yield from pages(item, route)
        else:
            yield route, str(item.name)


def test_sample_pages_open_and_are_marked(reader: Client) -> None:
    seen = set()
    for address, name in pages():
        if name in ("rebuild-events", "logout", "healthz-worker", "healthz-beat"):
            continue  # a stream that never ends; POST alone; processes that a sample does not have
        answer = reader.get(address)
        assert answer.status_code < 500, address
        if answer.headers.get("Content-Type", "").startswith("text/html") and b"<html" in answer.content:
            assert BAR in answer.content.decode(), address
            seen |= {name} if answer.status_code == 200 else set()
    found = {"fleet", "cluster", "rebuilds", "rebuild", "backup-runs", "backup-run", "backup-history", "availability"}
    assert (
        found | {"cluster-availability", "audit", "audit-entry", "rebuild-plan", "fleet-calendar", "schedules"} <= seen
    )


@pytest.mark.parametrize("width", [7, 30, 90])
def test_sample_has_availability_gaps(reader: Client, width: int) -> None:
    answer = reader.get(reverse("availability"), {"days": width, "format": "json"})
    assert answer.status_code == 200
    page = reader.get(reverse("cluster-availability", args=["billing"]), {"days": width})
    assert Cause.BACKUP in [cause for cause, _ in page.context["found"].causes]


def test_sample_refuses_a_rebuild(reader: Client) -> None:
    before = Rebuild.objects.count(), Hold.objects.count(), AuditEntry.objects.count()
    answer = reader.post("/instances/shop-r1/rebuild/", {"name": "shop-r1", "reason": "for a test"})
    assert answer.status_code == 409
    assert "sample.read_only" in answer.content.decode()
    assert (Rebuild.objects.count(), Hold.objects.count(), AuditEntry.objects.count()) == before


def test_sample_exports_are_marked_by_name(reader: Client) -> None:
    answer = reader.post("/audit/export/", {"format": "csv"})
    assert answer.status_code == 200
    assert 'filename="sample-audit-' in answer.headers["Content-Disposition"]
