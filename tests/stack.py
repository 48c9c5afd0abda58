"""The whole product for real: a lab, Redis, web, worker and beat, each as its own process, in a folder of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.lab import Lab
from lab.pytest_plugin import start_lab
from tests import tables
from tests.networks import free_network

ROOT = Path(__file__).parents[1]
OPERATOR, OPERATOR_PASSWORD = "olga", "correct horse battery staple"
VIEWER, VIEWER_PASSWORD = "victor", "staple battery horse correct"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(what: str, probe: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return the first true answer of ``probe``; fail the test after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := probe():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"not seen within {seconds} s: {what}")


class Stack:
    """Processes of one dashboard over one lab."""

    def __init__(self, folder: Path, lab: Lab, database_url: str = "") -> None:
        self.folder, self.lab = folder, lab
        self.database_url = database_url or f"sqlite:///{folder / 'dbops.sqlite3'}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.web_port, self.redis_port = free_port(), free_port()
        self.environment = {
            **os.environ,
            "DBOPS_STATE_DIR": str(folder),
            "DBOPS_DATABASE_URL": self.database_url,
            "DBOPS_REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "DBOPS_REDIS_PORT": str(self.redis_port),
            "DBOPS_WEB_PORT": str(self.web_port),
            "DBOPS_PROBE_INTERVAL_SECONDS": "3",
            "DBOPS_WORKER_CONCURRENCY": "3",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def start(self, *names: str) -> None:
        """Start processes by name; ``worker-2`` is one more ``worker``."""
        for name in names:
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [ROOT / "script" / "run", name.partition("-")[0]],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        process = self.processes.pop(name)
        try:
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            process.wait(30)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop_all(self) -> None:
        for name in reversed(list(self.processes)):
            self.stop(name)

    def manage(
        self, *words: str, stdin: str = "", check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [ROOT / ".venv" / "bin" / "python", ROOT / "manage.py", *words],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"manage.py {' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Read the dashboard's own tables. JSON is text."""
        return tables.rows(self.database_url, sql, *parameters)

    def write(self, sql: str, *parameters: Any) -> None:
        tables.write(self.database_url, sql, *parameters)

    def wait_for_possible_plan(self, target: str) -> dict[str, Any]:
        """Wait until probes have seen the fleet as it is now, and a rebuild is possible."""
        self.wait_for_facts(target)

        def plan() -> dict[str, Any] | None:
            done = self.manage("rebuild", target, "--plan", "--json", check=False)
            answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
            return answer if answer.get("is_possible") else None

        found: dict[str, Any] = wait_for(f"a possible plan for {target}", plan, 60)
        return found

    def facts(self, name: str) -> dict[str, Any]:
        rows = self.rows(
            "SELECT record FROM dbops_instancestate s JOIN dbops_instance i ON i.id = s.instance_id WHERE i.name = ?",
            name,
        )
        return json.loads(rows[0]["record"]) if rows else {}

    def wait_for_facts(self, name: str, seconds: float = 40.0, *, answering: bool | None = None) -> dict[str, Any]:
        """Wait for a probe that begins after now."""
        before = self.facts(name).get("observed_at", "")

        def fresh() -> dict[str, Any] | None:
            facts = self.facts(name)
            if facts.get("observed_at", "") <= before:
                return None
            return facts if answering is None or (facts["server"] is not None) is answering else None

        return wait_for(f"a fresh probe of {name}", fresh, seconds)

    def rebuild(self, target: str, *words: str, check: bool = True) -> tuple[int, list[dict[str, Any]]]:
        """Run ``manage.py rebuild --follow --json`` to the end. Return its exit status and its lines."""
        try:
            done = self.manage(
                "rebuild", target, "--reason", "a test", "--follow", "--json", *words, check=False, timeout=150
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the rebuild does not end:\n{self.state_of_rebuilds()}\n{self.tail('worker')}"
            ) from None
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if check and done.returncode != 0:
            raise AssertionError(f"status {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.tail('worker')}")
        return done.returncode, lines

    def state_of_rebuilds(self) -> str:
        rebuild = self.rows("SELECT * FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]
        del rebuild["plan"]
        steps = self.rows("SELECT name, state, started_at FROM dbops_step WHERE rebuild_id = ?", rebuild["id"])
        events = self.rows("SELECT at, step, text FROM dbops_event WHERE rebuild_id = ? ORDER BY id", rebuild["id"])
        return "\n".join(str(row) for row in [rebuild, *steps, *events[-15:]])

    def tail(self, name: str, lines: int = 40) -> str:
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running_stack(
    network: str = "", *, size: str = "64M", web: bool = True, database_url: str = "", **lab_options: Any
) -> Iterator[Stack]:
    """A lab with its dashboard, probed once; everything is ended and removed afterwards.

    ``database_url`` is of an empty database; without one it is a SQLite file of its own.
    """
    folder = Path(tempfile.mkdtemp(prefix="dbops-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    state = folder / "state"
    state.mkdir(mode=0o700)
    try:
        with start_lab(folder / "lab", network or free_network(), size=size, **lab_options) as lab:
            stack = Stack(state, lab, database_url)
            try:
                stack.manage("migrate", "--no-input")
                stack.manage("fleet", "import", str(lab.fleet_yaml))
                stack.manage(
                    "account", "create", OPERATOR, "--group", "operator", "--password-stdin", stdin=OPERATOR_PASSWORD
                )
                stack.manage(
                    "account", "create", VIEWER, "--group", "viewer", "--password-stdin", stdin=VIEWER_PASSWORD
                )
                stack.start("redis", "worker", "beat", *(["web"] if web else []))
                if web:
                    wait_for("the web process", lambda: answers(f"{stack.url}/healthz/"))
                for name in [host.name for host in lab.hosts]:
                    wait_for(
                        f"facts of {name}",
                        lambda name=name: (
                            (stack.facts(name).get("server") or {}).get("redo_bytes_per_second") is not None
                        ),
                        40,
                    )
                yield stack
            finally:
                stack.stop_all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
