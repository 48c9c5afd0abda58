"""The privileges of the dashboard's account on a server's socket, as a probe reads them."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from dbops.drivers.mysql import MysqlDatabase
from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.ssh import SshShell
from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.hosts.local_login import Account
from tests.drivers.conftest import Server

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
pytestmark = pytest.mark.services


def test_local_privileges_are_those_of_all_schemas_and_of_a_role(
    server: Server, shell: SshShell, database: MysqlDatabase
) -> None:
    def opened() -> MysqlDatabase:
        return MysqlDatabase(server.address)

    for statement in (
        "CREATE USER reader@localhost IDENTIFIED BY 'reader'",
        "GRANT SELECT, SHOW VIEW ON *.* TO reader@localhost",
        "GRANT EVENT ON mysql.* TO reader@localhost",
        "CREATE ROLE triggers",
        "GRANT TRIGGER ON *.* TO triggers",
        "GRANT triggers TO reader@localhost",
        "SET DEFAULT ROLE triggers FOR reader@localhost",
    ):
        database.execute(statement)
    local = [Account("reader", password) for password in ("reader", "wrong")]
    targets = [ProbeTarget(str(server.datadir), str(server.defaults_file), account) for account in local]
    try:
        facts = probe_instance(targets[0], shell, opened, NOW)
        refused = probe_instance(targets[1], shell, opened, NOW)
    finally:
        with closing(opened()) as again:  # the first connection may have been idle for too long
            again.execute("DROP USER reader@localhost")
            again.execute("DROP ROLE triggers")
    assert facts.local_privileges == ("SELECT", "SHOW VIEW", "TRIGGER")
    assert refused.local_privileges is None
    assert from_record(InstanceFacts, to_record(facts)) == facts
