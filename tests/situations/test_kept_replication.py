"""A rebuilt replica replicates as before: TLS, delay, filters, name of the connection. Real MariaDB servers with certificates."""

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.hosts import LabHost
from tests.e2e.host_state import is_replicating, one
from tests.stack import Stack, running_stack, wait_for
from tests.whole_file import write_whole

pytestmark = pytest.mark.services
TARGET = "replica-1"
PLAIN = (
    "MASTER_SSL = 0, MASTER_SSL_CA = '', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_DELAY = 0, IGNORE_DOMAIN_IDS = ()"
)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A lab in which every server offers TLS, with a certificate of one authority."""
    with running_stack(web=False) as running:
        for host in running.lab.hosts:
            add_options(host, certificate(running.lab.folder / "tls", host))
        for host in running.lab.hosts:
            running.wait_for_facts(host.name, answering=True)
        wait_for("replication", lambda: is_replicating(running, TARGET) and is_replicating(running, "backup-1"))
        yield running


def certificate(folder: Path, host: LabHost) -> list[str]:
    """Return option-file lines that offer TLS; the server's certificate names its address."""
    folder.mkdir(mode=0o755, exist_ok=True)
    ca, key = folder / "ca.pem", folder / "ca.key"
    if not ca.exists():
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lab", "-keyout", key, "-out", ca)
    own, request = folder / f"{host.name}.key", folder / f"{host.name}.csr"
    own_certificate, names = folder / f"{host.name}.pem", folder / f"{host.name}.cnf"
    names.write_text(f"subjectAltName=IP:{host.address}\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host.address}", "-keyout", own, "-out", request)
    openssl(
        *("x509", "-req", "-in", request, "-CA", ca, "-CAkey", key, "-CAcreateserial"),
        *("-extfile", names, "-days", "30", "-out", own_certificate),
    )
    own.chmod(0o644)
    return [f"ssl-ca = {ca}", f"ssl-cert = {own_certificate}", f"ssl-key = {own}"]


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


def add_options(host: LabHost, lines: list[str]) -> None:
    """Add lines to the server's group and start it again."""
    text = host.config_file.read_text()
    write_whole(host.config_file, text.replace("[mysqld]\n", "\n".join(["[mysqld]", *lines, ""]), 1))
    host.stop_server()
    host.start_server()


def run_on(stack: Stack, name: str, *statements: str) -> None:
    with closing(stack.lab.connect(name)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def connections(stack: Stack, name: str = TARGET) -> list[dict[str, Any]]:
    with closing(stack.lab.connect(name)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW ALL SLAVES STATUS")
        return list(cursor.fetchall())


def change(stack: Stack, words: str) -> None:
    run_on(stack, TARGET, "STOP SLAVE", f"CHANGE MASTER TO {words}", "START SLAVE")
    wait_for("replication of the target", lambda: is_replicating(stack, TARGET))


@contextmanager
def inventory(stack: Stack, **values: str) -> Iterator[None]:
    """Import the fleet file with more values for the target, and then as it was."""
    before = stack.lab.fleet_yaml.read_text()
    fleet = yaml.safe_load(before)
    [instance] = [item for cluster in fleet["clusters"] for item in cluster["instances"] if item["name"] == TARGET]
    instance.update(values)
    changed = stack.lab.fleet_yaml.with_name("changed.yaml")
    changed.write_text(yaml.safe_dump(fleet))
    stack.manage("fleet", "import", str(changed))
    stack.wait_for_facts(TARGET)
    try:
        yield
    finally:
        stack.manage("fleet", "import", str(stack.lab.fleet_yaml))
        stack.wait_for_facts(TARGET)


def settings(stack: Stack, name: str = TARGET) -> dict[str, Any]:
    [row] = connections(stack, name)
    names = (
        *("Master_SSL_Allowed", "Master_SSL_CA_File", "Master_SSL_Verify_Server_Cert", "SQL_Delay", "Connect_Retry"),
        *("Slave_heartbeat_period", "Replicate_Ignore_Domain_Ids", "Master_Host", "Connection_name"),
        *("Replicate_Wild_Ignore_Table", "Replicate_Ignore_Server_Ids", "Replicate_Rewrite_DB"),
    )
    return {name: row[name] for name in names}


def variables(stack: Stack) -> dict[str, str]:
    """Return the target's variables that a test sets at run time."""
    with closing(stack.lab.connect(TARGET)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, AT_RUN_TIME))})")
        return {row["Variable_name"]: row["Value"] for row in cursor.fetchall()}


