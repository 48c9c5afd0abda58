"""Accounts with passwords outside ASCII, and a local account that requires TLS."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.e2e.host_state import same_data_at_one_gtid
from tests.stack import Stack

pytestmark = pytest.mark.services
PRIMARY, SOURCE, TARGET = "primary-1", "backup-1", "replica-1"
#: ë is of latin1, € is not; quotes, backslashes, and what shells, option files and SQL expand
PASSWORDS = {"admin": "gehëim x€", "backup": 'pä€ss "quo\'te" \\ #x; %s $HOME`', "replication": "rëp'l\"\\ %"}


def run(stack: Stack, name: str, *statements: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """Run statements as the lab's owner, each with the same values. Return the rows of the last one."""
    with stack.lab.connect(name) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, values)
        return list(cursor.fetchall())


def set_passwords(stack: Stack, passwords: Mapping[str, str]) -> None:
    """Change the accounts on the primary, and with it on all replicas; the dashboard reads them from its fleet file."""
    content = yaml.safe_load(stack.lab.fleet_yaml.read_text())
    for key, password in passwords.items():
        user = stack.lab.accounts[key].user
        for row in run(stack, PRIMARY, "SELECT Host FROM mysql.user WHERE User = %s", values=(user,)):
            run(stack, PRIMARY, "ALTER USER %s@%s IDENTIFIED BY %s", values=(user, row["Host"], password))
        content["clusters"][0]["accounts"][key]["password"] = password
    path = stack.folder / "passwords.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000))
    stack.manage("fleet", "import", str(path))


@contextmanager
def passwords(stack: Stack, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {key: stack.lab.accounts[key].password for key in wanted}
    try:
        set_passwords(stack, wanted)
        yield
    finally:
        set_passwords(stack, before)
        change = "CHANGE MASTER TO MASTER_PASSWORD = %s"
        run(stack, TARGET, "STOP SLAVE")
        run(stack, TARGET, change, values=(before["replication"],))
        run(stack, TARGET, "START SLAVE")
        stack.wait_for_possible_plan(TARGET)


@pytest.mark.situation("17", "works, for all three accounts")
def test_rebuild_works_with_passwords_outside_ascii(stack: Stack) -> None:
    with passwords(stack, PASSWORDS):
        for name in (SOURCE, TARGET):
            facts = stack.wait_for_facts(name, answering=True)
            assert (facts["server_problem"], facts["admin_login"]["error"]) == (None, "")
        stack.wait_for_possible_plan(TARGET)
        stack.rebuild(TARGET)
        said = json.dumps(stack.rows("SELECT text FROM dbops_rebuildevent"), ensure_ascii=False)
        said += json.dumps(stack.rows("SELECT text, output FROM dbops_executedcommand"), ensure_ascii=False)
        said += stack.tail("worker", 1000)
        assert [password for password in PASSWORDS.values() if password in said] == []
        same_data_at_one_gtid(stack, TARGET)


@pytest.mark.situation("G2", "refused by the plan: the login over the socket is tried")
def test_local_admin_account_that_requires_tls_is_refused_by_the_plan(stack: Stack) -> None:
    account = f"'{stack.lab.accounts['admin'].user}'@localhost"
    for name in (SOURCE, TARGET):
        run(stack, name, "SET sql_log_bin = 0", f"ALTER USER {account} REQUIRE SSL")
    try:
        for name in (SOURCE, TARGET):
            assert stack.wait_for_facts(name)["admin_login"]["error"]
        refused = {item["code"] for item in stack.plan(TARGET)["findings"] if item["severity"] == "refusal"}
        assert refused == {"source.admin_login", "target.admin_login"}
        done = stack.manage("rebuild", TARGET, "--reason", "a test", "--json", check=False)
        assert json.loads(done.stdout)["error"]["code"] == "plan.refused"
    finally:
        for name in (SOURCE, TARGET):
            run(stack, name, "SET sql_log_bin = 0", f"ALTER USER {account} REQUIRE NONE")
    stack.wait_for_possible_plan(TARGET)
