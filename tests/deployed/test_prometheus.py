"""A real Prometheus reads a running dashboard with the configuration of contrib/, and its rules fire."""

import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import run_folder
from tests.networks import answers, free_port
from tests.stack import ROOT, wait_for

from .dashboard import Dashboard, manage, new_state, started

pytestmark = pytest.mark.services

CONTRIB = ROOT / "contrib" / "prometheus"


class Prometheus:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **words: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def value(self, query: str) -> float | None:
        found = self.get("/api/v1/query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.get("/api/v1/alerts")["alerts"]}


def configure(folder: Path, target: int, token: str) -> None:
    """Write the configuration of contrib/, with this dashboard and shorter intervals."""
    found = yaml.safe_load((CONTRIB / "prometheus.yml").read_text())
    [job] = found["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{target}"]}]
    job |= {"scrape_interval": "1s", "scrape_timeout": "1s"}
    found["scrape_configs"] = [job, job | {"job_name": "wrong", "authorization": {"credentials": "wrong"}}]
    found["global"] = {"evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(found))
    (folder / "dbops.token").write_text(token)
    shutil.copy(CONTRIB / "alerts.yml", folder)


@pytest.fixture(scope="module")
def watched() -> Iterator[Prometheus]:
    folder, port = run_folder.new_folder("prometheus"), free_port()
    with new_state() as state:
        dashboard = Dashboard(state)
        dashboard.fill()
        token = manage(dashboard.environment, "token", "make", "prometheus", "--purpose", "metrics").stdout.strip()
        configure(folder, dashboard.port, token)
        words = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        words.append(f"--web.listen-address=127.0.0.1:{port}")
        with (
            dashboard.running(),
            (folder / "log").open("ab") as log,
            started(words, dashboard.environment, log),
        ):
            wait_for("Prometheus", lambda: answers(f"http://127.0.0.1:{port}/-/ready"))
            yield Prometheus(port)
    run_folder.remove(folder)


def test_prometheus_reads_the_dashboard(watched: Prometheus) -> None:
    wait_for("a scrape", lambda: watched.value('up{job="dbops"}') == 1)
    assert watched.value('dbops_cluster_replicas{cluster="shop"}') == 2
    assert watched.value('dbops_rebuilds{cluster="shop", status="running"}') == 1
    assert watched.value("dbops_rebuilds_ended_total") == 0
    assert watched.value("scrape_duration_seconds") < 1


def test_rules_are_evaluated_on_what_was_read(watched: Prometheus) -> None:
    # Its rebuild has been without a worker since the beginning.
    wait_for("alerts", lambda: "ReplicasBelowGoal" in watched.firing())
    assert "DbopsSilent" not in watched.firing()


def test_wrong_token_is_a_failed_scrape(watched: Prometheus) -> None:
    wait_for("a scrape", lambda: watched.value('up{job="wrong"}') == 0)
    health = {one["labels"]["job"]: one["health"] for one in watched.get("/api/v1/targets")["activeTargets"]}
    assert health == {"dbops": "up", "wrong": "down"}
