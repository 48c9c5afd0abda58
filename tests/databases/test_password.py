"""The password of the dashboard's own database from a file, so that no address has it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.databases.racers import ROOT
from tests.servers import PASSWORD, QUOTED_PASSWORD, Server


def test_password_is_read_from_its_file(server: Server, tmp_path: Path) -> None:
    if server.kind == "sqlite":
        pytest.skip("SQLite has no accounts")
    url = server.create("dbops_password")
    address = url.replace(f":{QUOTED_PASSWORD}@", "@")
    assert address != url
    environment = {**os.environ, "DBOPS_DATABASE_URL": address, "DBOPS_STATE_DIR": str(tmp_path)}
    words = [ROOT / ".venv" / "bin" / "python", ROOT / "manage.py", "migrate", "contenttypes", "--no-input"]
    statuses = []
    for password in ("another", PASSWORD):
        file = tmp_path / "secret"
        file.write_text(f"{password}\n")
        file.chmod(0o600)
        environment["DBOPS_DATABASE_PASSWORD_FILE"] = str(file)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        statuses.append(done.returncode)
        assert PASSWORD not in done.stdout + done.stderr
    assert statuses == [1, 0], done.stderr
