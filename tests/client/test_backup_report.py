"""dbops-backup-report with every shell of this machine: the command is as if it were called directly, whatever becomes of the reports."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CLIENT = Path(__file__).parents[2] / "static" / "client" / "dbops-backup-report"
SHELLS = [words for words in (["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(words[0])]
TOKEN = "a-token_of-43-characters-and-no-shell-wor"


class Dashboard(ThreadingHTTPServer):
    """Record each request, and answer as the test sets."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, dict[str, Any]]] = []
        self.status = 200
        self.answers: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def kinds(self) -> list[str]:
        return [path.rpartition("/")[2] for _, path, _ in self.heard]

    def said(self, kind: str) -> dict[str, Any]:
        return next(body for _, path, body in self.heard if path.endswith(kind))


class Handler(BaseHTTPRequestHandler):
    server: Dashboard

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.heard.append((self.headers["Authorization"], self.path, json.loads(body or b"{}")))
        self.send_response(self.server.status)
        self.end_headers()
        if "may-start" in self.path:
            answer = self.server.answers.pop(0) if self.server.answers else "true"
            self.wfile.write(f'{{"may_start": {answer}}}'.encode())

    do_POST = do_GET

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    server = Dashboard()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


def words_for(shell: list[str], url: str, token_file: Path, *words: str) -> list[str]:
    options = ["--url", url, f"--token-file={token_file}", "--instance", "backup-1"]
    return [*shell, str(CLIENT), *options, *words]


