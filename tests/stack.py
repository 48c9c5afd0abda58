"""The whole product for real: a lab, Redis, web, worker and beat, each as its own process, in a folder of its own."""

import fcntl
import functools
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.lab import Lab
from tests import ran, run_folder, tables
from tests.facts import has_rate, is_news
from tests.hints import send_probe_hint
from tests.loaded import COMMANDS, MANAGE, Forked, Loaded, daemon_words
from tests.networks import answers, free_network, free_port
from tests.sudo_account import VARIABLE, through_gates

ROOT = Path(__file__).parents[1]
DATABASE = "dbops.sqlite3"
OPERATOR, OPERATOR_PASSWORD = "olga", "correct horse battery staple"
VIEWER, VIEWER_PASSWORD = "victor", "staple battery horse correct"
LOG_IN = """
from django.contrib.auth import SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.conf import settings
user = User.objects.get(username={name!r})
session = SessionStore()
session[SESSION_KEY], session[BACKEND_SESSION_KEY] = str(user.pk), settings.AUTHENTICATION_BACKENDS[0]
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
print(session.session_key)
"""


def wait_for(what: str, probe: Callable[[], Any], seconds: float = 60.0, *, every_seconds: float = 0.2) -> Any:
    """Return the first true answer of ``probe``; fail the test after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := probe():
            return answer
        time.sleep(every_seconds)
    raise AssertionError(f"not seen within {seconds} s: {what}")


def run_migrate(environment: dict[str, str]) -> None:
    subprocess.run([ROOT / "script" / "run", "migrate"], env=environment, check=True, capture_output=True, timeout=300)


@functools.cache
def template() -> Path:
    """Return the state folder of a new dashboard with its accounts. It has no keys: each copy makes its own.

    The first process of a test run makes it for all.
    """
    made = run_folder.shared() / "state"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            new = made.with_suffix(".new")
            new.mkdir(mode=0o700)
            environment = {
                **os.environ,
                "DBOPS_STATE_DIR": str(new),
                "DBOPS_DATABASE_URL": f"sqlite:///{new / DATABASE}",
            }
            run_migrate(environment)
            with closing(Loaded(environment, new / "loaded.log")) as code:
                make_accounts(code)
            for path in [*new.glob("*.key"), new / "loaded.log"]:
                path.unlink()
            new.rename(made)
    return made


def make_accounts(code: Loaded) -> None:
    for name, group, password in (
        (OPERATOR, "operator", OPERATOR_PASSWORD),
        (VIEWER, "viewer", VIEWER_PASSWORD),
    ):
        done = code.run(MANAGE, "account", "create", name, "--group", group, "--password-stdin", stdin=password)
        assert done.returncode == 0, done.stderr


class Stack:
    """Processes of one dashboard over one lab."""

    def __init__(self, folder: Path, lab: Lab, database_url: str = "") -> None:
        self.folder, self.lab = folder, lab
        self.database_url = database_url or f"sqlite:///{folder / DATABASE}"
        self.processes: dict[str, subprocess.Popen[bytes] | Forked] = {}
        #: what the dashboard's clock shows
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        #: of workers alone, beside the environment of all processes
        self.worker_settings: dict[str, str] = {}
        #: one for each environment that was used; the dashboard's processes are its children
        self._loaded: list[Loaded] = []
        self._loading = threading.Lock()
        self.web_port, self.redis_port = free_port(), free_port()
        self.environment = {
            **os.environ,
            "DBOPS_STATE_DIR": str(folder),
            "DBOPS_DATABASE_URL": self.database_url,
            "DBOPS_REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "DBOPS_REDIS_PORT": str(self.redis_port),
            "DBOPS_KEY_DIRECTORY": str(self.folder),
            "DBOPS_WEB_PORT": str(self.web_port),
            "DBOPS_WORKER_CONCURRENCY": "3",
            "DBOPS_VERIFY_STEADY_SECONDS": "2",
            # a test starts the restore tests that it needs
            "DBOPS_RESTORE_TEST_INTERVAL_SECONDS": "0",
            "DBOPS_LINK_TEST_INTERVAL_SECONDS": "0",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def start(self, *names: str) -> None:
        """Start processes by name; ``worker-2`` is one more ``worker``. One with the usual settings is a fork."""
        for name in names:
            kind = name.partition("-")[0]
            settings = self.worker_settings if kind == "worker" else {}
            with (self.folder / f"{name}.log").open("ab") as log:
                if kind in COMMANDS and not settings:
                    words = daemon_words(kind, self.environment)
                    with open(os.devnull) as nothing:
                        streams = (nothing.fileno(), log.fileno(), log.fileno())
                        self.processes[name] = self._ready_to_manage().start(words, streams)
                else:
                    self.processes[name] = subprocess.Popen(
                        [ROOT / "script" / "run", kind],
                        env=self.environment | settings,
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
            # A tick that runs may end first: some 20 s, and much longer on a busy machine.
            process.wait(150)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def begin(self, *, web: bool) -> None:
        """Install the dashboard and start its processes, with an empty fleet."""
        self.migrate()
        self.start("redis", "worker", "beat", *(["web"] if web else []))
        self._ready_to_manage()
        if web:
            wait_for("the web process", lambda: answers(f"{self.url}/healthz/"))

    def stop_all(self) -> None:
        """Stop every process: all at the same time, and Redis when nothing uses it any more."""
        users = [name for name in self.processes if name != "redis"]
        try:
            with ThreadPoolExecutor(max(1, len(users))) as pool:
                list(pool.map(self.stop, users))
        finally:
            if "redis" in self.processes:
                self.stop("redis")
            for loaded in self._loaded:
                loaded.close()

    def migrate(self) -> None:
        """Make the tables and the accounts, and collect what pages load, as an installation does; SQLite's are copies."""
        if self.database_url == f"sqlite:///{self.folder / DATABASE}":
            shutil.copytree(template(), self.folder, dirs_exist_ok=True)
        else:
            run_migrate(self.environment)
            make_accounts(self._ready_to_manage())

    def manage(
        self, *words: str, stdin: str = "", check: bool = True, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ``manage.py``, in a fork of a process that has read its modules already."""
        done = self._ready_to_manage().run(MANAGE, *words, stdin=stdin, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"manage.py {' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def _ready_to_manage(self) -> Loaded:
        with self._loading:
            for loaded in self._loaded:
                if loaded.environment == self.environment:
                    return loaded
            self._loaded.append(Loaded(self.environment, self.folder / "loaded.log", daemons=True))
            return self._loaded[-1]

    def session_key(self, name: str = OPERATOR) -> str:
        """Log somebody in and return the key of the session."""
        return self.manage("shell", "--no-imports", "-c", LOG_IN.format(name=name)).stdout.split()[-1]

    def get(self, path: str, session: str = "") -> bytes:
        """Return what the web process answers the operator, in a new session where none is given."""
        cookie = f"sessionid={session or self.session_key()}"
        asked = urllib.request.Request(f"{self.url}{path}", headers={"Cookie": cookie})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            content: bytes = answer.read()
        return content

    def rows(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """Read the dashboard's own tables. JSON is text."""
        return tables.rows(self.database_url, sql, *parameters)

    def write(self, sql: str, *parameters: Any) -> None:
        tables.write(self.database_url, sql, *parameters)

    def wait_for_possible_plan(self, target: str, *words: str) -> dict[str, Any]:
        """Wait until probes have seen the fleet as it is now, and a rebuild is possible. ``words`` are more options of its command."""
        self.wait_for_facts(target)
        asked, plan = "", dict[str, Any]()

        def is_possible() -> bool:
            nonlocal asked, plan
            # The answer changes with what was seen, and a process for each question would take the machine from the probes.
            [newest] = self.rows("SELECT max(observed_at) AS at FROM dbops_instancestate")
            if newest["at"] == asked:
                return False
            asked, plan = newest["at"], self.plan(target, *words)
            if not plan.get("is_possible"):
                self.probe_now()
            return bool(plan.get("is_possible"))

        try:
            wait_for(f"a possible plan for {target}", is_possible, 120)
        except AssertionError as error:
            refused = [item for item in plan.get("findings", []) if item["severity"] == "refusal"]
            raise AssertionError(f"{error}: {refused}") from None
        return plan

    def plan(self, target: str, *words: str) -> dict[str, Any]:
        """Return what ``rebuild --plan --json`` says now."""
        done = self.manage("rebuild", target, *words, "--plan", "--json", check=False)
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
        return answer

    def facts(self, name: str) -> dict[str, Any]:
        rows = self.rows(
            "SELECT record FROM dbops_instancestate s JOIN dbops_instance i ON i.id = s.instance_id WHERE i.name = ?",
            name,
        )
        return json.loads(rows[0]["record"]) if rows else {}

    def wait_for_first_facts(self) -> None:
        """Wait until every instance has answered twice: two probes make a rate."""
        names = [host.name for host in self.lab.hosts]
        answered = dict[str, str]()

        def all_have_rates() -> bool:
            facts = {name: self.facts(name) for name in names}
            again = [name for name in names if not has_rate(facts[name]) and is_news(facts[name], answered.get(name))]
            answered.update({name: facts[name]["observed_at"] for name in again})
            if again:
                self.probe_now(*again)
            return all(has_rate(facts[name]) for name in names)

        self._send_hint()
        try:
            wait_for("facts of every instance", all_have_rates, 120)
        except AssertionError as error:
            parts = ("observed_at", "host_problem", "server_problem", "server")
            known = [{part: self.facts(name).get(part) for part in parts} for name in names]
            raise AssertionError(f"{error}\n{known}\n{self.tail('worker')}\n{self.tail('beat')}") from None

    def probe_now(self, *names: str) -> None:
        """Make probes due now, of all instances where none is named, and message the worker: no wait for beat."""
        now = self.now().strftime("%Y-%m-%d %H:%M:%S.%f")
        for name in names or [host.name for host in self.lab.hosts]:
            self.write(
                "UPDATE dbops_instancestate SET probe_due_at = ? WHERE probe_due_at > ?"
                " AND instance_id = (SELECT id FROM dbops_instance WHERE name = ?)",
                now,
                now,
                name,
            )
        self._send_hint()

    def _send_hint(self) -> None:
        """Send what beat sends every two seconds."""
        send_probe_hint(self.environment["DBOPS_REDIS_URL"])

    def wait_for_probe(self, what: str, seen: Callable[[], Any], *names: str, seconds: float = 120.0) -> Any:
        """Wait until probes of these instances have seen something. Each look makes one due: the dashboard's own are rare."""

        def look() -> Any:
            if answer := seen():
                return answer
            self.probe_now(*names)
            return None

        return wait_for(what, look, seconds, every_seconds=1)

    def wait_for_facts(self, name: str, seconds: float = 90.0, *, answering: bool | None = None) -> dict[str, Any]:
        """Wait for a probe that begins after now: one that was under way has seen half of what was just done."""
        asked = self.now()
        self.probe_now(name)

        def fresh() -> dict[str, Any] | None:
            facts = self.facts(name)
            if not facts.get("observed_at") or datetime.fromisoformat(facts["observed_at"]) <= asked:
                return None
            return facts if answering is None or (facts["server"] is not None) is answering else None

        return wait_for(f"a fresh probe of {name}", fresh, seconds)

    def rebuild(self, target: str, *words: str, check: bool = True) -> tuple[int, list[dict[str, Any]]]:
        """Run ``manage.py rebuild --follow --json`` to the end. Return its exit status and its lines."""
        try:
            done = self.manage(
                "rebuild", target, "--reason", "a test", "--follow", "--json", *words, check=False, timeout=300
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
        steps = self.rows("SELECT name, state, started_at FROM dbops_rebuildstep WHERE rebuild_id = ?", rebuild["id"])
        events = self.rows(
            "SELECT at, step, text FROM dbops_rebuildevent WHERE rebuild_id = ? ORDER BY id", rebuild["id"]
        )
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
    folder = run_folder.new_folder("stack")
    state = folder / "state"
    state.mkdir(mode=0o700)
    templates = run_folder.shared() / "labs"
    name, network = lab_options.pop("name", "test"), network or free_network()
    lab = Lab(name, folder / "lab", network, size=size, templates=templates, **lab_options)
    stack = Stack(state, lab, database_url)
    with ThreadPoolExecutor(1) as pool:
        # Both mostly wait, so they start at the same time.
        lab_up = pool.submit(lab.up)
        try:
            stack.begin(web=web)
            lab_up.result()
            stack.manage("fleet", "import", str(lab.fleet_yaml))
            with through_gates(stack) if os.environ.get(VARIABLE) else nullcontext():
                stack.wait_for_first_facts()
                yield stack
        finally:
            ran.note(stack)
            stack.stop_all()
            wait([lab_up])
            if lab.folder.is_dir():
                lab.down()
            run_folder.remove(folder)