AT_RUN_TIME = {
    "rpl_semi_sync_slave_enabled": "ON",
    "slave_parallel_threads": 3,
    "slave_parallel_mode": "aggressive",
    "slave_exec_mode": "IDEMPOTENT",
    "event_scheduler": "ON",
}


@pytest.mark.situation("8a", "kept, and read back after the repoint")
@pytest.mark.situation("run time", "set again and read back; others are named by the plan")
@pytest.mark.situation("9", "kept, and read back after the repoint")
def test_tls_delay_filters_and_retry_are_kept(stack: Stack) -> None:
    ca = stack.lab.folder / "tls" / "ca.pem"
    filters = {
        "replicate_wild_ignore_table": "staging.%",
        "replicate_ignore_table": "x.z,x.a,x.m,x.b,x.k",  # the server prints these in another order
        "replicate_rewrite_db": "old->new",
    }
    run_on(stack, TARGET, "STOP SLAVE", *(f"SET GLOBAL {name} = '{value}'" for name, value in filters.items()))
    run_on(stack, TARGET, *(f"SET GLOBAL {name} = {value!r}" for name, value in AT_RUN_TIME.items()))
    run_on(stack, TARGET, "SET GLOBAL long_query_time = 7")
    change(
        stack,
        f"MASTER_SSL = 1, MASTER_SSL_CA = '{ca}', MASTER_SSL_VERIFY_SERVER_CERT = 1, MASTER_DELAY = 1800,"
        " IGNORE_DOMAIN_IDS = (7), IGNORE_SERVER_IDS = (99), MASTER_CONNECT_RETRY = 5, MASTER_HEARTBEAT_PERIOD = 3",
    )
    before, set_before = settings(stack), variables(stack)
    assert set_before == {name: str(value) for name, value in AT_RUN_TIME.items()}
    try:
        plan = stack.wait_for_possible_plan(TARGET)
        kept = {line["name"]: line["fate"] for line in plan["replication"]["settings"]}
        assert set(plan["replication"]["variables"]) == AT_RUN_TIME.keys()
        [named] = [item["seen"] for item in plan["findings"] if item["code"] == "target.run_time"]
        assert "long_query_time = 7" in named
        assert kept["MASTER_SSL"] == kept["MASTER_DELAY"] == kept["IGNORE_DOMAIN_IDS"] == "kept"
        assert kept["Replicate_Wild_Ignore_Table"] == "kept"
        assert "target.filters" in {item["code"] for item in plan["findings"] if item["severity"] == "warning"}
        _, lines = stack.rebuild(TARGET)
        assert lines[-1]["status"] == "succeeded"
        assert settings(stack) == before
        assert variables(stack) == set_before
        assert is_replicating(stack, TARGET)
    finally:
        run_on(stack, TARGET, "STOP SLAVE", *(f"SET GLOBAL {name} = ''" for name in filters))
        run_on(stack, TARGET, *(f"SET GLOBAL {name} = DEFAULT" for name in AT_RUN_TIME))
        change(stack, f"{PLAIN}, IGNORE_SERVER_IDS = (), MASTER_CONNECT_RETRY = 2")


@pytest.mark.situation("9", "kept, and read back after the repoint")
def test_settings_are_kept_while_the_server_is_down(stack: Stack) -> None:
    change(stack, "MASTER_SSL = 1, MASTER_DELAY = 7")
    before = settings(stack)
    stack.wait_for_facts(TARGET, answering=True)
    try:
        stack.lab.break_host(TARGET, "wipe")
        stack.wait_for_facts(TARGET, answering=False)
        plan = stack.wait_for_possible_plan(TARGET)
        assert plan["replication"]["is_last_known"]
        stack.rebuild(TARGET)
        assert settings(stack) == before
    finally:
        change(stack, PLAIN)


@pytest.mark.situation("8b", "tried before anything is stopped; over TLS it works")
def test_account_that_requires_tls_is_tried_before_anything_is_stopped(stack: Stack) -> None:
    account, primary = stack.lab.accounts["replication"].user, stack.lab.primary.name
    run_on(stack, primary, f"ALTER USER '{account}'@'127.%' REQUIRE SSL")
    try:
        stack.wait_for_possible_plan(TARGET)
        server = stack.lab.host(TARGET).server_pid()
        _, lines = stack.rebuild(TARGET, check=False)
        assert lines[-1]["error"]["code"] == "replication.account"
        assert stack.lab.host(TARGET).server_pid() == server
        assert not list(stack.lab.host(TARGET).folder.glob("data.dbops-*"))
        ca = str(stack.lab.folder / "tls" / "ca.pem")
        with inventory(stack, replication_tls="verify", replication_tls_ca=ca):
            plan = stack.wait_for_possible_plan(TARGET)
            fates = {line["name"]: line["fate"] for line in plan["replication"]["settings"]}
            assert fates["MASTER_SSL"] == fates["MASTER_SSL_CA"] == "changed"
            _, lines = stack.rebuild(TARGET)
        assert lines[-1]["status"] == "succeeded"
        found = settings(stack)
        assert (found["Master_SSL_Allowed"], found["Master_SSL_Verify_Server_Cert"]) == ("Yes", "Yes")
        assert found["Master_SSL_CA_File"] == ca
        password = stack.lab.accounts["replication"].password
        assert not stack.rows(
            "SELECT 1 FROM dbops_executedcommand WHERE text LIKE ? OR output LIKE ?", *[f"%{password}%"] * 2
        )
    finally:
        run_on(stack, primary, f"ALTER USER '{account}'@'127.%' REQUIRE NONE")
        change(stack, PLAIN)


