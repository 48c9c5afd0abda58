"""A process that has the product's modules loaded, and forks for each command: what reading them costs is paid once.

``manage.py`` takes two seconds of a processor to read its modules, and the tests run it hundreds of times. A fork of this process
runs the same words with the same environment, standard streams and exit status; nothing of one command is left for the next.
The dashboard's processes can be forks, too, each with a session of its own.
"""

import array
import atexit
import gc
import importlib
import os
import re
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

ROOT = Path(__file__).parents[1]
MANAGE, CELERY, WEB = "manage", "celery", "uvicorn"
DAEMON_MODULES = (
    *("celery.bin.celery", "celery.apps.worker", "celery.apps.beat", "celery.concurrency.prefork"),
    *("kombu.transport.redis", "dbops.worker.tasks"),
    *("uvicorn.main", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
)
#: How `script/run` begins a process, by its kind.
COMMANDS = {"worker": "celery -A dbops worker", "beat": "celery -A dbops beat", "web": "uvicorn dbops.asgi:application"}
Streams = tuple[int, int, int]


class Forked:
    """One command of a loaded process. It is that process's child: its end is reported over the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._answers = connection.makefile("r")
        self._connection = connection
        self.pid = int(self._answers.readline())
        self._status: int | None = None

    def send_signal(self, number: int) -> None:
        if self._status is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it; one that has ended already has nothing to end."""
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass

    def poll(self) -> int | None:
        """Return its exit status, ``None`` while it runs."""
        if self._status is None and not select.select([self._connection], [], [], 0)[0]:
            return None
        return self.wait(10)

    def wait(self, timeout_seconds: float) -> int:
        """Return its exit status as ``subprocess`` does; raise ``TimeoutError`` when it has not ended by then."""
        if self._status is None:
            self._connection.settimeout(timeout_seconds)
            self._status = int(self._answers.readline() or -signal.SIGKILL)  # the loaded process ends, and all with it
            self.close()
        return self._status

    def close(self) -> None:
        """Ask nothing more of it: how it ends is not learned any more."""
        self._answers.close()
        self._connection.close()


class Loaded:
    """The loaded process, for one environment: settings are read when modules are. ``daemons``: the modules of Celery and
    of the web server are loaded, too."""

    def __init__(self, environment: Mapping[str, str], log: Path, *, daemons: bool = False) -> None:
        self.environment = dict(environment)
        self._address = f"\0dbops-tests-{uuid.uuid4().hex}"
        self.log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.loaded", self._address[1:], *(["daemons"] if daemons else [])],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise AssertionError(f"the product's modules were not loaded:\n{log.read_text()[-4000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)
        self.log.close()

    def start(self, words: tuple[str, ...], streams: Streams) -> Forked:
        """Begin ``manage``, ``celery`` or ``uvicorn`` with its words, or a module by its name, with these standard streams."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self._address)
        connection.sendmsg(
            ["\0".join(words).encode() + b"\n"],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))],
        )
        return Forked(connection)

    def run(self, *words: str, stdin: str = "", timeout: float = 300) -> "subprocess.CompletedProcess[str]":
        """Do what ``subprocess.run`` does with captured output."""
        with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            given.write(stdin)
            given.seek(0)
            forked = self.start(words, (given.fileno(), out.fileno(), errors.fileno()))
            try:
                status = forked.wait(timeout)
            except TimeoutError:
                forked.kill()
                forked.close()
                raise subprocess.TimeoutExpired(words, timeout) from None
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(words, status, out.read(), errors.read())


def daemon_words(kind: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with which ``script/run`` begins a process of this kind."""
    lines = (ROOT / "script" / "run").read_text()
    command = re.search(rf"exec ({re.escape(COMMANDS[kind])} .*?[^\\])\n", lines, re.S)
    assert command, f"script/run begins no {kind}"
    expanded = ["sh", "-c", f"state=$DBOPS_STATE_DIR; printf '%s\\0' {command[1]}"]
    done = subprocess.run(expanded, env=dict(environment), check=True, capture_output=True, text=True)
    return tuple(done.stdout.split("\0")[:-1])


def load(*, with_daemons: bool = False) -> None:
    """Read whatever a command may need; nothing here opens a connection or starts a thread, or a fork would inherit it."""
    gc.disable()  # it would take a quarter of the time
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
    import django
    from django.core.checks import run_checks
    from django.core.management import get_commands, load_command_class

    django.setup()
    import dbops.urls  # noqa: F401  the checks before a command read it
    from tests.databases import backup_deeds, deeds  # noqa: F401

    for name, app in get_commands().items():
        if app == "dbops":
            load_command_class(app, name)
    for name in DAEMON_MODULES if with_daemons else ():
        importlib.import_module(name)
    run_checks()  # each command does, and what it reads for it is then there
    # What is there now is not looked at by the forks' garbage collectors, so their pages stay shared.
    gc.collect()
    gc.freeze()
    gc.enable()


def _become(words: list[str], streams: list[int]) -> None:
    for wanted, given in enumerate(streams):
        os.dup2(given, wanted)
        os.close(given)
    if words[0] == MANAGE:
        from django.core.management import execute_from_command_line

        sys.argv = ["manage.py", *words[1:]]
        execute_from_command_line(sys.argv)
    else:
        if words[0] in (CELERY, WEB):  # as `script/run` begins it in a session of its own
            os.setsid()
            os.umask(0o077)
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def _leave(code: int | str | None) -> NoReturn:
    """End as the interpreter does, but do not take the loaded modules apart: that takes longer than most commands."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if isinstance(code, str) else code or 0)


class Server:
    """The loaded process's own side: one thread, which forks, and tells how what it forked has ended."""

    def __init__(self, address: str) -> None:
        self._waiting = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{address}")
        self._listener.listen(64)
        self._waiting.register(self._listener, selectors.EVENT_READ)
        self._waiting.register(0, selectors.EVENT_READ)  # its end is the end of the tests
        self._children: dict[int, tuple[int, socket.socket]] = {}

    def serve(self) -> tuple[list[str], list[int]] | None:
        """Return in each fork, with what it has to do; in the loaded process ``None``, when the tests have ended."""
        while True:
            for key, _ in self._waiting.select():
                if key.fileobj == 0:
                    self._end_all()
                    return None
                if key.fileobj is self._listener:
                    if order := self._accept():
                        return order
                else:
                    self._report_end(key.fd)

    def _accept(self) -> tuple[list[str], list[int]] | None:
        connection, _ = self._listener.accept()
        received, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        while not received.endswith(b"\n"):
            received += connection.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            self._forget(connection)
            return received[:-1].decode().split("\0"), list(streams)
        for stream in streams:
            os.close(stream)
        connection.sendall(f"{pid}\n".encode())
        end = os.pidfd_open(pid)
        self._children[end] = (pid, connection)
        self._waiting.register(end, selectors.EVENT_READ)
        return None

    def _forget(self, connection: socket.socket) -> None:
        self._waiting.close()
        self._listener.close()
        connection.close()
        for end, (_, other) in self._children.items():
            os.close(end)
            other.close()

    def _report_end(self, end: int) -> None:
        self._waiting.unregister(end)
        os.close(end)
        pid, connection = self._children.pop(end)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with connection:
            try:
                connection.sendall(f"{status}\n".encode())
            except BrokenPipeError:
                pass  # the client has gone

    def _end_all(self) -> None:
        for pid, _ in self._children.values():
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    load(with_daemons="daemons" in sys.argv[2:])
    server = Server(sys.argv[1])
    print("ready", flush=True)
    if order := server.serve():
        try:
            _become(*order)
        except SystemExit as ended:
            _leave(ended.code)
    _leave(0)
