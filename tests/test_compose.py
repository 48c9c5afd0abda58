"""docker-compose.yml starts the commands of script/run, the same as script/demo does. No Docker is needed to look at it."""

import json
import re
import subprocess
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from django.urls import resolve

from script.lib import stage
from tests.deployed.compose import composed

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
WITH_POSTGRESQL = yaml.safe_load((ROOT / "docker-compose.postgresql.yml").read_text())
DATABASE = WITH_POSTGRESQL["services"]["database"]
RUN = (ROOT / "script" / "run").read_text()


def commands_of_run() -> set[str]:
    return set(re.findall(r"^    ([a-z]+)\)$", RUN, re.MULTILINE))


def copied_by_dockerfile() -> list[str]:
    lines = re.findall(r"^COPY (?!--from=)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return [path for line in lines for path in line.split()]


def test_every_process_is_a_service():
    assert set(SERVICES) == {"redis", "migrate", "web", "worker", "beat"} == commands_of_run()


@pytest.mark.parametrize("name", SERVICES)
def test_service_runs_the_command_of_its_name(name):
    assert SERVICES[name]["command"] == ["script/run", name]


def test_run_refuses_an_unknown_command():
    refused = subprocess.run([ROOT / "script" / "run", "nonsense"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert all(name in refused.stderr for name in SERVICES)


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_service_waits_for_redis_and_the_tables(name):
    assert SERVICES[name]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "redis": {"condition": "service_healthy"},
    }


def test_state_is_in_declared_volumes():
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service["volumes"]}
    assert used == set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", ["migrate", "web", "worker", "beat"])
def test_process_keeps_its_state_in_the_volume(name):
    volume, _, path = SERVICES[name]["volumes"][0].partition(":")
    assert volume == "state"
    assert SERVICES[name]["environment"]["DBOPS_STATE_DIR"] == path


def test_only_web_is_reachable_from_outside():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["web"]
    assert SERVICES["web"]["ports"] == ["${DBOPS_LISTEN:-127.0.0.1:8000}:8000"]
    assert SERVICES["redis"]["networks"] == ["queue"]
    assert COMPOSE["networks"]["queue"] == {"internal": True}


def test_web_trusts_the_containers_network_that_its_port_is_published_from():
    found = composed({})
    [network] = found["networks"]["outside"]["ipam"]["config"]
    assert found["services"]["web"]["environment"]["FORWARDED_ALLOW_IPS"] == network["subnet"]
    assert ip_network(network["subnet"]).is_private
    own = composed({"DBOPS_PROXY_ADDRESS": "192.0.2.7"})
    assert own["services"]["web"]["environment"]["FORWARDED_ALLOW_IPS"] == "192.0.2.7"


def test_worker_gets_longer_to_end_than_it_takes():
    assert int(SERVICES["worker"]["stop_grace_period"].rstrip("s")) >= stage.STOP_SECONDS["worker"]


def test_every_variable_of_the_example_reaches_a_service():
    offered = re.findall(r"^#?(DBOPS_\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert offered
    assert [name for name in offered if composed({name: "given"})["services"] == composed({})["services"]] == []


def test_compose_file_contains_no_secret():
    services = [*SERVICES.values(), *WITH_POSTGRESQL["services"].values()]
    names = {key for service in services for key in service.get("environment", {})}
    assert not [name for name in names if re.search("(PASSWORD|SECRET|TOKEN|_KEY)(?!_FILE)", name)]
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / "docker-compose.postgresql.yml").read_text()
    assert set(re.findall(r"[a-z]+://[^:/]+", text)) == {"redis://redis", "http://web", "postgresql://dbops@database"}


def test_image_copies_existing_files():
    ignored = (ROOT / ".dockerignore").read_text().split()
    for path in copied_by_dockerfile():
        assert (ROOT / path).exists(), path
        assert f"!{path}" in ignored, path


def test_image_does_not_run_as_root():
    """A number other than 0, which Kubernetes can check."""
    *_, user = re.findall(r"^USER (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert int(user) > 0


@pytest.mark.parametrize("name", SERVICES)
def test_folder_that_a_service_does_not_mount_is_read_only(name):
    """An image's VOLUME is writable in every container, and stays behind as a volume without a name."""
    found = re.findall(r"^VOLUME (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    mounted = {volume.split(":")[1] for volume in SERVICES[name]["volumes"]}
    assert {path for line in found for path in json.loads(line)} <= mounted


def test_image_installs_every_driver():
    text = (ROOT / "Dockerfile").read_text()
    for file in ROOT.glob("requirements*.txt"):
        assert (f"-r {file.name}" in text) == (file.name not in ("requirements.txt", "requirements-dev.txt"))


def test_every_container_is_read_only_and_without_rights():
    for name, service in {**SERVICES, "database": DATABASE}.items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name


@pytest.mark.parametrize(("name", "path"), [("worker", "/healthz/worker/"), ("beat", "/healthz/beat/")])
def test_health_of_worker_and_beat_is_what_web_knows_of_them(name, path):
    words = SERVICES[name]["healthcheck"]["test"]
    assert words[:2] == ["CMD", "script/health"]
    url = urlsplit(words[2])
    assert (url.hostname, url.port, url.path) == ("web", 8000, path)
    assert resolve(url.path).kwargs == {"name": name}
    assert set(SERVICES["web"]["networks"]) & set(SERVICES[name]["networks"])


def test_health_check_is_shorter_than_its_limit():
    limits = [service["healthcheck"].get("timeout") for service in SERVICES.values()]
    assert {float(limit.rstrip("s")) for limit in limits if limit} <= {3.0, 5.0}
    assert SERVICES["migrate"]["healthcheck"] == {"disable": True}


class TestPostgresql:
    @pytest.mark.parametrize("name", ["migrate", "web", "worker", "beat"])
    def test_process_reads_the_password_from_the_secret_alone(self, name):
        service = WITH_POSTGRESQL["services"][name]
        [secret] = service["secrets"]
        assert service["environment"]["DBOPS_DATABASE_PASSWORD_FILE"] == f"/run/secrets/{secret}"
        assert DATABASE["environment"]["POSTGRES_PASSWORD_FILE"] == f"/run/secrets/{secret}"
        assert set(WITH_POSTGRESQL["secrets"]) == {secret}
        assert not (ROOT / WITH_POSTGRESQL["secrets"][secret]["file"]).exists()

    def test_address_is_that_of_the_service_and_of_its_account(self):
        url = urlsplit(WITH_POSTGRESQL["services"]["web"]["environment"]["DBOPS_DATABASE_URL"])
        made = DATABASE["environment"]
        assert (url.hostname, url.username, url.path) == ("database", made["POSTGRES_USER"], f"/{made['POSTGRES_DB']}")
        assert url.password is None

    def test_tables_are_made_after_the_server_answers(self):
        assert WITH_POSTGRESQL["services"]["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert "--host=127.0.0.1" in DATABASE["healthcheck"]["test"]

    def test_server_is_reached_by_processes_alone(self):
        assert "ports" not in DATABASE
        assert WITH_POSTGRESQL["networks"] == {"database": {"internal": True}}
        assert DATABASE["networks"] == ["database"]

    def test_git_ignores_the_secret(self):
        file = WITH_POSTGRESQL["secrets"]["database-password"]["file"]
        assert subprocess.run(["git", "check-ignore", "--quiet", file], cwd=ROOT, check=False).returncode == 0


def test_demo_starts_the_same_commands():
    """``script/demo`` starts its processes as ``script/run NAME``."""
    assert (ROOT / "script" / "run").stat().st_mode & 0o111
    assert set(stage.STOP_SECONDS) == set(SERVICES) - {"migrate"}
