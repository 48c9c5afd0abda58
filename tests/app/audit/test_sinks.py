"""Sinks get every entry in order with its hash, whatever happens to the receiver or the worker, and no act waits for them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dbops.audit.log import append, current_head
from dbops.drivers import siem
from dbops.engine.audit.chain import ChainHead, read_link, verify
from dbops.engine.errors import DbopsError
from dbops.lifecycle import audit_sinks
from dbops.models import AuditEntry, AuditSink
from dbops.operations.audit_archive import archive_entries
from dbops.operations.audit_sinks import add_sink, remove_sink, test_sink
from dbops.queries.audit.sinks import sinks
from dbops.worker import audit_sender, tasks
from dbops.worker.audit_sender import send_new

from .receivers import NAME, bad_receiver, make_certificates, running_https, running_rsyslog
from .test_archive import log, needs_triggers_dropped

__all__ = ["log"]
test_sink.__test__ = False  # type: ignore[attr-defined]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
HOSTILE = 'é"] \n<13>1 - - - - - - x\r\0\u2028\\'


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return make_certificates(folder), folder


def write(count: int) -> None:
    for number in range(count):
        append(actor="olga", action="rebuild.requested", subject=f"replica-{number}", reason=HOSTILE)


def add(address: str, name: str = "siem", **values: Any) -> AuditSink:
    return add_sink(actor="root", name=name, address=address, **values)


def send(sink: AuditSink) -> AuditSink:
    send_new(sink.pk, seconds=30)
    return AuditSink.objects.get(pk=sink.pk)


def retry(sink: AuditSink) -> AuditSink:
    AuditSink.objects.filter(pk=sink.pk).update(next_try_at=timezone.now())
    return send(sink)


def assert_chain(entries: list[dict[str, Any]], sink: AuditSink) -> None:
    """Check that the entries are whole, in order and complete, from the first that the sink should get to the head."""
    links = [read_link({name: value for name, value in item.items() if name != "data"}) for item in entries]
    start = ChainHead(links[0].sequence - 1, links[0].previous)
    assert links[0].sequence == AuditEntry.objects.get(action="audit.sink_added", subject=sink.name).sequence
    assert verify(links, current_head(), start=start) == []


@pytest.fixture(params=["tcp", "tls"])
def rsyslog(request: pytest.FixtureRequest, tmp_path: Path, ca: tuple[str, Path]) -> Iterator[Any]:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((ca[1] / name).read_bytes())
    with running_rsyslog(tmp_path, tls=request.param == "tls") as server:
        yield server


def test_rsyslog_gets_all_entries_before_and_after_an_outage(rsyslog: Any, ca: tuple[str, Path]) -> None:
    write(3)
    sink = add(rsyslog.address, ca=ca[0] if rsyslog.tls else "")
    write(450)
    assert send(sink).sent_sequence == current_head().sequence
    rsyslog.stop()
    write(5)
    failed = send(sink)
    assert (failed.error["code"], failed.failures, failed.sent_sequence) == (
        "audit.sink_unreachable",
        1,
        current_head().sequence - 5,
    )
    rsyslog.start()
    assert send_new(sink.pk, seconds=30) == 0  # it waits after a failure
    sent = retry(sink)
    assert (sent.error, sent.failures, sent.sent_sequence) == ({}, 0, current_head().sequence)
    entries = rsyslog.entries(456)
    assert_chain(entries, sink)
    assert all(f'hash="{item["hash"]}"' in item["data"] for item in entries)


def test_https_gets_lists_with_the_token(ca: tuple[str, Path]) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0], token="s3cret-token")
        write(250)
        assert send(sink).sent_sequence == current_head().sequence
    assert_chain(server.entries, sink)
    assert {(path, token) for path, token, _ in server.seen} == {("/in?index=dbops", "Bearer s3cret-token")}
    assert max(len(body) for *_, body in server.seen) <= audit_sender.MOST_ENTRIES


@pytest.mark.parametrize("status", [500, 401, 302, 413])
def test_entries_that_https_rejects_are_sent_later(ca: tuple[str, Path], status: int) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0])
        write(2)
        server.status = status
        failed = send(sink)
        assert (failed.error["code"], len(server.seen)) == ("audit.sink_rejected", 1)
        server.status = 204
        assert retry(sink).error == {}
    assert_chain(server.entries, sink)


def test_a_certificate_of_another_authority_gets_nothing(ca: tuple[str, Path], tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    with running_https(ca[1]) as server:
        unknown, wrong = add(server.address, "unknown", token="x"), add(server.address, "wrong", ca=other)
        name = add(server.address.replace(NAME, "localhost"), "name", ca=ca[0])
        assert {send(sink).error["code"] for sink in (unknown, wrong, name)} == {"audit.sink_certificate"}
        assert server.seen == []


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        ("silent", "syslog+tcp"),
        ("deaf", "syslog+tcp"),
        ("silent", "syslog+tls"),
        ("resets", "syslog+tcp"),
        ("drips", "http"),
    ],
)
def test_a_receiver_that_does_not_finish_is_left_in_time(
    kind: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siem, "DELIVER_SECONDS", 1)
    with bad_receiver(kind) as port:
        sink = add(f"{scheme}://{NAME}:{port}")
        write(200)
        began = time.monotonic()
        failed = send(sink)
    assert (failed.error["code"], failed.sent_sequence, failed.lease_until) == (
        "audit.sink_unreachable",
        sink.sent_sequence,
        None,
    )
    assert time.monotonic() - began < 5


def test_a_worker_that_dies_after_sending_sends_again(ca: tuple[str, Path]) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0])
        write(3)
        dead = audit_sinks.claim(sink.pk)
        assert dead is not None
        audit_sender._deliver(dead, audit_sender._next_batch(dead))
        assert send_new(sink.pk, seconds=5) == 0  # its lease still counts
        assert [*audit_sinks.due(timezone.now())] == []
        AuditSink.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert [*audit_sinks.due(timezone.now())] == [sink]
        assert send_new(sink.pk, seconds=5) == 4
        # the dead one comes back
        assert not audit_sinks.mark_sent(dead, dead.sent_sequence + 1)
        assert not audit_sinks.skip(dead, 1, 2)
        audit_sinks.mark_failed(dead, DbopsError("audit.sink_unreachable", "Late"))
    assert send(sink).error == {}
    hashes = [entry["hash"] for entry in server.entries]
    assert (hashes[:4], len(hashes)) == (hashes[4:], 8)
    assert_chain(server.entries[4:], sink)


@needs_triggers_dropped
def test_archived_entries_are_counted_and_named(ca: tuple[str, Path], tmp_path: Path, log: None) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0], after=1)
        archive_entries(actor="olga", before=timezone.now() - timedelta(days=100), folder=tmp_path)
        sent = send(sink)
    assert (sent.dropped, sent.sent_sequence) == (3, current_head().sequence)
    gap = AuditEntry.objects.get(action="audit.sink_dropped")
    assert gap.detail == {"first": 2, "last": 4, "entries": 3}
    numbers = [item["sequence"] for item in server.entries]
    assert numbers == [*range(5, current_head().sequence + 1)]
    assert gap.hash in {item["hash"] for item in server.entries}


def test_a_sink_that_fails_does_not_stop_the_others(ca: tuple[str, Path]) -> None:
    with running_https(ca[1]) as server:
        lost = add(f"https://{NAME}:1/", "lost")
        good = add(server.address, "good", ca=ca[0])
        due = [*audit_sinks.due(timezone.now())]
        assert due == [good, lost]
        for sink in due:
            tasks.send_audit(sink.pk)
        assert [(one.sink.name, one.waiting, one.state) for one in sinks()] == [
            ("good", 0, "current"),
            ("lost", 2, "failing"),
        ]


def test_a_lost_key_is_an_error_of_its_sink(ca: tuple[str, Path], settings: Any) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0], token="abc")
        settings.ENCRYPTION_KEYS = ["cnNsc2Zqc2xma2pzZGxma2pzZGxmanNkbGZranNkbGY="]
        AuditSink.objects.update(next_try_at=timezone.now())
        send_new(sink.pk, seconds=5)
        assert (AuditSink.objects.defer("token").get().error["code"], server.seen) == ("secret.lost", [])


def test_a_test_is_not_delayed_by_a_failure(ca: tuple[str, Path]) -> None:
    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0])
        server.status = 500
        send(sink)
        server.status = 200
        entry = test_sink(actor="root", name="siem")
        assert not sinks()[0].is_tested
        send(sink)
    assert (server.entries[-1]["hash"], sinks()[0].is_tested) == (entry.hash, True)


def test_a_sink_that_is_removed_while_it_is_served_gets_no_more(
    ca: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver: Callable[..., None] = siem.deliver
    monkeypatch.setattr(audit_sender, "MOST_ENTRIES", 2)

    def deliver_and_remove(*args: Any, **values: Any) -> None:
        deliver(*args, **values)
        remove_sink(actor="root", name="siem")

    with running_https(ca[1]) as server:
        sink = add(server.address, ca=ca[0])
        write(5)
        monkeypatch.setattr(audit_sender, "deliver", deliver_and_remove)
        assert send_new(sink.pk, seconds=5) == 0
    assert len(server.entries) == 2


@pytest.mark.django_db(transaction=True)
def test_no_act_waits_for_a_sink_that_hangs() -> None:
    def seconds() -> float:
        began = time.monotonic()
        write(30)
        return time.monotonic() - began

    def serve(pk: int) -> None:
        with closing(connection):
            send_new(pk, seconds=5)

    seconds()
    without = seconds()
    with bad_receiver("silent") as port:
        sink = add(f"syslog+tcp://{NAME}:{port}")
        worker = threading.Thread(target=serve, args=(sink.pk,))
        worker.start()
        while not AuditSink.objects.exclude(lease_owner="").exists():
            time.sleep(0.01)
        during = seconds()
        assert worker.is_alive()
    worker.join(30)
    assert during < without * 3 + 1


def test_beat_finds_a_sink_that_lacks_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Any] = []
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *words: published.append(words))
    tasks.reconcile()
    sink = add(f"https://{NAME}:1/")
    tasks.reconcile()
    send(sink)
    tasks.reconcile()  # it waits after a failure
    test_sink(actor="root", name="siem")
    tasks.reconcile()
    AuditSink.objects.update(sent_sequence=current_head().sequence)
    tasks.reconcile()
    assert [words for words in published if words != ("reconcile",)] == [("send_audit", sink.pk)] * 2
