"""The command line client against a running dashboard: what it prints, how it exits, and what a cut connection does to it."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.networks import free_port
from tests.stack import wait_for

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "client"
#: Rows of a fleet as the other tests have them; olga has an operator's token, victor a viewer's.
SEED = """
import json
from django.core.management import call_command
call_command("migrate", verbosity=0)
from dbops.messaging import updates, wakeups
wakeups.publish = updates.announce = updates.announce_many = lambda *_: None
from dbops.operations.api_tokens import make_api_token
from tests.app import rows
from tests.app.factories import make_event, make_rebuild, make_operator
fleet = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2")
def token(user, scope="operate"):
    return make_api_token(actor=user, name=user.username, scope=scope, clusters=None, days=1)[1]
olga = rows.operator()
running = make_rebuild(target=fleet["replica-2"], source=fleet["backup-1"], requested_by=olga)
for number in range(20):
    make_event(running, f"line {number}")
found = {"olga": token(olga), "victor": token(rows.viewer()), "anna": token(make_operator("anna")), "running": running.pk}
print(json.dumps(found))
"""
#: More lines, and the end of the rebuild.
END = """
from django.utils import timezone
from dbops.models import Rebuild
from tests.app.factories import make_event
row = Rebuild.objects.get(pk={number})
for number in range(20, 40):
    make_event(row, f"line {{number}}\\x1b[2J")
Rebuild.objects.filter(pk=row.pk).update(
    status={status!r}, outcome="It is over.", finished_at=timezone.now(), target_slot=None, revision=99)
"""


class Dashboard:
    """A running web process with a database of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DBOPS_")},
            "DBOPS_STATE_DIR": str(folder),
            "DBOPS_REDIS_URL": "redis://127.0.0.1:1/0",
            "DBOPS_FACTS_MAX_AGE_SECONDS": "3600",
            "DJANGO_SETTINGS_MODULE": "dbops.settings",
            "PYTHONPATH": str(ROOT),
        }
        self.rows: dict[str, Any] = json.loads(self.python(SEED))
        (folder / "static").mkdir(exist_ok=True)
        for name in ("olga", "victor", "anna"):
            token = folder / f"{name}.token"
            token.touch(0o600)
            token.write_text(self.rows[name])
        words = ["-m", "uvicorn", "dbops.asgi:application", "--port", str(self.port), "--log-level", "warning"]
        self.log = (folder / "web.log").open("w")
        self.process = subprocess.Popen([sys.executable, *words], env=self.environment, stderr=self.log, cwd=ROOT)
        wait_for("the dashboard", self.answers, 120)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def python(self, text: str) -> str:
        text = f"import django\ndjango.setup()\n{text}"
        done = subprocess.run(
            [sys.executable, "-c", text], env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1] if done.stdout else ""

    def command(self, *words: str, by: str = "olga", port: int = 0, **more: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CLIENT),
            "DBOPS_URL": f"http://127.0.0.1:{port or self.port}",
            "DBOPS_TOKEN_FILE": str(self.folder / f"{by}.token"),
            **more,
        }
        return [sys.executable, "-m", "dbops_client", *words], environment

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        command, environment = self.command(*words, **more)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )

    def json(self, *words: str, status: int = 0, **more: Any) -> list[Any]:
        done = self.run(*words, "--json", **more)
        assert done.returncode == status, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


class Cutter:
    """A proxy that cuts its first stream after some bytes, as a network does."""

    def __init__(self, port: int, after: int) -> None:
        self.to, self.left, self.connections = port, after, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client, self.connections == 1), daemon=True).start()

    def _serve(self, client: socket.socket, is_cut: bool) -> None:
        with client, socket.create_connection(("127.0.0.1", self.to)) as server:
            server.sendall(client.recv(65536))
            left = self.left
            while part := server.recv(512 if is_cut else 65536):
                client.sendall(part[:left] if is_cut else part)
                left -= len(part)
                if is_cut and left <= 0:
                    return

    def close(self) -> None:
        self.listener.close()


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with closing(Dashboard(tmp_path_factory.mktemp("dashboard"))) as found:
        yield found


