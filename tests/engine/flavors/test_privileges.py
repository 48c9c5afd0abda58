"""What the dashboard's account lacks, from lines of ``SHOW GRANTS`` as servers print them."""

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.privileges import missing_for_rebuild

MYSQL_8 = (
    "GRANT SELECT, RELOAD, PROCESS, REPLICATION SLAVE ON *.* TO `dbops`@`192.0.2.1`",
    "GRANT CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `dbops`@`192.0.2.1`",
)


@pytest.mark.parametrize(
    ("version", "lines", "missing"),
    [
        ("8.0.36", MYSQL_8, ()),
        ("8.0.36", MYSQL_8[:1], ("REPLICATION_SLAVE_ADMIN", "SYSTEM_VARIABLES_ADMIN")),
        ("8.0.36", ("GRANT SELECT, RELOAD, SUPER ON *.* TO `dbops`@`%`",), ()),
        ("8.0.36", ("GRANT USAGE ON *.* TO `dbops`@`%`", "GRANT `operators`@`%` TO `dbops`@`%`"), ()),
        (
            "8.0.36",
            ("GRANT USAGE ON *.* TO `dbops`@`%`",),
            ("SELECT", "RELOAD", "REPLICATION_SLAVE_ADMIN", "SYSTEM_VARIABLES_ADMIN"),
        ),
        ("5.7.44", ("GRANT SELECT, RELOAD ON *.* TO 'dbops'@'%'",), ("SUPER",)),
        ("5.7.44", ("GRANT ALL PRIVILEGES ON *.* TO 'dbops'@'%' WITH GRANT OPTION",), ()),
        ("5.7.44", ("GRANT ALL PRIVILEGES ON `shop`.* TO 'dbops'@'%'",), ("SELECT", "RELOAD", "SUPER")),
        ("10.11.6-MariaDB", ("GRANT SELECT, RELOAD, SUPER ON *.* TO `dbops`@`%` IDENTIFIED BY PASSWORD '*0'",), ()),
        (
            "11.8.2-MariaDB",
            ("GRANT SELECT, RELOAD, SUPER ON *.* TO `dbops`@`%`",),
            ("REPLICATION SLAVE ADMIN", "READ_ONLY ADMIN"),
        ),
    ],
)
def test_missing_privileges(version: str, lines: tuple[str, ...], missing: tuple[str, ...]) -> None:
    assert missing_for_rebuild(flavor_for(version, ""), lines) == missing
