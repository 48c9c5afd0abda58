"""What a probe tries on a server's socket, and which passwords it keeps from there."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbops.drivers.probe import ProbeTarget, _logins, _withheld
from dbops.drivers.probe_host import ADMIN
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.local_login import Account


def reading(version: str) -> Any:
    return cast(Any, SimpleNamespace(flavor=flavor_for(version), facts=SimpleNamespace(replication=())))


def target(*, is_shared: bool, password: str = "secret") -> ProbeTarget:
    local, backup = (Account(name, password, is_shared) for name in ("local", "backup"))
    return ProbeTarget(datadir="/d", local=local, backup=backup)


@pytest.mark.parametrize(
    ("version", "given"),
    [("10.11.19-MariaDB", {"is_shared": True}), ("9.7.4", {"is_shared": False})],
)
def test_both_accounts_are_tried(version: str, given: dict[str, bool]) -> None:
    statements, credentials = _logins(target(**given), reading(version))
    assert statements[-1] == f"{ADMIN}SHOW GRANTS"
    assert len(statements) > 1
    assert credentials.count('password="secret"') > 1
    assert not _withheld(target(**given), reading(version))


def test_accounts_without_a_password_are_tried() -> None:
    statements, credentials = _logins(target(is_shared=True, password=""), reading("9.7.4"))
    assert statements[-1] == f"{ADMIN}SHOW GRANTS"
    assert 'user="local"' in credentials


def test_shared_passwords_stay_away_from_a_mysql_server() -> None:
    assert _logins(target(is_shared=True), reading("9.7.4")) == ([], "")
    withheld = _withheld(target(is_shared=True), reading("9.7.4"))
    assert [item.statement for item in withheld] == ["SELECT 1", f"{ADMIN}SHOW GRANTS"]
    assert all(item.error and "secret" not in item.error for item in withheld)
