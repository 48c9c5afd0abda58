"""The trial of the replication account logs in as the replication threads will."""

import shutil
import subprocess
from pathlib import Path

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
        ("9.7.4", {}, ["loose-ssl-mode=DISABLED", "loose-get-server-public-key=1"]),
        ("5.7.42", {"MASTER_SSL": "0"}, ["loose-ssl-mode=DISABLED"]),
        ("9.7.4", {"SOURCE_SSL": "1"}, ["loose-ssl-mode=REQUIRED"]),
        ("9.7.4", {"SOURCE_SSL": "1", "SOURCE_SSL_CA": "/ca"}, ["loose-ssl-mode=VERIFY_CA", 'ssl-ca="/ca"']),
        (
            "9.7.4",
            {"SOURCE_SSL": "1", "SOURCE_SSL_VERIFY_SERVER_CERT": "1", "SOURCE_TLS_VERSION": "TLSv1.3"},
            ["loose-ssl-mode=VERIFY_IDENTITY", 'tls-version="TLSv1.3"'],
        ),
    ],
)
def test_login_wants_what_the_connection_wants(version: str, options: dict[str, str], expected: list[str]) -> None:
    assert lines(version, options) == expected


@pytest.mark.parametrize("options", [{}, {"SOURCE_SSL": "1"}, {"SOURCE_SSL": "1", "SOURCE_TLS_VERSION": "TLSv1.3"}])
@pytest.mark.skipif(not shutil.which("mariadb"), reason="MariaDB's client is not installed")
def test_client_of_the_other_flavor_takes_the_file(tmp_path: Path, options: dict[str, str]) -> None:
    file = tmp_path / "login.cnf"
    file.write_text(replication_login(flavor_for("9.7.4"), "u", "p", options))
    command = ["mariadb", f"--defaults-file={file}", f"--socket={tmp_path}/none", "-e", "SELECT 1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert "ERROR 2002" in done.stderr, "it has to get as far as connecting"


def test_plugins_come_from_the_server_s_directory() -> None:
    assert lines("10.11.19-MariaDB", {}, "/usr/lib/plugin")[0] == 'plugin-dir="/usr/lib/plugin"'
