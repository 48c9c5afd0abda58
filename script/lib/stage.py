"""Start and stop the parts of a demonstration: lab, Redis and dbops's processes, with a shared environment."""

import json
import os
import re
import secrets
import shlex
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from script.lib import supervisor
from script.lib.supervisor import Failed, Process, StopFlag

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "var" / "demo"
COMMANDS_LOG = FOLDER / "log" / "commands.log"
LAB_MARK = FOLDER / "lab-started-by-demo"
PYTHON = str(ROOT / ".venv" / "bin" / "python")
LAB_NAME = "demo"
DEFAULT_SIZE = "256M"
WEB_PORT, REDIS_PORT = 8000, 6390
STOP_SECONDS = {"worker": 45.0, "web": 15.0, "beat": 15.0, "redis": 15.0}
PEOPLE = {
    "operator": ("--group", "operator"),
    "viewer": ("--group", "viewer"),
    "superuser": ("--group", "operator", "--superuser"),
}
SAMPLE_FOLDER = FOLDER / "sample"


def is_marked(mark: Path) -> bool:
    """Whether a demonstration since this machine's boot started the lab and did not stop it."""
    return mark.exists() and mark.read_text() == supervisor.boot_id()


def read_settings(file: str) -> dict[str, str]:
    """Return the settings of a file: lines of ``NAME=VALUE``. Raises ``Failed`` for another line, or if it cannot be read."""
    try:
        lines = [line.strip() for line in Path(file).read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise Failed(f"--settings {file}: {error}") from None
    wanted = [line for line in lines if line and not line.startswith("#")]
    for line in wanted:
        if not re.match(r"DBOPS_[A-Z0-9_]+=", line):
            raise Failed(f"--settings {file}: {line.partition('=')[0]} is not a setting of dbops")
    return dict(line.split("=", 1) for line in wanted)


class Stage:
    """Start and stop everything; restore the earlier state of the lab at the end."""

    def __init__(
        self,
        stop: StopFlag,
        say: Callable[[str], None],
        web_port: int | None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.stop, self.say = stop, say
        self.processes: list[Process] = []
        self.durations: list[tuple[str, float]] = []
        self.lab_is_ours = self.load_is_ours = False
        self.web_port = web_port or supervisor.free_port(WEB_PORT)
        self.redis_port = supervisor.free_port(REDIS_PORT)
        self.sample_port = 0
        #: of a person; the sample does not get them
        self.settings = settings
        own = {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DBOPS_STATE_DIR": str(FOLDER),
            "DBOPS_WEB_PORT": str(self.web_port),
            "DBOPS_REDIS_PORT": str(self.redis_port),
            "DBOPS_REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "DBOPS_ALLOWED_HOSTS": "localhost,127.0.0.1",
            "DBOPS_PROBE_INTERVAL_SECONDS": "5",
            "DBOPS_VERIFY_STEADY_SECONDS": "2",  # no user reads from these servers
        }
        if taken := sorted(own.keys() & settings.keys()):
            raise Failed(f"the demonstration itself sets {', '.join(taken)}")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("DBOPS_")}
        self.environment = {**inherited, **settings, **own}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.web_port}/"

    @property
    def command_line(self) -> Path:
        """The program that is ``manage.py`` with the demonstration's settings."""
        return Path(self.environment["DBOPS_STATE_DIR"]) / "dbops"

    def write_command_line(self) -> None:
        """Write that program. It is for its owner alone, as settings may have secrets."""
        names = [name for name in self.environment if name.startswith(("DBOPS_", "PYTHONPATH"))]
        lines = [f"export {name}={shlex.quote(self.environment[name])}" for name in names]
        run = shlex.join([PYTHON, str(ROOT / "manage.py")])
        self.command_line.touch(0o700)
        self.command_line.write_text("\n".join(["#!/bin/sh", *lines, f'exec {run} "$@"', ""]))

    @property
    def sample_address(self) -> str:
        return f"http://127.0.0.1:{self.sample_port}/"

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print how long a part took."""
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        self.durations.append((title, seconds))
        self.say(f"{seconds:7.1f} s  {title}")

    def command(
        self, *words: str, input_text: str = "", environment: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, str]:
        """Run one of the project's commands; show its standard error only on failure."""
        environment = environment or self.environment
        COMMANDS_LOG.parent.mkdir(parents=True, exist_ok=True)
        with COMMANDS_LOG.open("wb") as log:
            try:
                return supervisor.run(words, environment, self.stop, input_text=input_text, log=log, **options)
            except Failed as error:
                raise Failed(f"{error}:\n{supervisor.tail(COMMANDS_LOG)}") from None

    def manage(self, *words: str, **options: Any) -> tuple[int, str]:
        return self.command(PYTHON, "manage.py", *words, **options)

    def lab(self, verb: str, *words: str, **options: Any) -> tuple[int, str]:
        return self.command(PYTHON, "-m", "lab", verb, "--name", LAB_NAME, *words, **options)

    # ---- up ----------------------------------------------------------------------------------------------------------

    def start_lab(self, size: str | None, *, fresh: bool) -> dict[str, Any]:
        """Build the lab or start the existing one; return the output of ``lab up --json``."""
        before = self.lab_status()
        runs = any(host["sshd_pid"] or host["server_pid"] for host in before.get("hosts", []))
        self.lab_is_ours = not runs or is_marked(LAB_MARK)
        if fresh and before:
            if not self.lab_is_ours:
                raise Failed("The lab already runs. Run script/lab destroy, or omit --fresh.")
            self.lab("destroy")
            before = {}
        wanted = size or (None if before else DEFAULT_SIZE)
        if self.lab_is_ours:
            LAB_MARK.write_text(supervisor.boot_id())
        try:
            _, output = self.lab("up", "--json", *(["--size", wanted] if wanted else []))
        except Failed as error:
            if "was built with" in str(error):
                raise Failed(
                    f"{error}\nWith --fresh, script/demo removes that lab and builds the requested one."
                ) from None
            raise
        up: dict[str, Any] = json.loads(output)
        return up

    def lab_status(self) -> dict[str, Any]:
        """Return the lab's status, ``{}`` if there is no lab."""
        status, output = self.lab("status", "--json", allowed=(0, 1))
        known: dict[str, Any] = json.loads(output) if status == 0 else {}
        return known

    def start_load(self) -> None:
        if self.lab_status().get("load_pid") is None:
            self.lab("load", "start")
            self.load_is_ours = True

    def start_processes(self, *names: str) -> None:
        for name in names:
            process = Process(name, [str(ROOT / "script" / "run"), name], self.environment, FOLDER)
            self.processes.append(process)
            process.start()

    def wait_for_redis(self) -> None:
        supervisor.wait_until(self._redis_answers, "Redis", 20, self.processes, self.stop)

    def wait_for_web(self) -> None:
        """Wait until each printed address answers."""
        found = [(self.address, "the web process")]
        if self.sample_port:
            found.append((self.sample_address, "the sample's web process"))
        for address, what in found:
            answers = partial(self._web_answers, address)
            supervisor.wait_until(answers, f"the first answer of {what}", 60, self.processes, self.stop)

    def _redis_answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.redis_port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    @staticmethod
    def _web_answers(address: str) -> bool:
        try:
            with urllib.request.urlopen(address + "healthz/", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def prepare_database(self, fleet_file: str) -> None:
        self.command(str(ROOT / "script" / "run"), "migrate")
        self.manage("fleet", "import", fleet_file)

    def make_people(self) -> dict[str, str]:
        """Create the accounts, with passwords kept between starts; return them."""
        file = FOLDER / "login.txt"
        with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+") as lines:
            lines.seek(0)
            people = dict(line.split() for line in lines)
            new = {name: secrets.token_urlsafe(12) for name in PEOPLE if name not in people}
            lines.writelines(f"{name} {password}\n" for name, password in new.items())
        people |= new
        self._make_accounts(people, self.environment)
        return people

    def _make_accounts(self, people: dict[str, str], environment: dict[str, str]) -> None:
        for name, password in people.items():
            words = ("account", "create", name, *PEOPLE[name], "--password-stdin")
            self.manage(*words, input_text=password + "\n", environment=environment)

    def start_sample(self, people: dict[str, str]) -> None:
        """Refill the sample's database, so that its history ends now, and start its web process.

        Args:
            people: the demonstration's accounts; they can log in to the sample too.
        """
        for file in SAMPLE_FOLDER.glob("dbops.sqlite3*"):
            file.unlink()
        self.sample_port = supervisor.free_port(self.web_port + 1)
        environment = {key: value for key, value in self.environment.items() if key not in self.settings} | {
            "DBOPS_STATE_DIR": str(SAMPLE_FOLDER),
            "DBOPS_WEB_PORT": str(self.sample_port),
            "DBOPS_SAMPLE": "1",
        }
        self.command(str(ROOT / "script" / "run"), "migrate", environment=environment)
        self.manage("sample", environment=environment)
        self._make_accounts(people, environment)
        process = Process("sample", [str(ROOT / "script" / "run"), "web"], environment, FOLDER)
        self.processes.append(process)
        process.start()
        self.environment["DBOPS_SAMPLE_URL"] = self.sample_address

    def keep_running(self) -> None:
        """Start each process again that ended, and say so.

        Raises:
            Failed: A process ended soon after its start.
            Stopped: The user wants to stop.
        """
        self.stop.check()
        for process in self.processes:
            if process.start_again_if_ended():
                self.say(f"{process.name} has ended and was started again.")

    def check(self) -> None:
        """Raise ``Failed`` if a process exited, ``Stopped`` if the user wants to stop."""
        self.stop.check()
        for process in self.processes:
            process.check()

    # ---- down --------------------------------------------------------------------------------------------------------

    def end(self, *, keep_lab: bool = False) -> None:
        """Stop everything in reverse order. Print errors and continue."""
        self.stop.begin_ending()
        for process in reversed(self.processes):
            self._attempt(process.name, partial(process.stop, STOP_SECONDS.get(process.name, 15.0)))
        self.processes.clear()
        if self.lab_is_ours and not keep_lab:
            self._attempt("the lab", lambda: self.lab("down"))
            LAB_MARK.unlink(missing_ok=True)
        elif self.load_is_ours and not keep_lab:
            self._attempt("the write load", lambda: self.lab("load", "stop"))

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except (Failed, OSError) as error:
            print(f"Stopping {what}: {error}", file=sys.stderr)
