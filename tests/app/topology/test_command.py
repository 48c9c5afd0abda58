"""``manage.py discover``: what it asks for, and how it ends."""

import io
import sys

import pytest
from django.core.management import CommandError, call_command

from dbops.management.commands.discover import _split
from dbops.models import Discovery
from dbops.worker import tasks
from tests.app.factories import make_cluster

pytestmark = pytest.mark.django_db(transaction=True)


def discover(*words: str, stdin: str = "", monkeypatch: pytest.MonkeyPatch) -> CommandError:
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with pytest.raises(CommandError) as error:
        call_command("discover", *words, stdout=io.StringIO())
    return error.value


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("db.example", "db.example", 3306),
        ("db.example:3307", "db.example", 3307),
        ("192.0.2.1:3307", "192.0.2.1", 3307),
        ("fe80::1", "fe80::1", 3306),
        ("[fe80::1]:3307", "fe80::1", 3307),
        ("[fe80::1]", "fe80::1", 3306),
    ],
)
def test_discover_accepts_an_address_with_port(text: str, address: str, port: int) -> None:
    assert _split(text) == (address, port)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("db:port", "--cluster-accounts", "shop"), "'port'"),
        (("db", "--cluster-accounts", "nothing"), "'nothing'"),
        (("db", "--cluster-accounts", "shop"), "[discovery.invalid]"),
        (("db", "--user", "dbops"), "--password-stdin"),
        (("-", "--user", "dbops", "--password-stdin"), "[discovery.invalid]"),
    ],
)
def test_discover_refuses_wrong_arguments_with_status_two(
    words: tuple[str, ...], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cluster()
    error = discover(*words, monkeypatch=monkeypatch)
    assert names in str(error)
    assert not Discovery.objects.exists()
    assert error.returncode == 2


def test_discover_ends_with_status_one_when_no_worker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    words = ("127.0.0.1:1", "--user", "dbops", "--password-stdin", "--wait-seconds", "0.5")
    error = discover(*words, stdin="secret\n", monkeypatch=monkeypatch)
    assert error.returncode == 1
    row = Discovery.objects.get()
    assert row.status == "queued"
    assert f"{row.pk}" in str(error)


def test_discover_ends_with_status_one_when_no_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(task: str, *ids: int) -> None:
        getattr(tasks, task)(*ids)

    monkeypatch.setattr("dbops.messaging.wakeups.publish", at_once)
    words = ("127.0.0.1:1", "--user", "dbops", "--password-stdin")
    error = discover(*words, stdin="secret\n", monkeypatch=monkeypatch)
    assert error.returncode == 1
    row = Discovery.objects.get()
    assert row.status == "done"
    assert [node["problem"]["code"] for node in row.result["nodes"]] == ["mysql.unreachable"]
