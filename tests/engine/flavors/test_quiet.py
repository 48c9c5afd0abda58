"""Which accounts stay connected to a server in offline mode."""

import pytest

from dbops.engine.flavors.quiet import may_be_offline


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
    assert may_be_offline(["GRANT USAGE ON *.* TO `dbops`@`%`", grant]) == expected
