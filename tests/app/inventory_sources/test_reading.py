"""Reading sources for real: files, documents and APIs on a web server, with what goes wrong on the way."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dbops.drivers import inventory_sources as driver
from dbops.lifecycle import clock_steps, inventory_sources
from dbops.models import AuditEntry, InventorySource
from dbops.operations.inventory_sources import add_source, request_reading
from dbops.queries.inventory_sources import sources
from dbops.worker import tasks
from dbops.worker.inventory_sources import read_source
from tests.app.audit.receivers import make_certificates
from tests.inventory_servers import Listed, basic, running_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
CSV = b"name,address\na,10.0.0.1\nb,10.0.0.2\n"


@pytest.fixture
def server() -> Iterator[Listed]:
    with running_source() as found:
        yield found


def add(kind: str, address: str, **values: Any) -> InventorySource:
    return add_source(actor="root", name=values.pop("name", "main"), kind=kind, address=address, **values)


def read(source: InventorySource) -> InventorySource:
    InventorySource.objects.filter(pk=source.pk).update(next_read_at=timezone.now())
    assert read_source(source.pk)
    return InventorySource.objects.get(pk=source.pk)


def names(source: InventorySource) -> list[str]:
    return [server["name"] for server in source.listing["servers"]]


def test_document_is_read_and_the_next_reading_planned(server: Listed) -> None:
    server.say("/servers.csv?all=1", CSV)
    found = read(add("csv", f"{server.address}/servers.csv?all=1", every_minutes=5))
    assert (names(found), found.error) == (["a", "b"], {})
    assert timedelta(minutes=4) < found.next_read_at - timezone.now() <= timedelta(minutes=5)
    assert not read_source(found.pk), "a second message finds nothing due"


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ({}, ""),
        ({"user": "dbops", "secret": "s3cret"}, basic("dbops", "s3cret")),
        ({"secret": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_orchestrator_is_asked_with_the_account(server: Listed, login: dict[str, str], sent: str) -> None:
    server.say("/prefix/api/all-instances", [{"Key": {"Hostname": "db1", "Port": 3306}}])
    assert names(read(add("orchestrator", f"{server.address}/prefix/", **login))) == ["db1"]
    assert server.asked == [("/prefix/api/all-instances", sent)]


def test_replication_manager_is_asked_for_each_cluster(server: Listed) -> None:
    server.say_replication_manager(shop=[{"host": "a", "port": "1"}], blog=[{"host": "b", "port": "2"}])
    source = add("replication-manager", server.address, user="repman", secret="s3cret")
    assert names(read(source)) == ["a", "b"]
    assert {authorization for _, authorization in server.asked} == {"Bearer jwt"}
    server.login = ("repman", "changed")
    failed = read(source)
    assert (failed.error["code"], names(failed)) == ("inventory_source.rejected", ["a", "b"])


def test_https_checks_the_certificate(tmp_path: Path) -> None:
    ca = make_certificates(tmp_path)
    with running_source(tmp_path) as server:
        server.say("/", CSV)
        good = add("csv", server.address, name="good", ca=ca, secret="t0ken")
        unknown = add("csv", server.address, name="unknown", secret="t0ken")
        assert names(read(good)) == ["a", "b"]
        asked = len(server.asked)
        assert read(unknown).error["code"] == "inventory_source.certificate"
        assert len(server.asked) == asked, "the token was not sent"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (500, b"", "rejected"),
        (301, b"", "rejected"),
        (204, b"", "rejected"),
        (200, b"<html>", "unreadable"),
        (200, b"\xff\xfe", "unreadable"),
        (200, b"name,address\n", "unreadable"),
    ],
)
def test_failed_reading_keeps_the_last_listing(server: Listed, status: int, body: bytes, code: str) -> None:
    server.say("/", CSV)
    source = read(add("csv", server.address))
    server.say("/", body, status)
    failed = read(source)
    assert (failed.error["code"], failed.read_at) == (f"inventory_source.{code}", source.read_at)
    assert (names(failed), sources()[0].state) == (["a", "b"], "failing")
    assert "/elsewhere" not in [path for path, _ in server.asked]
    server.say("/", CSV)
    assert read(source).error == {}


def test_answer_that_ends_early_is_no_answer(server: Listed) -> None:
    server.say("/", CSV)
    server.cut = len(b"b,10.0.0.2\n")
    assert read(add("csv", server.address)).error["code"] == "inventory_source.unreachable"


def test_endless_and_slow_answers_end_in_time(server: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MOST_BYTES", 1000)
    server.say("/", CSV + b"#" * 1000)
    source = add("csv", server.address)
    assert read(source).error["code"] == "inventory_source.unreadable"
    monkeypatch.setattr(driver, "TOTAL_SECONDS", 1)
    server.say("/", CSV * 20)
    server.drip_seconds = 0.02
    began = time.monotonic()
    assert read(source).error["code"] == "inventory_source.unreachable"
    assert time.monotonic() - began < 8


def test_source_that_is_away(server: Listed) -> None:
    failed = read(add("csv", "http://127.0.0.1:1/"))
    assert failed.error["code"] == "inventory_source.unreachable"


def test_files_are_read_in_their_directory_alone(tmp_path: Path, settings: Any) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "list.csv").write_bytes(CSV)
    (tmp_path / "secret").write_bytes(CSV)
    (folder / "link.csv").symlink_to(tmp_path / "secret")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    good = add("csv", "file:list.csv", name="good")
    assert read(good).error["code"] == "inventory_source.file", "no directory is set"
    settings.INVENTORY_DIR = str(folder)
    assert names(read(good)) == ["a", "b"]
    for name in ("link.csv", "missing", "folder", "pipe"):
        assert read(add("csv", f"file:{name}", name=name)).error["code"] == "inventory_source.file", name


def test_dead_worker_delays_a_source_by_one_period(server: Listed) -> None:
    server.say("/", CSV)
    source = add("csv", server.address)
    claimed = inventory_sources.claim(source.pk)
    assert claimed
    assert not read_source(source.pk)
    assert names(read(source)) == ["a", "b"]
    InventorySource.objects.all().delete()
    inventory_sources.mark_failed(claimed, driver._unreadable("late"))
    assert not InventorySource.objects.exists()


def test_reconcile_sends_due_sources_and_clock_set_back_delays_none(
    server: Listed, sent: list[tuple[Any, ...]]
) -> None:
    source = add("csv", server.address)
    tasks.reconcile()
    assert sent == [("read_inventory_source", source.pk)]
    now = timezone.now()
    InventorySource.objects.update(next_read_at=now + timedelta(days=30))
    sent.clear()
    tasks.reconcile()
    assert sent == []
    clock_steps.bring_back(now)
    tasks.reconcile()
    assert sent == [("read_inventory_source", source.pk)]


def test_reading_on_request(server: Listed) -> None:
    server.say("/", CSV)
    source = read(add("csv", server.address))
    request_reading(actor="olga", name="main")
    assert read_source(source.pk)
    assert AuditEntry.objects.get(action="inventory_source.read_requested").actor == "olga"
