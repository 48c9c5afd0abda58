"""Metrics for Prometheus, and the health checks of processes."""

import math
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from dbops.engine.states import Status, StepState
from dbops.models import AccessToken, Hold, ProcessHeartbeat
from dbops.operations.tokens import METRICS, REPORT, make_token
from script.lib.big_fleet import make_big_fleet
from tests.app.factories import (
    make_cluster,
    make_instance,
    make_rebuild,
    make_run,
    make_trio,
    make_unreachable,
    make_user,
    set_facts,
)

pytestmark = pytest.mark.django_db
QUERIES = 48


@pytest.fixture
def secret() -> str:
    return make_token(actor="test", name="prometheus", purpose=METRICS, cluster=None)[1]


def scraped(client: Client, secret: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Return the values by name and labels, as Prometheus' own parser reads them."""
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            known = found.setdefault(sample.name, {})
            key = frozenset(sample.labels.items())
            assert key not in known, f"{sample} is there twice"
            assert math.isfinite(sample.value)
            known[key] = sample.value
    return found


def of(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def test_metrics_need_a_token_of_their_own(client: Client, operator: Client, secret: str) -> None:
    cluster = make_cluster("other")
    _, other = make_token(actor="test", name="host", purpose=REPORT, cluster=cluster)
    wrong = {"Authorization": f"Bearer {other}"}
    answers = [client.get("/metrics"), operator.get("/metrics"), client.get("/metrics", headers=wrong)]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert all(answer["WWW-Authenticate"].startswith("Bearer") for answer in answers)
    assert client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    AccessToken.objects.filter(name="prometheus").update(revoked_at=timezone.now())
    assert client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert client.post("/metrics").status_code == 405


def test_cluster_metrics_count_replicas_and_tell_whether_a_rebuild_can_start(client: Client, secret: str) -> None:
    _, backup, replica = make_trio()
    set_facts(replica, make_unreachable())
    found, cluster = scraped(client, secret), of(cluster=replica.cluster.name)
    assert found["dbops_cluster_replicas"][cluster] == 2
    assert found["dbops_cluster_replicas_healthy"][cluster] == 1
    assert found["dbops_cluster_replicas_wanted"][cluster] == 2
    assert found["dbops_cluster_rebuild_ready"][cluster] == 1
    make_run(backup, started_at=timezone.now(), status="running", method="dump")
    found = scraped(client, secret)
    assert found["dbops_cluster_rebuild_ready"][cluster] == 0


def test_queue_and_steps_of_rebuilds_are_metrics(client: Client, secret: str) -> None:
    _, backup, replica = make_trio()
    now = timezone.now()
    rebuild = make_rebuild(target=replica, source=backup, status=Status.RUNNING)
    rebuild.steps.filter(name="stream").update(
        state=StepState.RUNNING,
        started_at=now - timedelta(seconds=50),
        progress={"percent": 40.0, "rate_bytes_per_second": 1e6, "eta_seconds": None},
    )
    Hold.objects.create(instance=backup, rebuild=rebuild, purpose="source", taken_at=now)
    found = scraped(client, secret)
    names = {"cluster": replica.cluster.name, "instance": replica.name}
    labels = of(rebuild=str(rebuild.pk), step="stream", **names)
    assert found["dbops_rebuild_step_ratio"][labels] == pytest.approx(0.4)
    assert found["dbops_rebuild_step_bytes_per_second"][labels] == 1e6
    assert 50 <= found["dbops_rebuild_step_seconds"][labels] < 110
    assert found["dbops_holds"][of(purpose="source")] == 1
    ended = of(cluster=names["cluster"], status="succeeded")
    assert found["dbops_rebuilds"][of(cluster=names["cluster"], status="running")] == 1
    assert found["dbops_rebuilds_ended_total"][ended] == 0
    assert "dbops_rebuild_step_eta_seconds" not in found
    rebuild.steps.update(state=StepState.DONE)
    rebuild.status = Status.SUCCEEDED
    rebuild.save()
    found = scraped(client, secret)
    assert found["dbops_rebuilds_ended_total"][ended] == 1
    assert "dbops_rebuild_step_ratio" not in found


def test_newest_backup_of_each_instance_is_a_time(client: Client, secret: str) -> None:
    _, backup, _ = make_trio()
    now = timezone.now()
    for hours, status in ((50, "succeeded"), (26, "succeeded"), (2, "failed")):
        end = now - timedelta(hours=hours)
        make_run(backup, status=status, started_at=end - timedelta(hours=1), seconds=3600, bytes_written=hours)
    found = scraped(client, secret)
    source = of(cluster=backup.cluster.name, instance=backup.name)
    assert found["dbops_backup_last_success_timestamp_seconds"][source] == pytest.approx(
        (now - timedelta(hours=26)).timestamp(), abs=1
    )
    assert found["dbops_backup_last_success_bytes"][source] == 26
    assert found["dbops_backup_last_failure_timestamp_seconds"][source] == pytest.approx(
        (now - timedelta(hours=2)).timestamp(), abs=1
    )


def test_number_of_queries_does_not_depend_on_the_fleet(client: Client, secret: str) -> None:
    make_big_fleet(clusters=30, now=timezone.now(), user=make_user("fleet"))
    with CaptureQueriesContext(connection) as queries:
        scraped(client, secret)
    assert len(queries) <= QUERIES


def test_instance_states_and_ages_have_labels(client: Client, secret: str) -> None:
    _, backup, _ = make_trio()
    found = scraped(client, secret)
    names = {"cluster": backup.cluster.name, "instance": backup.name}
    assert found["dbops_instance_state"][of(role="backup", state="healthy", **names)] == 1
    assert found["dbops_instance_probe_age_seconds"][of(**names)] < 60


def test_hostile_names_are_escaped(client: Client, secret: str) -> None:
    cluster = make_cluster("a")
    cluster.name = 'x"\\\n} 1'
    cluster.save()
    make_instance(name="r", cluster=cluster)
    assert of(cluster='x"\\\n} 1') in scraped(client, secret)["dbops_cluster_replicas"]


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_health_of_a_process_follows_its_heartbeat(client: Client, name: str) -> None:
    now = timezone.now()
    assert client.get(f"/healthz/{name}/").status_code == 503
    ProcessHeartbeat.objects.create(name=name, at=now - timedelta(seconds=10))
    assert client.get(f"/healthz/{name}/").status_code == 200
    ProcessHeartbeat.objects.filter(name=name).update(at=now - timedelta(seconds=90))
    assert client.get(f"/healthz/{name}/").status_code == 503
