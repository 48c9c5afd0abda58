"""contrib/kubernetes is valid, and starts the commands of script/run. No Kubernetes is needed to look at it."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from dbops.queries.admin.configuration import SETTINGS
from tests.test_compose import commands_of_run

FILE = Path(__file__).resolve().parent.parent / "contrib" / "kubernetes" / "dbops.yaml"
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text()))
BY_KIND = {document["kind"]: document for document in DOCUMENTS}
POD = BY_KIND["StatefulSet"]["spec"]["template"]["spec"]
PROCESSES = {found["name"]: found for found in POD["initContainers"] + POD["containers"]}
CONFIGURATION = BY_KIND["ConfigMap"]["data"]
VERSIONS = ("1.30", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", BY_KIND)
def test_document_is_valid_in_old_and_new_versions(kind: str, version: str) -> None:
    assert len(BY_KIND) == len(DOCUMENTS)
    kubernetes_validate.validate(BY_KIND[kind], version, strict=True)


def test_validation_refuses_an_unknown_field() -> None:
    wrong = BY_KIND["Service"] | {"spec": {"selectors": {}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_process_runs_once() -> None:
    assert set(PROCESSES) == commands_of_run()
    assert [found["name"] for found in POD["initContainers"]] == ["migrate"]
    for name, process in PROCESSES.items():
        assert process["command"] == ["script/run", name]


def test_settings_exist_and_hold_no_secret() -> None:
    assert {name for name in CONFIGURATION if name.startswith("DBOPS_")} <= set(SETTINGS)
    assert not [name for name in CONFIGURATION if re.search("(PASSWORD|SECRET|TOKEN|_KEY)(?!_(FILE|KEY_FILE))", name)]


def test_only_the_volumes_can_be_written() -> None:
    for process in PROCESSES.values():
        assert process["securityContext"]["readOnlyRootFilesystem"]
        assert process["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in process["volumeMounts"]}
        assert mounts == {"state": CONFIGURATION["DBOPS_STATE_DIR"], "keys": "/etc/dbops", "tmp": "/tmp"}


def test_keys_are_delivered_with_a_mode_that_is_accepted() -> None:
    [keys] = [volume["secret"] for volume in POD["volumes"] if volume["name"] == "keys"]
    assert keys["defaultMode"] & 0o337 == 0
    assert POD["securityContext"]["fsGroup"] == POD["securityContext"]["runAsGroup"]


def test_ingress_reaches_the_web_process() -> None:
    [rule] = BY_KIND["Ingress"]["spec"]["rules"]
    assert rule["host"] == CONFIGURATION["DBOPS_ALLOWED_HOSTS"]
    [path] = rule["http"]["paths"]
    port = path["backend"]["service"]["port"]["name"]
    assert port in [found["name"] for found in BY_KIND["Service"]["spec"]["ports"]]
    assert port in [found["name"] for found in PROCESSES["web"]["ports"]]
    assert port == PROCESSES["web"]["readinessProbe"]["httpGet"]["port"]


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_silent_process_is_restarted_alone_and_late(name: str) -> None:
    """A probe of readiness would take the pages away from people."""
    assert "readinessProbe" not in PROCESSES[name]
    probe = PROCESSES[name]["livenessProbe"]
    assert probe["httpGet"]["path"] == f"/healthz/{name}/"
    assert probe["httpGet"]["port"] == PROCESSES["web"]["ports"][0]["containerPort"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300
