"""What an impostor at the address of a TiDB node gets from the load generator: no password, and no file of its host."""

import os
import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load_lua
from dbops.engine.load_tests.generator import SCRIPT, Place, input_text, run_arguments
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from tests.hostile.fake_server import CACHING_SHA2, CLEAR, DIALOG, ED25519, NATIVE, OLD, SHA256, Demand, FakeServer

pytestmark = pytest.mark.services
PASSWORD = "th3 l0ad's password"  # noqa: S105
WORK = Workload(Profile.INSERT, table_ddl="CREATE TABLE t (id BIGINT PRIMARY KEY)", key_ranges=(("id", 1, 9),))
ROUND = Round(number=1, step=1, threads=1, seconds=1, warm_up_seconds=0)


def run(folder: Path, server: FakeServer, script: str) -> None:
    """Run a round at the impostor. It fails, or ends without a result."""
    (folder / SCRIPT).write_text(script)
    with server.listening(("127.0.0.1", 0)) as listener:
        place = Place(str(folder), "", "dbops_load", "127.0.0.1", listener.getsockname()[1])
        words = run_arguments(WORK, ROUND, place)
        given = {name: value for name, value in os.environ.items() if not name.startswith("M")}
        subprocess.run(
            words, input=input_text(WORK, PASSWORD), env=given, text=True, capture_output=True, timeout=60, check=False
        )
    assert server.logins


@pytest.mark.parametrize("method", [NATIVE, OLD, CLEAR, DIALOG, SHA256, CACHING_SHA2, ED25519])
@pytest.mark.parametrize("switches", [True, False])
def test_impostor_gets_no_password(tmp_path: Path, method: str, switches: bool) -> None:
    server = FakeServer(Demand(switches_to=method) if switches else Demand(greets_with=method))
    run(tmp_path, server, load_lua("load"))
    assert not server.got(PASSWORD)


def test_impostor_would_get_it_with_the_plugins_of_the_library(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    server = FakeServer(Demand(switches_to=CLEAR))
    run(tmp_path, server, "\n".join(one for one in load_lua("load").splitlines() if "MARIADB_PLUGIN_DIR" not in one))
    assert server.got(PASSWORD)


def test_impostor_gets_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret content of a file")
    secret.chmod(0o644)
    server = FakeServer(Demand(wants_file=str(secret)))
    run(tmp_path, server, load_lua("load"))
    assert any(b"SHOW CREATE TABLE" in one for one in server.received)  # it could ask
    assert not server.got(secret.read_text())
