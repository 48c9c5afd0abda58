"""PgBouncer in transaction mode between the dashboard and its database."""

import os
import pwd
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests import run_folder
from tests.networks import free_port
from tests.servers import PASSWORD, QUOTED_PASSWORD, USER, Server, running_server
from tests.stack import wait_for

from .dashboard import clean_environment, manage, started

pytestmark = pytest.mark.services

# Each statement outside of a transaction goes to the session that waited longest.
SETTINGS = (
    "pool_mode = transaction\nserver_round_robin = 1\nmin_pool_size = 3\ndefault_pool_size = 3\nauth_type = any\n"
)
ROWS_IN_PARTS = """
from django.contrib.contenttypes.models import ContentType
print(len(list(ContentType.objects.order_by("pk").iterator(chunk_size=2))) == ContentType.objects.count())
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server("postgresql") as running:
        yield running


@contextmanager
def running_pooler(server_url: str) -> Iterator[str]:
    """Give the address of a database behind a pooler that drops the options of a new session."""
    folder, port = run_folder.new_folder("pooler"), free_port()
    server, name = server_url.rpartition("@")[2].split("/")
    host, _, server_port = server.partition(":")
    database = f"{name} = host={host} port={server_port} user={USER} password='{PASSWORD}'"
    own = f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nignore_startup_parameters = options,extra_float_digits\n"
    (folder / "pgbouncer.ini").write_text(f"[databases]\n{database}\n[pgbouncer]\n{own}{SETTINGS}")
    account = "daemon" if os.geteuid() == 0 else None
    if account:
        os.chown(folder, pwd.getpwnam(account).pw_uid, -1)
    words = ["pgbouncer", folder / "pgbouncer.ini"]
    with (folder / "log").open("ab") as log, started(words, os.environ, log, user=account) as process:

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            return (folder / "log").read_text().count("process up") > 0

        wait_for("PgBouncer", answers, 20)
        yield f"postgresql://{USER}:{QUOTED_PASSWORD}@127.0.0.1:{port}/{name}"
    run_folder.remove(folder)


def test_pooler_that_drops_the_timeouts_is_refused_until_the_role_has_them(server: Server, tmp_path: Path) -> None:
    direct = server.create("dbops_pooled")
    environment = clean_environment(tmp_path / "state", DBOPS_DATABASE_WAIT_SECONDS="14")
    with running_pooler(direct) as pooled:
        refused = manage(environment | {"DBOPS_DATABASE_URL": pooled}, "migrate", "--no-input")
    assert refused.returncode == 1
    assert "dbops.E003" in refused.stderr
    statements = re.findall(r"ALTER ROLE [^;]+;", refused.stderr)
    assert {statement.split(" SET ")[1].partition(" ")[0] for statement in statements} == {
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    }
    with psycopg.connect(direct, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
    with running_pooler(direct) as pooled:
        accepted = manage(environment | {"DBOPS_DATABASE_URL": pooled}, "migrate", "--no-input")
        assert accepted.returncode == 0, accepted.stderr
        # a cursor that stays open between two transactions would be asked of another session
        read = manage(environment | {"DBOPS_DATABASE_URL": pooled}, "shell", "--no-imports", "-c", ROWS_IN_PARTS)
        assert read.stdout.strip() == "True", read.stderr


def test_check_accepts_postgresql_itself(server: Server, tmp_path: Path) -> None:
    environment = clean_environment(tmp_path / "state", DBOPS_DATABASE_URL=server.create("dbops_direct"))
    done = manage(environment, "check", "--database", "default")
    assert done.returncode == 0, done.stderr
