"""How a start ends that other platforms and people make: by one line that names the cause."""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests import run_folder
from tests.networks import answers, free_network
from tests.stack import DATABASE, ROOT, wait_for

from .dashboard import PYTHON, clean_environment, manage, new_state, started

pytestmark = pytest.mark.services

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another account")
SERVICE = "tcp://10.96.0.5:8000"
ACCOUNT = "daemon"


@pytest.mark.parametrize("name", ["st#hash", "st?query", "st%41percent", "st with ü"])
def test_database_is_inside_of_a_state_folder_with_any_name(tmp_path: Path, name: str) -> None:
    state = tmp_path / name
    done = manage(clean_environment(state), "showmigrations", "dbops")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with sqlite3.connect(state / DATABASE) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_web_starts_where_kubernetes_names_its_service_like_our_port() -> None:
    address = f"{free_network()}.11"
    with new_state() as state, (state / "log").open("ab") as log:
        settings = {"DBOPS_WEB_HOST": address, "DBOPS_WEB_PORT": SERVICE}
        environment = clean_environment(state, DBOPS_ALLOWED_HOSTS=address, **settings)
        with started([ROOT / "script" / "run", "web"], environment, log):
            wait_for("the web process", lambda: answers(f"http://{address}:8000/healthz/"))


def test_redis_starts_where_kubernetes_names_its_service_like_our_port(tmp_path: Path) -> None:
    address = f"{free_network()}.11"
    environment = clean_environment(tmp_path, DBOPS_REDIS_BIND=address, DBOPS_REDIS_PORT=SERVICE)
    with (tmp_path / "log").open("ab") as log, started([ROOT / "script" / "run", "redis"], environment, log):
        ping = ["redis-cli", "-h", address, "-p", "6379", "ping"]
        wait_for("Redis", lambda: subprocess.run(ping, capture_output=True, check=False).stdout == b"PONG\n", 20)


@pytest.mark.parametrize(
    "setting",
    [("DBOPS_HTTPS", "yes"), ("DBOPS_URL_PREFIX", "dbops"), ("DBOPS_URL_PREFIX", "/a b"), ("DBOPS_TICK_SECONDS", "1m")],
)
def test_wrong_setting_ends_with_one_line_that_names_it(tmp_path: Path, setting: tuple[str, str]) -> None:
    done = manage(clean_environment(tmp_path, **dict([setting])), "check")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert setting[0] in line


def test_command_without_its_environment_names_the_database_without_tables(tmp_path: Path) -> None:
    done = manage(
        clean_environment(tmp_path),
        "account",
        "create",
        "anna",
        "--group",
        "viewer",
        "--password-stdin",
        stdin="x" * 20,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / DATABASE) in done.stderr


@needs_root
def test_root_does_not_start_on_the_state_of_another_account(tmp_path: Path) -> None:
    shutil.chown(tmp_path, ACCOUNT)
    done = manage(clean_environment(tmp_path), "check")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert ACCOUNT in line
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_account_that_cannot_read_roots_key_is_named(tmp_path: Path) -> None:
    folder = run_folder.new_folder("state")
    key = folder / "secret.key"
    key.write_text("x" * 64)
    key.chmod(0o600)
    code = (
        "from pathlib import Path; from dbops.security.keys import *;"
        f"read_or_make(variable='NO', file=Path({str(key)!r}), make=make_signing_key)"
    )
    # Root without rights on files of others is as good as another account, and finds the interpreter anywhere.
    words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", PYTHON, "-c", code]
    shutil.chown(key, ACCOUNT)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"chown -R root {folder}" in done.stderr.splitlines()[-1]
    run_folder.remove(folder)


@needs_root
def test_clone_under_a_strict_umask_can_be_run_by_the_service(tmp_path: Path) -> None:
    """The lines of docs/how-to/install.md, with a folder of ours."""
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    folder = run_folder.new_folder("clone")
    lines = [line for line in page.splitlines() if line.startswith(("umask ", "git clone "))]
    script = (
        "\n".join(["umask 077", *lines])
        .replace("ADDRESS-OF-THIS-REPOSITORY", str(ROOT))
        .replace("/srv/dbops", str(folder / "dbops"))
    )
    subprocess.run(["sh", "-e", "-c", script], check=True, capture_output=True)
    done = subprocess.run([folder / "dbops" / "script" / "run"], user=ACCOUNT, capture_output=True, check=False)
    assert done.returncode == 2  # the usage
    run_folder.remove(folder)
