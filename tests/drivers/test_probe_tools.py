"""Programs of a host that print too much or hang, in a probe."""

import os
import time
from pathlib import Path

import pytest

from tests.drivers.test_probe import ask
from tests.fakes import FakeShell


@pytest.mark.parametrize(
    "script",
    [
        "yes | head -c 50000000",
        "while :; do echo 0123456789; done",
        "sleep 60",
        "trap '' TERM PIPE; sleep 60 & while :; do sleep 1; done",
    ],
)
def test_tool_that_floods_or_hangs_hides_no_other_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "mariadb-backup").write_text(f"#!/bin/bash\n{script}\n")
    (tmp_path / "mariadb-backup").chmod(0o755)
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\nserver-id = 5\n")
    before = time.monotonic()
    reading = ask(FakeShell(runs_here=True), tmp_path, defaults_file=str(file))
    assert time.monotonic() - before < 40
    assert reading.config is not None
    assert (reading.config.server_id, reading.datadir.exists) == (5, True)
    tools = reading.host.tools
    assert tools["mariadb"].version
    assert tools["mariadb-backup"].version is None
    assert 0 < len(tools["mariadb-backup"].said) <= 120


def test_programs_get_no_login_plugin_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These variables let MySQL's client send the whole password to a server that asks for it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN", "LIBMYSQL_PLUGINS"):
        monkeypatch.setenv(name, "of-the-login")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    (tmp_path / "mysqldump").write_text(
        '#!/bin/sh\necho "$LC_ALL, ${LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN-unset}, ${LIBMYSQL_PLUGINS-unset}"\n'
    )
    (tmp_path / "mysqldump").chmod(0o755)
    reading = ask(FakeShell(runs_here=True), tmp_path)
    assert reading.host.tools["mysqldump"].said == "C, unset, unset"


def test_dump_program_is_read_with_its_version(tmp_path: Path) -> None:
    tools = ask(FakeShell(runs_here=True), tmp_path).host.tools
    assert tools["mariadb-dump"].version == tools["mariadb"].version
