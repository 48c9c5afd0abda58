"""The rules and the dashboard in contrib/ use metrics and labels that exist, and the rules do what they say."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone

from dbops.queries.monitoring import metrics

CONTRIB = Path(__file__).resolve().parent.parent / "contrib"
RULES = CONTRIB / "prometheus" / "alerts.yml"
DASHBOARD = CONTRIB / "grafana" / "dbops.json"
NAME = re.compile(r"\bdbops_[a-z_]+")


def rule_expressions() -> dict[str, str]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def dashboard_expressions() -> dict[str, str]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return {panel["title"]: " ".join(target["expr"] for target in panel["targets"]) for panel in panels}


@pytest.fixture
def names(db: None) -> set[str]:
    return {metric.name for metric in metrics(timezone.now())}


def test_rules_and_dashboard_use_only_existing_metrics(names: set[str]) -> None:
    for place, expression in (rule_expressions() | dashboard_expressions()).items():
        used = set(NAME.findall(expression))
        assert used <= names, place
        assert used or "up{" in expression, place


def test_rules_and_dashboard_cover_every_end(names: set[str]) -> None:
    ends = {name for name in names if name.endswith("_end_timestamp_seconds")}
    for expressions in (rule_expressions(), dashboard_expressions()):
        assert ends <= set(NAME.findall(" ".join(expressions.values())))


def test_page_lists_every_metric(names: set[str]) -> None:
    page = (CONTRIB.parent / "docs" / "how-to" / "monitoring.md").read_text()
    assert sorted(re.findall(r"^\| `(dbops_[a-z_]+)`", page, re.MULTILINE)) == sorted(names)


def test_rules_fire_and_stay_silent_as_described() -> None:
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"].replace("$cluster", ".*") for panel in panels for target in panel["targets"]]
    file = tmp_path / "rules.yml"
    rules = [{"record": f"panel_{number}", "expr": one} for number, one in enumerate(found)]
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
