"""``manage.py discover``: what it asks for, and how it ends."""

import io
import sys
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dbops.management.commands.discover import _split
from dbops.models import Discovery
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
def test_an_address_may_have_a_port(text: str, address: str, port: int) -> None:
    assert _split(text) == (address, port)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("db:port", "--cluster-accounts", "shop"), "is no port"),
        (("db", "--cluster-accounts", "nothing"), "There is no cluster"),
        (("db", "--cluster-accounts", "shop"), "has no dashboard account"),
        (("db", "--user", "dbops"), "--password-stdin together"),
        (("-", "--user", "dbops", "--password-stdin"), "does not begin with a dash"),
    ],
)
def test_what_cannot_be_asked_ends_with_two(words: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cluster()
    error = discover(*words, monkeypatch=monkeypatch)
    assert text in str(error)
    assert not Discovery.objects.exists()
    assert error.returncode == 2


def test_without_a_worker_it_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.worker.tasks._publish", lambda *_: None)
    words = ("127.0.0.1:1", "--user", "dbops", "--password-stdin", "--wait-seconds", "0.5")
    error = discover(*words, stdin="secret\n", monkeypatch=monkeypatch)
    assert "still queued: look whether worker and Redis run" in str(error)


def test_where_nobody_answers_it_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(task: Any, *ids: int) -> None:
        task(*ids)

    monkeypatch.setattr("dbops.worker.tasks._publish", at_once)
    words = ("127.0.0.1:1", "--user", "dbops", "--password-stdin")
    error = discover(*words, stdin="secret\n", monkeypatch=monkeypatch)
    assert (error.returncode, str(error)) == (1, "No server could be read.")