def test_lists(dashboard: Dashboard) -> None:
    assert [one["name"] for one in dashboard.json("clusters")] == ["shop"]
    assert len(dashboard.json("instances", "--cluster", "shop", by="victor")) == 4
    assert [one["id"] for one in dashboard.json("rebuilds", "--status", "running")] == [dashboard.rows["running"]]
    assert dashboard.json("backups") == []
    assert dashboard.run("clusters").stdout.split()[:2] == ["name", "can_start"]


def test_rebuild_is_planned_requested_and_cancelled(dashboard: Dashboard) -> None:
    (plan,) = dashboard.json("plan", "replica-1", by="victor")
    assert (plan["is_possible"], plan["source"]) == (True, "backup-1")
    words = ("rebuild", "replica-1", "--reason", "disk replaced")
    (asked,) = dashboard.json(*words, status=2)
    assert asked["error"]["code"] == "client.usage"
    (wrong,) = dashboard.json(*words, "--confirm", "replica-2", status=2)
    assert wrong["error"]["code"] == "rebuild.name"
    (denied,) = dashboard.json(*words, "--confirm", "replica-1", by="victor", status=2)
    assert denied["error"]["code"] == "access.denied"
    (made,) = dashboard.json(*words, "--confirm", "replica-1")
    assert made["status"] == "queued"
    (refused,) = dashboard.json("approve", str(made["rebuild"]), by="anna", status=2)
    assert refused["error"]["code"] == "approval.not_waiting"
    (ended,) = dashboard.json("cancel", str(made["rebuild"]))
    assert ended["status"] == "cancelled"
    assert dashboard.json("follow", str(made["rebuild"]), status=3)[-1]["status"] == "cancelled"


def test_follow_continues_after_a_cut_connection(dashboard: Dashboard) -> None:
    number = dashboard.rows["running"]
    with closing(Cutter(dashboard.port, after=1500)) as cutter:
        words, environment = dashboard.command("follow", str(number), "--json", port=cutter.port)
        client = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        wait_for("the second connection", lambda: cutter.connections > 1)
        dashboard.python(END.format(number=number, status="failed"))
        out, _ = client.communicate(timeout=60)
    found = [json.loads(line) for line in out.splitlines()]
    texts = [one["text"] for one in found if str(one.get("text", "")).startswith("line")]
    assert [text.split("\x1b")[0] for text in texts] == [f"line {number}" for number in range(40)]
    assert (client.returncode, found[-1]["status"], found[-1]["outcome"]) == (1, "failed", "It is over.")
    assert "\x1b" not in dashboard.run("follow", str(number)).stdout


def test_token_stays_secret(dashboard: Dashboard, tmp_path: Path) -> None:
    secret = dashboard.rows["olga"]
    token = tmp_path / "token"
    token.write_text(secret)
    token.chmod(0o640)
    done = dashboard.run("clusters", DBOPS_TOKEN_FILE=str(token))
    assert (done.returncode, secret in done.stdout + done.stderr) == (2, False)
    assert dashboard.json("clusters", DBOPS_TOKEN_FILE="", DBOPS_TOKEN=secret, HOME=str(tmp_path))
    (wrong,) = dashboard.json("clusters", status=2, DBOPS_TOKEN_FILE="", DBOPS_TOKEN="wrong", HOME=str(tmp_path))
    assert wrong["error"]["code"] == "token.unknown"
    for address in ("http://dbops.example", "ftp://dbops.example", ""):
        (refused,) = dashboard.json("clusters", status=2, DBOPS_URL=address)
        assert refused["error"]["code"] == "client.usage"


def test_exit_status_when_nothing_answers(dashboard: Dashboard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    assert dashboard.json("clusters", port=port, status=4)[-1]["status"] == "unknown"
    assert dashboard.run("nonsense").returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_commands_and_options(dashboard: Dashboard, shell: str) -> None:
    text = dashboard.run("completion", shell).stdout
    assert "rebuild" in text
    assert "--follow" in text
    if shell == "bash":
        asked = f"{text}\nCOMP_WORDS=(dbops rebuild --fol) COMP_CWORD=2; _dbops; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["--follow"]