@pytest.mark.situation("10", "refused; one named connection keeps its name")
def test_named_connection_is_made_again_with_its_name_and_filter(stack: Stack) -> None:
    account, primary = stack.lab.accounts["replication"], stack.lab.primary
    named = (
        f"CHANGE MASTER 'main' TO MASTER_HOST = '{primary.address}', MASTER_PORT = {primary.port},"
        f" MASTER_USER = '{account.user}', MASTER_PASSWORD = '{account.password}', MASTER_USE_GTID = slave_pos"
    )
    add_options(stack.lab.host(TARGET), ["main.replicate_wild_ignore_table = trash.%"])
    run_on(stack, TARGET, "STOP ALL SLAVES", "RESET SLAVE ALL", named, "START SLAVE 'main'")
    before = settings(stack)
    assert before["Replicate_Wild_Ignore_Table"] == "trash.%"
    stack.wait_for_possible_plan(TARGET)
    stack.rebuild(TARGET)
    assert settings(stack) == before
    [link] = connections(stack)
    assert (link["Slave_IO_Running"], link["Slave_SQL_Running"]) == ("Yes", "Yes")
    run_on(stack, primary.name, "CREATE DATABASE trash", "CREATE TABLE trash.t (id INT PRIMARY KEY)")
    goal = one(stack, primary.name, "SELECT @@gtid_binlog_pos AS gtid")["gtid"]
    assert one(stack, TARGET, f"SELECT MASTER_GTID_WAIT('{goal}', 20) AS reached")["reached"] == 0
    assert not one(stack, TARGET, "SELECT 1 AS found FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'trash'")
    # a second connection, which nothing else refuses: its source is a member, and it does not run
    second = named.replace("'main'", "'erp'").replace(primary.address, stack.lab.host("backup-1").address)
    run_on(stack, TARGET, second)
    stack.wait_for_facts(TARGET, answering=True)
    plan = stack.plan(TARGET)
    assert {item["code"] for item in plan["findings"] if item["severity"] == "refusal"} == {"target.sources"}
    # also once the server is down
    stack.lab.host(TARGET).stop_server()
    stack.wait_for_facts(TARGET, answering=False)
    plan = stack.plan(TARGET)
    assert "target.sources" in {item["code"] for item in plan["findings"] if item["severity"] == "refusal"}
    stack.lab.host(TARGET).start_server()
    run_on(stack, TARGET, "STOP ALL SLAVES", "RESET SLAVE 'erp' ALL", "START ALL SLAVES")


@pytest.mark.situation("19", "read with its group suffix, and rebuilt")
def test_server_with_a_group_suffix_is_rebuilt(stack: Stack) -> None:
    host, suffix = stack.lab.host(TARGET), ".r1"
    text, script = host.config_file.read_text(), host.start_script.read_text()
    host.stop_server()
    write_whole(host.config_file, text.replace("[mysqld]", f"[mysqld{suffix}]", 1))
    option = '"$server" "--defaults-file=$config"'
    assert option in script
    host.start_script.write_text(script.replace(option, f"{option} --defaults-group-suffix={suffix}"))
    try:
        host.start_server()
        stack.wait_for_facts(TARGET, answering=True)
        assert stack.facts(TARGET)["config"]["server_id"] is None
        with inventory(stack, group_suffix=suffix):
            assert stack.facts(TARGET)["config"]["server_id"] == host.server_id
            stack.wait_for_possible_plan(TARGET)
            _, lines = stack.rebuild(TARGET)
            assert lines[-1]["status"] == "succeeded"
            assert one(stack, TARGET, "SELECT @@server_id AS id")["id"] == host.server_id
    finally:
        host.stop_server()
        write_whole(host.config_file, text)
        host.start_script.write_text(script)
        host.start_server()
