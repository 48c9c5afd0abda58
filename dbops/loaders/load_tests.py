"""Load the facts of a load test's plan, and the results of its rounds. Reads tables only."""

from django.conf import settings
from django.db.models import QuerySet

from dbops.database import clock
from dbops.engine.backups.archives import Archive, newest
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.flavors import Flavor, flavor_for
from dbops.engine.load_tests.facts import GeneratorFacts, LoadTestFacts, LoadTestLimits, Neighbour
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.load_tests.round_result import RoundResult
from dbops.engine.load_tests.tidb_facts import TidbMember, TidbTestFacts
from dbops.engine.phrases import phrase
from dbops.engine.states import BackupMethod
from dbops.loaders.accounts import account_of
from dbops.loaders.host_usage import why_at_work
from dbops.loaders.members import member_of
from dbops.loaders.plan_inputs import archive_of_run, archives_of, host_facts, restore_tests_in
from dbops.models import BackupRun, Host, Instance, InstanceState, LoadTest, LoadTestRound


def limits() -> LoadTestLimits:
    """Return the limits from the settings."""
    return LoadTestLimits(
        server_cores=settings.LOAD_TEST_SERVER_CORES,
        generator_cores=settings.LOAD_TEST_GENERATOR_CORES,
        most_pool_bytes=settings.LOAD_TEST_POOL_BYTES,
        most_seconds=settings.LOAD_TEST_MAX_SECONDS,
        directory=settings.LOAD_TEST_DIRECTORY,
        start_seconds=settings.START_TIMEOUT_SECONDS,
        allows_primary_hosts=settings.LOAD_TEST_ON_PRIMARY_HOSTS,
    )


def default_archive(source: Instance) -> Archive | None:
    """Return the newest good physical backup of an instance. Two queries."""
    cluster = source.cluster_id
    tests = restore_tests_in(cluster)
    return newest(archives_of(cluster), instance=source.name, method=BackupMethod.PHYSICAL, restore_tests=tests)


def default_host(source: Instance) -> Host:
    """Return the host that runs the cluster's restore tests, else the source's. One query."""
    chosen = source.cluster.restore_test_host
    return (Host.objects.filter(name=chosen).first() if chosen else None) or source.host


def facts_of(
    request: LoadTestRequest, source: Instance, host: Host, generator_host: Host | None = None
) -> LoadTestFacts | TidbTestFacts:
    """Return the facts of a plan. ``generator_host``: of the load generator, if that is another one.

    Raises:
        Refused: the type of the scratch server is unknown: no backup, and the source was never probed (``load_test.source``), or as
            ``flavor_for``.
    """
    if source.role == Instance.Roles.TIDB:
        return _tidb_facts(source, host)
    known = member_of(source).facts
    archive, problem = _archive(request.run, source)
    return LoadTestFacts(
        flavor=_flavor(source, archive),
        source=known,
        host=host_facts(host),
        work_dir=host.work_dir,
        now=clock.now(),
        free_bytes=_free_bytes(host),
        neighbours=tuple(_neighbour(one) for one in _instances_on(host)),
        busy=why_at_work(host),
        archive=archive,
        backup_problem=problem,
        is_backup_there=source.host_id == host.pk,
        generator=_generator(generator_host) if generator_host else None,
    )


def _tidb_facts(source: Instance, host: Host) -> TidbTestFacts:
    """Return the facts of a test that inserts into a TiDB cluster, with its load generator on ``host``."""
    load = account_of(source, "load")
    rows = Instance.objects.filter(cluster=source.cluster_id).select_related("state").order_by("name")
    return TidbTestFacts(
        cluster=source.cluster.name,
        address=source.address,
        port=source.port,
        admin_user=account_of(source, "admin").user,
        load_user=load.user,
        has_password=bool(load.password),
        members=tuple(_tidb_member(one) for one in rows),
        host=host_facts(host),
        work_dir=host.work_dir,
        now=clock.now(),
        free_bytes=_free_bytes(host),
        neighbours=tuple(_neighbour(one) for one in _instances_on(host)),
        busy=why_at_work(host),
    )


def _tidb_member(instance: Instance) -> TidbMember:
    """Return an instance with what its last probe read; nothing where that is older than the probe's interval allows."""
    state = getattr(instance, "state", None)
    facts = state.facts() if state else None
    age = state.age_seconds(clock.now()) if state else None
    is_fresh = age is not None and age <= settings.FACTS_MAX_AGE_SECONDS
    server = facts.server if facts and is_fresh and not facts.server_problem else None
    return TidbMember(instance.name, server.tidb if server else None)


def _generator(host: Host) -> GeneratorFacts:
    return GeneratorFacts(
        host=host_facts(host),
        neighbours=tuple(_neighbour(one) for one in _instances_on(host)),
        busy=why_at_work(host),
        unreachable="" if host.host_key else "its host key was never accepted",
    )


def results_of(load_test: LoadTest) -> list[RoundResult]:
    """Return the results of the finished rounds, in their order. One query."""
    rows = LoadTestRound.objects.filter(load_test=load_test)
    return [from_record(RoundResult, one) for one in rows.values_list("result", flat=True)]


def _instances_on(host: Host) -> QuerySet[Instance]:
    return Instance.objects.filter(host=host).select_related("cluster", "state").order_by("name")


def _neighbour(instance: Instance) -> Neighbour:
    state = getattr(instance, "state", None)
    facts = state.facts() if state else None
    is_writable = bool(facts and facts.server and facts.server.read_only is False)
    role = instance.role
    return Neighbour(
        instance.name, instance.cluster.name, role, takes_writes=role == Instance.Roles.PRIMARY or is_writable
    )


def _flavor(source: Instance, archive: Archive | None) -> Flavor:
    if archive:
        return flavor_for(archive.version, archive.flavor)
    facts = member_of(source).facts
    if facts is None or facts.server is None:
        raise Refused.unchanged(
            "load_test.source",
            phrase("Planning a load test with the settings of {source}", source=source.name),
            phrase("its server was never probed"),
        )
    return flavor_for(facts.server.version, facts.server.flavor)


def _archive(run_id: int, source: Instance) -> tuple[Archive | None, str]:
    """Return the wanted backup, and why it cannot be used."""
    if not run_id:
        return None, ""
    run = BackupRun.objects.select_related("instance").filter(pk=run_id).first()
    if run is None or run.instance_id != source.pk:
        return None, f"backup run {run_id} is not of {source.name}"
    if why := run.why_not_testable:
        return None, why
    tests = restore_tests_in(source.cluster_id)
    if run_id in tests and tests[run_id].is_bad:
        return None, "its last restore test failed"
    return archive_of_run(run_id), ""


def _free_bytes(host: Host) -> int | None:
    """Return the most free bytes of any data directory's file system on a host, by the last probes; ``None`` if unknown."""
    states = InstanceState.objects.filter(instance__host=host, observed_at__isnull=False)
    found = [facts.datadir.free_bytes for state in states if (facts := state.facts()) and facts.datadir]
    return max(found, default=None)
