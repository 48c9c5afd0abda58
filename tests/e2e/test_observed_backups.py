"""Real backups that others run, seen by real probes and reported to a real web process."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stack import Stack

pytestmark = pytest.mark.services
CLIENT = Path(__file__).parents[2] / "static" / "client" / "dbops-backup-report"


def runs(stack: Stack) -> list[dict[str, Any]]:
    found = stack.rows(
        "SELECT r.*, i.name FROM dbops_backuprun r JOIN dbops_instance i ON i.id = r.instance_id ORDER BY r.id"
    )
    return [{**row, "evidence": json.loads(row["evidence"])} for row in found]


def begun(stack: Stack, after: int, what: str, **wanted: Any) -> dict[str, Any]:
    """Wait for the one run that is newer than ``after`` and is like this."""

    def look() -> dict[str, Any] | None:
        new = [row for row in runs(stack) if row["id"] > after]
        assert len(new) <= 1, f"one run, several rows: {new}"
        return next((row for row in new if all(row[name] == value for name, value in wanted.items())), None)

    found: dict[str, Any] = stack.wait_for_probe(what, look, "backup-1")
    return found


def last(stack: Stack) -> int:
    return max((row["id"] for row in runs(stack)), default=0)


@contextmanager
def slow_reader(words: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose output is not read until the block is over: it waits, as one that writes to a slow disk does.

    A script of its own starts it: backups that one script starts within 90 s are one run, and the script would be these tests.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            ["sh", "-c", '"$@"; exit', "nightly", *words], stdout=subprocess.PIPE, stderr=said, **options
        )
        try:
            yield process
        except BaseException:
            said.seek(0)
            print(f"{words[0]}: {process.poll()}; it said {said.read().decode(errors='replace')}")
            raise
        finally:
            process.communicate(timeout=60)


def client_options(stack: Stack, name: str) -> list[str]:
    host = stack.lab.host(name)
    return [f"--socket={host.socket}", "--user=root"]


def test_dump_in_a_loop_is_one_observed_run(stack: Stack) -> None:
    before, dump = last(stack), ["mariadb-dump", "--no-defaults", *client_options(stack, "backup-1"), "--all-databases"]
    with slow_reader(["sh", "-c", 'for turn in 1 2; do "$@"; done; exit', "loop", *dump]):
        row = begun(stack, before, "the dump", status="running")
        assert (row["name"], row["origin"], row["method"]) == ("backup-1", "observed", "dump")
        assert row["evidence"]["tool"] == "mariadb-dump"
        first_seen = row["last_seen_at"]
        stack.wait_for_probe("the next probe", lambda: runs(stack)[-1]["last_seen_at"] > first_seen, "backup-1")
    ended = begun(stack, before, "its end", status="ended")
    assert ended["finished_at"] > ended["started_at"]


def test_physical_backup_is_observed(stack: Stack) -> None:
    before, folder = last(stack), stack.folder / "lsn"
    folder.mkdir()
    words = ["mariadb-backup", "--no-defaults", "--backup", "--stream=xbstream", f"--target-dir={folder}"]
    host = stack.lab.host("backup-1")
    with slow_reader([*words, *client_options(stack, "backup-1"), f"--datadir={host.data_dir}"]):
        row = begun(stack, before, "the backup", status="running")
        assert (row["name"], row["method"], row["evidence"]["tool"]) == ("backup-1", "physical", "mariadb-backup")
    begun(stack, before, "its end", status="ended")


def test_observed_and_reported_backup_is_one_run(stack: Stack) -> None:
    before = last(stack)
    secret = stack.manage("token", "make", "backup-host", "--cluster", "test").stdout.strip()
    fetched, file = stack.folder / "dbops-backup-report", stack.folder / "shop.sql"
    with urllib.request.urlopen(f"{stack.url}/static/client/dbops-backup-report", timeout=20) as answer:
        fetched.write_bytes(answer.read())
    assert fetched.read_bytes() == CLIENT.read_bytes()
    environment = {**os.environ, "DBOPS_TOKEN": secret, "DBOPS_URL": stack.url, "DBOPS_INSTANCE": "backup-1"}
    dump = ["mariadb-dump", "--no-defaults", *client_options(stack, "backup-1"), "--all-databases"]
    reporting = ["sh", str(fetched), "--file", str(file), "--wait", "5", "--", *dump]
    with slow_reader(reporting, env=environment) as process:
        row = begun(stack, before, "seen and reported", status="running", origin="reported")
        row = stack.wait_for_probe(
            "both know of it",
            lambda: next(
                (one for one in runs(stack) if one["evidence"].get("process") and one["id"] == row["id"]), None
            ),
            "backup-1",
        )
        assert row["evidence"]["pid"] == row["evidence"]["reported_pid"]
        file.write_bytes(b"x" * 4321)
    assert process.returncode == 0
    ended = begun(stack, before, "its end", status="succeeded")
    assert (ended["exit_status"], ended["bytes_written"], ended["path"]) == (0, 4321, str(file))


def test_reported_dump_is_the_same_without_the_dashboard(stack: Stack) -> None:
    dump = [
        "mariadb-dump",
        "--no-defaults",
        *client_options(stack, "backup-1"),
        "--skip-dump-date",
        "mysql",
        "help_topic",
    ]
    alone = subprocess.run(dump, capture_output=True, check=True)
    secret = "no-token-that-anybody-would-take"
    environment = {**os.environ, "DBOPS_TOKEN": secret, "DBOPS_URL": "http://127.0.0.1:9", "DBOPS_INSTANCE": "backup-1"}
    begin = time.monotonic()
    reported = subprocess.run(
        [shutil.which("sh") or "sh", CLIENT, "--", *dump], env=environment, capture_output=True, check=False
    )
    print(f"with the dashboard away the dump took {time.monotonic() - begin:.2f} s")
    assert (reported.returncode, reported.stdout, reported.stderr) == (0, alone.stdout, alone.stderr)
