"""The trial of the replication account logs in as the replication threads will."""

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.replication_login import replication_login


def lines(version: str, options: dict[str, str], plugin_dir: str = "") -> list[str]:
    return replication_login(flavor_for(version), "u", "p", options, plugin_dir=plugin_dir).splitlines()[3:]


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        ("10.11.19-MariaDB", {}, ["skip-ssl"]),
        ("11.8.6-MariaDB", {}, []),
        ("11.8.6-MariaDB", {"MASTER_SSL": "0"}, ["skip-ssl"]),
        ("10.11.19-MariaDB", {"MASTER_SSL": "1"}, ["ssl", "ssl-verify-server-cert=0"]),
        (
            "10.11.19-MariaDB",
            {"MASTER_SSL": "1", "MASTER_SSL_CA": "/c a.pem", "MASTER_SSL_VERIFY_SERVER_CERT": "1"},
            ["ssl", "ssl-verify-server-cert=1", 'ssl-ca="/c a.pem"'],
        ),
        ("9.7.4", {}, ["ssl-mode=DISABLED", "get-server-public-key=1"]),
        ("5.7.42", {"MASTER_SSL": "0"}, ["ssl-mode=DISABLED"]),
        ("9.7.4", {"SOURCE_SSL": "1"}, ["ssl-mode=REQUIRED"]),
        ("9.7.4", {"SOURCE_SSL": "1", "SOURCE_SSL_CA": "/ca"}, ["ssl-mode=VERIFY_CA", 'ssl-ca="/ca"']),
        (
            "9.7.4",
            {"SOURCE_SSL": "1", "SOURCE_SSL_VERIFY_SERVER_CERT": "1", "SOURCE_TLS_VERSION": "TLSv1.3"},
            ["ssl-mode=VERIFY_IDENTITY", 'tls-version="TLSv1.3"'],
        ),
    ],
)
def test_login_wants_what_the_connection_wants(version: str, options: dict[str, str], expected: list[str]) -> None:
    assert lines(version, options) == expected


def test_plugins_come_from_the_server_s_directory() -> None:
    assert lines("10.11.19-MariaDB", {}, "/usr/lib/plugin")[0] == 'plugin-dir="/usr/lib/plugin"'
