"""The transport of hints, on a Redis of its own."""

import asyncio
import base64
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Queue

from dbops.celery import app
from dbops.messaging import broker
from dbops.messaging.updates import STREAM
from dbops.messaging.wakeups import publish
from dbops.web.live import stream
from tests.networks import free_port
from tests.run_folder import new_folder
from tests.stack import ROOT, wait_for

pytestmark = pytest.mark.services


@pytest.fixture
def port() -> Iterator[int]:
    """Run Redis as the product does, and give its port."""
    folder, number = new_folder("redis"), free_port()
    environment = {**os.environ, "DBOPS_REDIS_DIR": str(folder), "DBOPS_REDIS_PORT": str(number)}
    process = subprocess.Popen([ROOT / "script" / "run", "redis"], env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for("Redis", lambda: is_up(number))
        yield number
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        shutil.rmtree(folder)


def is_up(port: int) -> bool:
    try:
        return bool(redis.Redis(port=port).ping())
    except redis.ConnectionError:
        return False


def connection(port: int) -> Connection:
    found: Connection = app.connection_for_read(f"redis://127.0.0.1:{port}/0")
    return found


def take_one(line: Connection) -> Any:
    """Take one hint from the queue without saying that it was taken."""
    taken: list[Any] = []
    hints = Queue("hints", exchange="hints", routing_key="hints")
    with Consumer(line.default_channel, [hints], callbacks=[lambda body, message: taken.append(body)]):
        line.drain_events(timeout=30)
    return taken


def test_closed_channel_sends_nothing_to_redis(port: int) -> None:
    with connection(port) as sender:
        app.send_task("dbops.worker.tasks.drive_rebuild", args=(1,), connection=sender, queue="hints")
    line = connection(port)
    assert take_one(line) == [[[1], {}, {}]]
    line.close()
    # Put back, it would be here again; with a Redis that is gone, putting back is what ended workers.
    assert redis.Redis(port=port).llen("hints") == 0


#: Each ended a worker, or made it deaf, before messages were checked.
POISON = {
    "no JSON": b"\xff{",
    "no mapping": b"[1, 2]",
    "null": b"null",
    "empty": b"{}",
    "deep": b"[" * 100_000,
    "list as headers": json.dumps({"properties": {}, "headers": [], "body": ""}).encode(),
    "marked value": json.dumps({"__type__": "datetime", "__value__": [1]}).encode(),
    "number as properties": json.dumps({"properties": 7, "headers": {"task": "x"}, "body": "x"}).encode(),
}


def changed(raw: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    message = json.loads(raw)
    change(message)
    return json.dumps(message).encode()


def with_body(*parts: Any) -> Callable[[dict[str, Any]], None]:
    def change(message: dict[str, Any]) -> None:
        message["body"] = base64.b64encode(json.dumps(parts).encode()).decode()

    return change


ALTERED: dict[str, Callable[[dict[str, Any]], None]] = {
    "another task": lambda message: message["headers"].update(task="celery.backend_cleanup"),
    "attribute of a task": lambda message: message["headers"].update(task="dbops.worker.tasks.app.control"),
    "list as task": lambda message: message["headers"].update(task=["dbops.worker.tasks.reconcile"]),
    "text as argument": with_body(["1"], {}, {}),
    "truth as argument": with_body([True], {}, {}),
    "endless number": with_body([10**30], {}, {}),
    "named arguments": with_body([1], {"rebuild_id": 1}, {}),
    "no id": lambda message: message["headers"].update(id="x"),
    "mad expiry": lambda message: message["headers"].update(expires=[1]),
    "half base64": lambda message: message.update(body="W10"),
    "body of another kind": lambda message: message.update(body={"a": 1}),
}


@pytest.fixture
def worker(port: int, tmp_path: Path) -> Iterator[Path]:
    """Run a worker as the product does, with a database of its own. Give the database's file."""
    state = tmp_path / "state"
    environment = {
        **{**os.environ, "DBOPS_STATE_DIR": str(state), "DBOPS_WORKER_CONCURRENCY": "1"},
        **{"DBOPS_REDIS_URL": f"redis://127.0.0.1:{port}/0", "DBOPS_DATABASE_URL": f"sqlite:///{state}/db.sqlite3"},
    }
    state.mkdir()
    subprocess.run([ROOT / "script" / "run", "migrate"], env=environment, check=True, capture_output=True)
    process = subprocess.Popen([ROOT / "script" / "run", "worker"], env=environment, start_new_session=True)
    try:
        yield state / "db.sqlite3"
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def dropped(database: Path) -> int:
    with closing(sqlite3.connect(database)) as rows:
        [(number,)] = rows.execute("SELECT COALESCE(SUM(dropped_messages), 0) FROM dbops_processheartbeat")
    return int(number)


def send(port: int, task: str, *numbers: int) -> None:
    with connection(port) as line:
        app.send_task(f"dbops.worker.tasks.{task}", args=numbers, connection=line, queue="ticks")


def a_hint(port: int) -> bytes:
    """Return the raw message of a hint."""
    queue = redis.Redis(port=port)
    with connection(port) as line:
        app.send_task("dbops.worker.tasks.drive_rebuild", args=(1,), connection=line, queue="unread")
    raw = queue.lpop("unread")
    assert isinstance(raw, bytes)
    return raw


def test_worker_drops_and_counts_messages_that_are_no_hints(port: int, worker: Path) -> None:
    queue = redis.Redis(port=port)
    send(port, "reconcile")
    wait_for("the worker's first task", lambda: queue.llen("ticks") == 0 and has_reported(worker), 60)
    altered = [changed(a_hint(port), change) for change in ALTERED.values()]
    for raw in (*POISON.values(), *altered):
        queue.lpush("ticks", raw)
    queue.hset("unacked", "1", b"\xff")
    queue.zadd("unacked_index", {"1": 0})
    ask_workers_to_shut_down(port)
    wait_for("the messages to be read", lambda: queue.llen("ticks") == 0, 30)
    # The first is counted at once, the others with the next that comes ten seconds later.
    wait_for("the count", lambda: dropped(worker) > 0, 20)
    before = dropped(worker)
    send(port, "count_dropped_messages", 100)
    wait_for("the worker to work", lambda: dropped(worker) == before + 100, 20)


def test_flood_of_messages_is_counted_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent, answers = [1000.0], list[tuple[str, int]](), [True, False, True]

    def take(task: str, number: int) -> bool:
        sent.append((task, number))
        return answers.pop(0)

    monkeypatch.setattr(broker, "publish", take)
    monkeypatch.setattr(broker, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    counter = broker.DroppedMessages()
    for passed in (0, 1, 1, broker.REPORT_SECONDS, 1, broker.REPORT_SECONDS):
        clock[0] += passed
        counter.add("ticks", ValueError("no hint"))
    # what Redis did not take is counted with the next report
    assert sent == [("count_dropped_messages", number) for number in (1, 3, 5)]


def ask_workers_to_shut_down(port: int) -> None:
    """Send what shuts down every worker that listens to its remote control."""
    environment = {**os.environ, "DBOPS_REDIS_URL": f"redis://127.0.0.1:{port}/0"}
    command = [sys.executable, "-m", "celery", "-A", "dbops", "control", "--timeout", "1", "shutdown"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "No nodes replied" in done.stderr, done.stdout + done.stderr


def has_reported(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as rows:
        return bool(rows.execute("SELECT 1 FROM dbops_processheartbeat").fetchall())


def test_publish_never_fails_on_what_stands_in_redis(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    redis.Redis(port=port).set("_kombu.binding.ticks", "junk")
    with connection(port) as line:
        monkeypatch.setattr(app, "send_task", partial(app.send_task, connection=line))
        assert not publish("reconcile")


HOSTILE_ENTRIES: tuple[dict[Any, Any], ...] = (
    {"rebuild": "x", "revision": "1"},
    {"rebuild": "1", "revision": "9" * 5000},
    {"other": "1"},
    {b"\xff": b"\xfe"},
)


def test_reader_of_live_events_survives_entries_that_are_none(port: int, settings: Any) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"

    async def watch() -> None:
        hub, queue, watched = stream.Hub(), redis.Redis(port=port), stream.Watched(7)
        hub.watched[7, "en"] = watched
        reader = asyncio.create_task(hub._read())
        await asyncio.wait_for(watched.changed.wait(), 10)  # it reads from now on
        for entry in HOSTILE_ENTRIES:
            queue.xadd(STREAM, entry)
        await asyncio.sleep(stream.REDIS_RETRY_SECONDS + 1)
        watched.changed.clear()
        queue.xadd(STREAM, {"rebuild": 7, "revision": 2})
        await asyncio.wait_for(watched.changed.wait(), 10)
        reader.cancel()

    asyncio.run(watch())


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run Redis with a password that its first start makes. Give the environment of dbops' processes."""
    environment = {
        **{**os.environ, "DBOPS_STATE_DIR": str(tmp_path), "DBOPS_REDIS_PORT": str(number := free_port())},
        **{"DBOPS_REDIS_PASSWORD_FILE": str(tmp_path / "queue"), "DBOPS_REDIS_URL": f"redis://127.0.0.1:{number}/0"},
    }
    process = subprocess.Popen([ROOT / "script" / "run", "redis"], env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for("Redis", lambda: answer_of(number) != "nothing")
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert (tmp_path / "queue").read_bytes().strip() not in command
        yield environment
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def answer_of(port: int, password: str | None = None) -> str:
    return answer_at(f"redis://127.0.0.1:{port}/0", password)


def answer_at(url: str, password: str | None) -> str:
    try:
        return str(redis.Redis.from_url(url, password=password).ping())
    except redis.AuthenticationError:
        return "refused"
    except redis.ConnectionError:
        return "nothing"


def test_redis_asks_for_the_password_that_all_processes_read(guarded: dict[str, str]) -> None:
    port, file = int(guarded["DBOPS_REDIS_PORT"]), Path(guarded["DBOPS_REDIS_PASSWORD_FILE"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert [answer_of(port), answer_of(port, "wrong"), answer_of(port, file.read_text().strip())] == [
        "refused",
        "refused",
        "True",
    ]
    imports = "from dbops.messaging.wakeups import publish; from dbops.web.live.status_bars import redis_problem"
    code = f"{imports}; print(publish('reconcile'), redis_problem() is None)"

    def answers(**changed: str) -> str:
        words = [sys.executable, ROOT / "manage.py", "shell", "--no-imports", "-c", code]
        return subprocess.run(words, env=guarded | changed, capture_output=True, text=True, check=True).stdout.strip()

    assert answers() == "True True"
    assert answers(DBOPS_REDIS_PASSWORD="wrong") == "False False"  # noqa: S106 - of a test
    assert "dbops.E002" not in deploy_problems(guarded)
    assert "dbops.E002" in deploy_problems(guarded | {"DBOPS_REDIS_PASSWORD_FILE": "/nowhere"})


def deploy_problems(environment: dict[str, str]) -> str:
    words = [sys.executable, ROOT / "manage.py", "check", "--deploy"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stderr


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run Redis with TLS and the account of docs/how-to/install.md. Give the environment of dbops' processes."""
    [rule] = [
        line for line in (ROOT / "docs/how-to/install.md").read_text().splitlines() if line.startswith("user dbops ")
    ]
    (tmp_path / "users.acl").write_text(rule.replace("PASSWORD", "few-rights") + "\nuser default off\n")
    key, certificate, number = tmp_path / "key.pem", tmp_path / "cert.pem", free_port()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    tls = ("--tls-port", str(number), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
    command = [
        "redis-server",
        "--port",
        "0",
        *tls,
        "--aclfile",
        tmp_path / "users.acl",
        "--dir",
        tmp_path,
        "--save",
        "",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        query = f"ssl_cert_reqs=required&ssl_ca_certs={certificate}"
        url = f"rediss://dbops@127.0.0.1:{number}/0?{query}"
        environment = {
            "DBOPS_REDIS_URL": url,
            "DBOPS_REDIS_PASSWORD": "few-rights",
            "DBOPS_STATE_DIR": str(tmp_path / "state"),
        }
        wait_for("Redis", lambda: answer_at(url, "few-rights") == "True")
        yield {**os.environ, **environment, "DBOPS_WORKER_CONCURRENCY": "1"}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_worker_works_over_tls_with_an_account_of_few_rights(strict: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([ROOT / "script" / "run", "migrate"], env=strict, check=True, capture_output=True)
    code = (
        "from dbops.messaging.wakeups import publish; print(publish('count_dropped_messages', 7), publish('reconcile'))"
    )
    words = [sys.executable, ROOT / "manage.py", "shell", "--no-imports", "-c", code]
    assert subprocess.run(words, env=strict, capture_output=True, text=True, check=True).stdout.strip() == "True True"
    process = subprocess.Popen([ROOT / "script" / "run", "worker"], env=strict)
    try:
        wait_for("a task to run", lambda: has_reported(tmp_path / "state" / "dbops.sqlite3"), 40)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with pytest.raises(redis.exceptions.NoPermissionError):
        redis.Redis.from_url(strict["DBOPS_REDIS_URL"], password="few-rights").flushall()  # noqa: S106 - of a test
