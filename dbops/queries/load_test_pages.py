"""What the pages of load tests show: lists, the report so far, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Exists, F, OuterRef

from dbops.engine.facts.instance import from_record
from dbops.engine.load_tests.comparison import AbComparison, ratio_of
from dbops.engine.load_tests.knee import Knee
from dbops.engine.load_tests.measured import pairs_of, report_of
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.planning import Axis
from dbops.engine.load_tests.request import LoadTestRequest, Raised
from dbops.engine.load_tests.workload import Workload
from dbops.engine.states import RUN_ACTIVE, RUN_FINAL, BackupMethod, RunStatus
from dbops.loaders.load_tests import default_archive, default_host, results_of
from dbops.models import BackupRun, Cluster, DigestReading, Host, Instance, LoadTest, LoadTestEvent, LoadTestRound
from dbops.queries.digests import digest_readings_of
from dbops.queries.load_tests import plan_of

ON_A_PAGE, EVENTS_SHOWN, BACKUPS_OFFERED = 50, 300, 20
STATUSES = tuple(sorted({*RUN_ACTIVE, *RUN_FINAL} - {RunStatus.MISSED}))
#: The key of each axis in the report.
KEYS = {Axis.SCHEMAS: "TargetSchemaCount", Axis.RATE: "WantedRate", Axis.THREADS: "ParallelCount"}
AXES = {Raised.SCHEMAS: Axis.SCHEMAS, Raised.RATE: Axis.RATE, Raised.THREADS: Axis.THREADS}
#: The percentile whose knee is looked for: the median never shows the wall (measured).
KNEE_OF = "P99"
#: Large columns that only the driver or the form needs.
_LARGE = ("request", "checkpoint")
#: Fields of the workload that pages show.
OF_WORKLOAD = ("profile", "tables", "table_rows", "schema", "row_share", "seconds_on_schema")


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of an A/B or A/A test: its number, and the speed of the second arm by that of the first."""

    number: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a load test shows.

    Attributes:
        report: of the finished rounds; empty before the first one has ended.
        axis: what is raised from step to step; ``None`` for an A/B test.
        knee: of ``KNEE_OF``; ``None`` for an A/B test, and before the first round.
        ab: verdict of an A/B test so far.
        pairs, aa_pairs: its pairs of valid rounds.
    """

    report: Mapping[str, Any]
    axis: Axis | None
    knee: Knee | None = None
    ab: AbComparison | None = None
    pairs: tuple[Pair, ...] = ()
    aa_pairs: tuple[Pair, ...] = ()

    @property
    def key(self) -> str:
        return KEYS[self.axis] if self.axis else ""


@dataclass(frozen=True, slots=True)
class LoadTestPage:
    """Everything that the page of one load test shows. ``events``: newest first; ``is_cut``: older ones are left out."""

    row: LoadTest
    plan: LoadTestPlan
    conclusion: Conclusion
    events: tuple[LoadTestEvent, ...]
    is_cut: bool

    @property
    def finished_rounds(self) -> int:
        return int(self.conclusion.report.get("FinishedRounds", 0))


@dataclass(frozen=True, slots=True)
class LoadTestChoices:
    """What a new load test of a cluster can choose from."""

    cluster: Cluster
    sources: tuple[Instance, ...]
    hosts: tuple[Host, ...]
    backups: tuple[BackupRun, ...]
    source: Instance | None
    host: Host | None
    run: int
    digest_readings: tuple[DigestReading, ...] = ()

    @property
    def is_tidb(self) -> bool:
        """Whether the load goes to the TiDB cluster itself."""
        return self.source is not None and self.source.role == Instance.Roles.TIDB


def listed(*, cluster: str, status: str, number: str | int) -> Page[Any]:
    """Return a page of load tests, newest first."""
    rows = LoadTest.objects.select_related("cluster", "source", "host", "run").defer(*_LARGE, "plan", "steps", "report")
    rows = rows.annotate(profile=F("request__workload__profile"), raised=F("request__raised"))
    rows = rows.filter(cluster__name=cluster) if cluster else rows
    rows = rows.filter(status=status) if status else rows
    return Paginator(rows, ON_A_PAGE).get_page(number)


def cluster_names() -> list[str]:
    return list(Cluster.objects.order_by("name").values_list("name", flat=True))


def revision(load_test_id: int) -> int | None:
    return LoadTest.objects.filter(pk=load_test_id).values_list("revision", flat=True).first()


def find(load_test_id: int) -> LoadTest | None:
    """Return one load test with its related rows and what pages show of its request, without the statements. One query."""
    rows = LoadTest.objects.select_related("run", "source", "host", "generator_host", "cluster").defer(*_LARGE)
    rows = rows.annotate(
        raised=F("request__raised"),
        seed=F("request__seed"),
        **{name: F(f"request__workload__{name}") for name in OF_WORKLOAD},
    )
    return rows.filter(pk=load_test_id).first()


def request_of(row: LoadTest) -> LoadTestRequest:
    """Return the request of a row of ``find``, without what only its driver needs: statements, table, options."""
    workload = from_record(Workload, {name: getattr(row, name) for name in OF_WORKLOAD})
    raised, seed = row.raised, row.seed  # type: ignore[attr-defined]
    return LoadTestRequest(row.source.name, row.host.name, workload, raised=Raised(raised), seed=seed)


def offered(most: int) -> list[LoadTest]:
    """Return load tests that can be compared: the newest ones with a finished round."""
    rows = LoadTest.objects.filter(Exists(LoadTestRound.objects.filter(load_test=OuterRef("pk"))))
    rows = rows.select_related("source", "host")
    return list(rows.annotate(profile=F("request__workload__profile")).defer(*_LARGE, "plan", "report")[:most])


def page_of(row: LoadTest) -> LoadTestPage:
    """Return the page of a load test. Two queries."""
    plan = plan_of(row)
    events = tuple(LoadTestEvent.objects.filter(load_test=row).order_by("-pk")[: EVENTS_SHOWN + 1])
    return LoadTestPage(row, plan, conclusion_of(row, plan), events[:EVENTS_SHOWN], len(events) > EVENTS_SHOWN)


def conclusion_of(row: LoadTest, plan: LoadTestPlan) -> Conclusion:
    """Return what the finished rounds show, of a running load test as of one that has ended."""
    request = request_of(row)
    axis = AXES.get(request.raised)
    if axis and row.report.get("Steps"):
        return Conclusion(row.report, axis, from_record(Knee, row.report["Knees"][KNEE_OF]))
    results = results_of(row)
    if not results:
        return Conclusion({}, axis)
    report = row.report if row.report.get("Steps") else report_of(request, plan, results)
    if axis:
        return Conclusion(report, axis, from_record(Knee, report["Knees"][KNEE_OF]))
    ab, aa = pairs_of(plan, results)
    return Conclusion(report, None, None, from_record(AbComparison, report["Comparison"]), _pairs(ab), _pairs(aa))


def choices_of(cluster: Cluster, source_name: str = "") -> LoadTestChoices:
    """Return the choices, with the defaults: the backup instance with its newest good backup, and the host of restore tests."""
    rows = Instance.objects.filter(cluster=cluster).select_related("host", "cluster", "state").order_by("name")
    sources = tuple(rows)
    source = next((one for one in sources if one.name == source_name), None) or _preferred(sources)
    archive = default_archive(source) if source else None
    return LoadTestChoices(
        cluster,
        sources,
        tuple(Host.objects.order_by("name")),
        tuple(_backups(source)) if source else (),
        source,
        default_host(source) if source else None,
        archive.run if archive else 0,
        tuple(one for one in digest_readings_of(cluster.pk) if one.status == DigestReading.Statuses.SUCCEEDED),
    )


def _preferred(sources: Sequence[Instance]) -> Instance | None:
    """Return the instance whose settings a test takes by default: the one with the backups, else the primary."""
    order = {"backup": 0, "primary": 1}
    return min(sources, key=lambda one: order.get(one.role, 2), default=None)


def _backups(source: Instance) -> list[BackupRun]:
    rows = BackupRun.objects.filter(
        instance=source, origin="managed", status=RunStatus.SUCCEEDED, removed_at=None, method=BackupMethod.PHYSICAL
    )
    return list(rows.order_by("-finished_at")[:BACKUPS_OFFERED])


def _pairs(speeds_of_pairs: Sequence[tuple[float, float]]) -> tuple[Pair, ...]:
    ratios = [(number, ratio_of([pair]).ratio) for number, pair in enumerate(speeds_of_pairs, 1)]
    return tuple(Pair(number, ratio) for number, ratio in ratios if ratio is not None)
