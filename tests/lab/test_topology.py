"""Real servers: discovered, chained, failed over by hand, and what the dashboard makes of it. In one module, as the lab is one."""

import io
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.engine.states import Role
from dbops.models import AuditEntry, Discovery, Host, Instance, TopologyDifference
from dbops.operations.fleet import import_fleet
from dbops.operations.rebuilds import plan_rebuild
from dbops.queries.topology import found_of, proposals
from dbops.worker import tasks
from dbops.worker.prober import probe_all, replan
from lab import Lab
from lab.checks import current_user
from lab.pytest_plugin import start_lab
from tests.app.factories import make_operator
from tests.networks import free_network
from tests.run_folder import new_folder

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]
NETWORK = free_network()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    parent = new_folder("topology")
    with start_lab(parent / "lab", NETWORK, replicas=2, size="16M") as running:
        yield running
    shutil.rmtree(parent)


@pytest.fixture(autouse=True)
def _a_worker_that_is_at_hand(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Tasks run as soon as they are sent, without a broker; the scheduler stays out of it."""
    settings.WHITENOISE_AUTOREFRESH = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(
        "dbops.messaging.wakeups.publish", lambda task, *ids: getattr(tasks, task)(*ids) if ids else None
    )


@pytest.fixture
def olga() -> User:
    return make_operator()


@pytest.fixture
def operator(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


@pytest.fixture
def fleet(lab: Lab) -> dict[str, Instance]:
    import_fleet(actor="test", text=lab.fleet_yaml.read_text(), base_dir=lab.folder)
    return {row.name: row for row in instances()}


def instances() -> list[Instance]:
    return list(Instance.objects.select_related("host", "cluster", "state"))


def sql(lab: Lab, name: str, *statements: str) -> None:
    with lab.connect(name) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def follow(lab: Lab, name: str, source: str) -> None:
    """Let a server replicate from another one, as an administrator does by hand, and wait until it does."""
    account = lab.accounts["replication"]
    sql(
        lab,
        name,
        "STOP ALL SLAVES",
        f"CHANGE MASTER TO MASTER_HOST='{lab.host(source).address}', MASTER_PORT={lab.host(source).port}, "
        f"MASTER_USER='{account.user}', MASTER_PASSWORD='{account.password}', MASTER_USE_GTID=slave_pos",
        "START ALL SLAVES",
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with lab.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW ALL SLAVES STATUS")
            if (row := cursor.fetchone()) and row["Slave_IO_Running"] == row["Slave_SQL_Running"] == "Yes":
                return
        time.sleep(0.1)
    raise AssertionError(f"{name} does not replicate from {source}")


def promote(lab: Lab, name: str) -> None:
    sql(lab, name, "STOP ALL SLAVES", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")


def look(times: int = 1) -> None:
    for _ in range(times):
        assert probe_all(instances()) == 4


def discover(lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    account = lab.accounts["admin"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(account.password + "\n"))
    out = io.StringIO()
    address = f"{lab.host(name).address}:{lab.host(name).port}"
    call_command("discover", address, "--user", account.user, "--password-stdin", stdout=out)
    return out.getvalue()


def differences() -> set[tuple[str, str]]:
    return set(
        TopologyDifference.objects.filter(gone_at=None, confirmed_at__isnull=False).values_list("code", "subject")
    )


def refusals(target: Instance, source: Instance) -> set[str]:
    return {finding.code for finding in plan_rebuild(target=target, source=source).refusals}


def test_discovery_from_a_replica_adds_the_cluster_by_page(
    lab: Lab, operator: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.KEY_DIRECTORY = lab.ssh_key.parent
    text = discover(lab, "replica-2", monkeypatch)
    assert "4 servers" in text
    for host in lab.hosts:
        assert f"{host.address}:{host.port}" in text
    row = Discovery.objects.get()
    assert (row.status, row.password) == ("done", "")
    found = found_of(row)
    assert found is not None
    (proposal,) = proposals(found)
    members = {member.node.addresses[0][0]: member for member in proposal.cluster.members}
    assert {address: member.role for address, member in members.items()} == {
        lab.primary.address: Role.PRIMARY,
        **{host.address: Role.REPLICA for host in lab.hosts[1:]},
    }
    assert members[lab.primary.address].node.datadir.rstrip("/") == str(lab.primary.data_dir)
    names = {host.address: host.name for host in lab.hosts}
    page = operator.get(f"/discoveries/{row.pk}/").content.decode()
    assert f'href="/discoveries/{row.pk}/add/0/"' in page
    assert 'data-new="4"' in page
    answers = filled_in(lab, proposal, names)
    checked = operator.post(f"/discoveries/{row.pk}/add/0/", {**answers, "action": "check"}).content.decode()
    assert ('id="report-title"' in checked, 'id="errors-title"' in checked) == (True, False)
    assert lab.accounts["admin"].password not in checked
    assert not Instance.objects.exists()
    assert operator.post(f"/discoveries/{row.pk}/add/0/", {**answers, "action": "import"}).status_code == 302
    assert {row.name: row.role for row in instances()} == {host.name: host.role for host in lab.hosts}
    for host in lab.hosts:
        Host.objects.filter(ssh_address=host.address).update(host_key=host.sshd.host_key)
    look(2)
    assert differences() == set()
    page = operator.get(f"/discoveries/{row.pk}/").content.decode()
    assert ('data-new="0"' in page, "/add/0/" in page) == (True, False)


def filled_in(lab: Lab, proposal: Any, names: dict[str, str]) -> dict[str, str]:
    """Return the form as a person sends it: names and roles as the lab has them, and what SQL does not tell."""
    answers: dict[str, str] = {
        "cluster": "found",
        "write_addresses": "",
        "ssh_user": current_user(),
        "ssh_port": str(lab.primary.ssh_port),
        "ssh_key_file": str(lab.ssh_key),
        "defaults_file": f"{lab.folder}/{{name}}/my.cnf",
        "systemd_unit": "",
        "start": f"{lab.folder}/{{name}}/start",
        "stop": f"{lab.folder}/{{name}}/stop",
    }
    for word in ("admin", "replication", "backup"):
        answers |= {f"{word}_user": lab.accounts[word].user, f"{word}_password": lab.accounts[word].password}
    for number, member in enumerate(proposal.new):
        name = names[member.node.addresses[0][0]]
        answers |= {
            f"m{number}-include": "on",
            f"m{number}-name": name,
            f"m{number}-role": lab.host(name).role,
            f"m{number}-datadir": member.node.datadir.rstrip("/"),
            f"m{number}-host": f"{name}-host",
            f"m{number}-ssh_address": member.node.addresses[0][0],
        }
    return answers


def test_discovery_with_a_wrong_password_stores_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong password\n"))
    out = io.StringIO()
    address = f"{lab.primary.address}:{lab.primary.port}"
    with pytest.raises(CommandError) as error:
        call_command("discover", address, "--user", lab.accounts["admin"].user, "--password-stdin", stdout=out)
    assert error.value.returncode == 1
    assert "Access denied" in out.getvalue()
    assert Discovery.objects.get().password == ""


def test_chained_replica_is_discovered_and_blocks_nothing(
    lab: Lab, fleet: dict[str, Instance], monkeypatch: pytest.MonkeyPatch, operator: Client
) -> None:
    follow(lab, "replica-2", "replica-1")
    try:
        text = discover(lab, "replica-2", monkeypatch)
        assert "hain" in text
        look(2)
        assert differences() == {("chain", "replica-2")}
        assert "topology.differs" not in refusals(fleet["replica-2"], fleet["backup-1"])
        page = operator.get(f"/clusters/{fleet['replica-2'].cluster.name}/topology/").content.decode()
        assert "from <strong>replica-1</strong>" in page
        assert 'data-stops="no"' in page
    finally:
        follow(lab, "replica-2", "primary-1")
    look()
    assert differences() == set()


def test_manual_failover_blocks_rebuilds_until_accepted(lab: Lab, fleet: dict[str, Instance], operator: Client) -> None:
    look(2)
    target, source = fleet["replica-2"], fleet["backup-1"]
    assert differences() == set()
    assert "topology.differs" not in refusals(target, source)

    promote(lab, "replica-1")
    sql(lab, "primary-1", "SET GLOBAL read_only = 1")
    for name in ("backup-1", "replica-2", "primary-1"):
        follow(lab, name, "replica-1")
    look()
    assert "failover" not in {code for code, _ in differences()}  # seen once: it does not count yet
    look()
    assert ("failover", "replica-1") in differences()
    assert "topology.differs" in refusals(target, source)
    live = replan(
        target, source, plan_rebuild(target=target, source=source)
    )  # what a queued rebuild looks at when it starts
    assert "topology.differs" in {finding.code for finding in live.refusals}

    cluster = target.cluster.name
    row = TopologyDifference.objects.get(code="failover", gone_at=None)
    page = operator.get(f"/clusters/{cluster}/topology/").content.decode()
    assert 'data-stops="yes"' in page
    address = f"/clusters/{cluster}/topology/{row.pk}/"
    wrong = operator.post(address, {"action": "roles", "typed_name": "primary-1", "reason": "it died"})
    assert wrong.status_code == 409
    accepted = operator.post(
        address, {"action": "roles", "typed_name": "replica-1", "reason": "its disk died"}, follow=True
    )
    assert accepted.status_code == 200
    assert {item.name: item.role for item in instances() if item.role != "replica"} == {
        "replica-1": "primary",
        "backup-1": "backup",
    }
    assert AuditEntry.objects.filter(action="topology.roles_accepted", actor="olga").exists()
    look(2)
    assert differences() == set()
    assert "topology.differs" not in refusals(target, source)
