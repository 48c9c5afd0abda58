"""Which accounts get into a server that keeps clients out, and which values come back."""

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.quiet import NO_CLIENTS, can_come_back, gets_in, quiet_settings


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        ("GRANT SELECT, SUPER, FILE ON *.* TO `dbops`@`%` WITH GRANT OPTION", True),
        ("GRANT SYSTEM_VARIABLES_ADMIN,CONNECTION_ADMIN ON *.* TO `dbops`@`%`", True),
        ("GRANT ALL PRIVILEGES ON *.* TO 'dbops'@'%'", True),
        ("GRANT SELECT ON *.* TO `SUPERVISOR`@`%`", False),
        ("GRANT SELECT ON *.* TO `SUPER`@`CONNECTION_ADMIN`", False),
        ("GRANT ALL PRIVILEGES ON `SUPERMARKET`.* TO `dbops`@`%`", False),
        ("GRANT SELECT (`SUPER`) ON `a`.`SUPER` TO `dbops`@`%`", False),
        ("GRANT SELECT ON `a, SUPER ON *.* TO b`.* TO `dbops`@`%`", False),
        ("GRANT GROUP_REPLICATION_STREAM,XA_RECOVER_ADMIN ON *.* TO `CONNECTION_ADMIN`@`%`", False),
        ("GRANT `SUPER`@`%` TO `dbops`@`%`", False),
    ],
)
def test_only_a_global_privilege_survives_offline_mode(grant: str, expected: bool) -> None:
    assert gets_in(flavor_for("8.4.1", "mysql"), ["GRANT USAGE ON *.* TO `dbops`@`%`", grant]) == expected


@pytest.mark.parametrize(
    ("version", "grant", "expected"),
    [
        ("10.4.34", "GRANT SELECT, SUPER ON *.* TO `dbops`@`%`", True),
        ("11.8.3", "GRANT SELECT, SUPER ON *.* TO `dbops`@`%`", False),
        ("11.8.3", "GRANT SELECT, CONNECTION ADMIN ON *.* TO `dbops`@`%`", True),
        ("10.11.19", "GRANT ALL PRIVILEGES ON *.* TO `dbops`@`%` WITH GRANT OPTION", True),
    ],
)
def test_mariadb_has_a_privilege_of_its_own(version: str, grant: str, expected: bool) -> None:
    assert gets_in(flavor_for(f"{version}-MariaDB", ""), [grant]) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", True), ("ON", True), ("SET @a = 'x', @b = 2", True), ("SET @a = '\\n'", False), ("x" * 1001, False)],
)
def test_value_that_could_change_on_its_way_stays(value: str, expected: bool) -> None:
    assert can_come_back(value) == expected


def test_any_init_connect_but_the_own_one_is_loud() -> None:
    [setting] = [item for item in quiet_settings(flavor_for("10.11.19-MariaDB", "")) if item.locks_out]
    assert setting.is_loud("")
    assert setting.is_loud("SET @a = 1")
    assert not setting.is_loud(NO_CLIENTS)
    assert setting.statement("SET @a = 'x'") == "SET GLOBAL init_connect = 'SET @a = ''x'''"