def as_in_a_terminal() -> None:
    """Tests in the background, or behind ``nohup``, run with ignored signals, and so do their children."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def run(*arguments: Any, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words_for(*arguments), input=stdin, capture_output=True, timeout=60, check=False, **options)


def test_client_passes_input_output_and_status(shell: list[str], dashboard: Dashboard, token_file: Path) -> None:
    data = os.urandom(300_000)
    done = run(shell, dashboard.url, token_file, "--", "sh", "-c", "cat; echo 'an error' >&2; exit 3", stdin=data)
    assert (done.returncode, done.stdout, done.stderr) == (3, data, b"an error\n")
    ended = dashboard.said("end")
    assert (ended["exit_status"], ended["instance"], ended["command"]) == (3, "backup-1", "sh")
    assert {token for token, _, _ in dashboard.heard} == {f"Bearer {TOKEN}"}
    assert len({path.split("/")[4] for _, path, _ in dashboard.heard}) == 1


def test_client_passes_arguments_unchanged(
    shell: list[str], dashboard: Dashboard, token_file: Path, tmp_path: Path
) -> None:
    words = ["a b", "", "$(id)", "*", "'\"", "-n", "--url", "x\ny", "ü"]
    file = tmp_path / 'odd " \\ name\n'
    file.write_bytes(b"x" * 12345)
    done = run(shell, dashboard.url, token_file, "--file", str(file), "--", "printf", "%s\\0", *words)
    assert done.stdout == "".join(f"{word}\0" for word in words).encode()
    assert dashboard.said("end")["bytes"] == 12345
    assert 'odd " \\ name' in dashboard.said("end")["path"]


def test_client_reports_start_and_size(
    shell: list[str], dashboard: Dashboard, token_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"x" * 77)
    options = {"env": {**os.environ, "DBOPS_BEAT_SECONDS": "1"}}
    run(shell, dashboard.url, token_file, "--file", str(file), "--", "sleep", "2.6", **options)
    kinds = dashboard.kinds()
    assert (kinds[0], kinds[-1]) == ("start", "end")
    assert kinds.count("heartbeat") in (1, 2)
    assert dashboard.said("heartbeat")["bytes"] == 77
    assert dashboard.said("end")["started_seconds_ago"] in (2, 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_client_forwards_signals(
    shell: list[str], dashboard: Dashboard, token_file: Path, number: signal.Signals
) -> None:
    script = "trap 'echo got; exit 9' TERM INT HUP; echo ready; while :; do sleep 0.05; done"
    words = words_for(shell, dashboard.url, token_file, "--", "sh", "-c", script)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=as_in_a_terminal
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert (process.stdout.read(), process.wait(60)) == (b"got\n", 9)
    assert dashboard.said("end")["exit_status"] == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_client_ends_with_a_command_killed_by_a_signal(
    shell: list[str], dashboard: Dashboard, token_file: Path, number: signal.Signals
) -> None:
    words = words_for(shell, dashboard.url, token_file, "--", "sleep", "600")
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=as_in_a_terminal) as process:
        deadline = time.monotonic() + 20
        while "start" not in dashboard.kinds():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == -number
    pid = dashboard.said("start")["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert dashboard.said("end")["exit_status"] == 128 + number


@pytest.mark.parametrize("away", ["refuses", "never answers", "fails", "unknown token"])
def test_client_runs_the_backup_without_the_dashboard(
    shell: list[str], dashboard: Dashboard, token_file: Path, away: str, record_property: Any
) -> None:
    dashboard.status = {"fails": 500, "unknown token": 401}.get(away, 200)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        if away == "never answers":
            deaf.listen()
        url = dashboard.url if away in ("fails", "unknown token") else f"http://127.0.0.1:{deaf.getsockname()[1]}"
        before = time.monotonic()
        done = run(
            shell,
            url,
            token_file,
            "--wait",
            "600" if away != "never answers" else "6",
            "--",
            "sh",
            "-c",
            "cat; exit 5",
            stdin=b"in",
        )
        took = time.monotonic() - before
    print(f"{' '.join(shell)}: dashboard {away}: {took:.2f} s")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"in", b"")
    assert took < {"refuses": 20, "fails": 20}.get(away, 16)


def test_client_leaves_nothing_open(shell: list[str], token_file: Path, tmp_path: Path) -> None:
    """Background reports must not hold the caller's pipe or lock: `run` waits for the end of both outputs."""
    with socket.socket() as deaf, (tmp_path / "lock").open("w") as lock:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        before = time.monotonic()
        with descriptor_9(lock.fileno()):
            done = run(shell, f"http://127.0.0.1:{deaf.getsockname()[1]}", token_file, "--", "true", pass_fds=[9])
        assert done.returncode == 0
        assert time.monotonic() - before < 30
        assert subprocess.run(["flock", "-n", tmp_path / "lock", "true"], check=False).returncode == 0
        holders = subprocess.run(
            ["sh", "-c", f"ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c '{tmp_path}/lock'"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert holders.stdout.strip() == "1", "only this test itself"


@contextmanager
def descriptor_9(descriptor: int) -> Iterator[None]:
    """Make it number 9, as ``exec 9>lock`` in a cron job does. Whatever has that number here gets it back."""
    try:
        before = os.dup(9)
    except OSError:
        before = None
    os.dup2(descriptor, 9)
    try:
        yield
    finally:
        os.close(9)
        if before is not None:
            os.dup2(before, 9, inheritable=False)
            os.close(before)


def test_client_waits_for_the_source(shell: list[str], dashboard: Dashboard, token_file: Path) -> None:
    dashboard.answers = ["false"]
    before = time.monotonic()
    done = run(shell, dashboard.url, token_file, "--wait", "2", "--", "echo", "made")
    assert (done.stdout, 1 < time.monotonic() - before < 50) == (b"made\n", True)
    assert b"waits for the source" in done.stderr
    assert "may-start?instance=backup-1" in dashboard.heard[0][1]


class TestSettings:
    @pytest.fixture
    def shell(self) -> list[str]:
        return SHELLS[0]

    def test_client_ignores_a_token_file_readable_by_others(
        self, shell: list[str], dashboard: Dashboard, token_file: Path
    ) -> None:
        token_file.chmod(0o640)
        done = run(shell, dashboard.url, token_file, "--", "echo", "made")
        assert (done.returncode, done.stdout) == (0, b"made\n")
        assert b"others may read" in done.stderr
        assert dashboard.heard == []

    def test_client_hides_the_token_from_processes(
        self, shell: list[str], dashboard: Dashboard, token_file: Path, tmp_path: Path
    ) -> None:
        spy = tmp_path / "curl"
        spy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{tmp_path}/argv\nexec {shutil.which("curl")} "$@"\n')
        spy.chmod(0o755)
        environment = {**os.environ, "DBOPS_TOKEN": TOKEN, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        words = [*shell, CLIENT, "--url", dashboard.url, "--instance", "backup-1", "--", "env"]
        done = subprocess.run(words, env=environment, capture_output=True, check=True)
        assert TOKEN.encode() not in done.stdout
        assert "start" in (tmp_path / "argv").read_text()
        assert TOKEN not in (tmp_path / "argv").read_text()
        # the start is sent in the background: a report of an early end may arrive before it
        assert "end" in dashboard.kinds()

    @pytest.mark.parametrize(
        "words", [[], ["--nonsense", "x", "--", "true"], ["--wait", "soon", "--", "true"], ["--file"]]
    )
    def test_client_refuses_bad_options_without_running(
        self, shell: list[str], dashboard: Dashboard, token_file: Path, words: list[str]
    ) -> None:
        done = run(shell, dashboard.url, token_file, *words)
        assert done.returncode == 64
        assert b"nothing was run" in done.stderr
        assert b"dbops-backup-report [OPTION" in done.stderr

    def test_client_runs_the_command_without_curl(self, token_file: Path, tmp_path: Path) -> None:
        for name in ("sh", "ls", "env", "grep", "date", "sed", "true", "echo"):
            (tmp_path / name).symlink_to(str(shutil.which(name)))
        done = run(["/bin/sh"], "http://127.0.0.1:9", token_file, "--", "echo", "made", env={"PATH": str(tmp_path)})
        assert (done.returncode, done.stdout) == (0, b"made\n")
        assert b"no curl" in done.stderr

    def test_client_reports_127_for_a_missing_command(
        self, shell: list[str], dashboard: Dashboard, token_file: Path
    ) -> None:
        assert run(shell, dashboard.url, token_file, "--", "/no/such").returncode == 127
        assert dashboard.said("end")["exit_status"] == 127

    def test_client_prints_help(self, shell: list[str]) -> None:
        done = subprocess.run([*shell, CLIENT, "--help"], capture_output=True, text=True, check=True)
        assert "--token-file FILE" in done.stdout
        assert "set -u" not in done.stdout

    def test_client_measures_a_directory_at_the_end(
        self, shell: list[str], dashboard: Dashboard, token_file: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "full"
        folder.mkdir()
        (folder / "a").write_bytes(b"x" * 100_000)
        run(shell, dashboard.url, token_file, "--file", str(folder), "--", "true")
        assert dashboard.said("end")["bytes"] >= 100_000
