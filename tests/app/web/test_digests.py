"""Readings of top statements: requested, taken once by a worker, shown with reasons, and used by exactly one plan."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from dbops.database import clock
from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.lifecycle.readings import KEPT
from dbops.models import AuditEntry, DigestReading, Host, Instance, LoadTest
from dbops.worker import digest_readings
from tests.app.backup_rows import make_schedule
from tests.app.load_test_rows import make_place, make_source
from tests.app.restore_test_rows import made as backup

from .marks import marks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
PAGE = "/clusters/shop/load-tests/digests/"
READ = f"{PAGE}read/"
NEW = "/clusters/shop/load-tests/new/"
WANTED = {"instance": "backup-1", "schema": "tenant"}
CHOICES = {"host": "tester-1", "profile": "rotating-schemas", "raised": "schemas", "steps": "2, 4", "seconds": "5"}


@pytest.fixture
def source() -> Instance:
    return make_source()


@pytest.fixture
def place(source: Instance) -> Host:
    return make_place()


def found(count: int = 900) -> SourceDigests:
    table = TableColumns("orders", (Column("id", ColumnKind.NUMBER, 2**31 - 1), Column("code", ColumnKind.BYTES, 8)))
    texts = {"SELECT `code` FROM `orders` WHERE `id` = ?": count, "COMMIT <b>": 50, "SELECT ? FROM `absent`": 50}
    digests = tuple(Digest(text, number) for text, number in texts.items())
    return SourceDigests("tenant", 3, "2026-10-01 00:00:00", count + 100, 7, 1024, digests, (table,))


def only() -> DigestReading:
    return DigestReading.objects.get()


def made(source: Instance, digests: SourceDigests | None = None) -> DigestReading:
    return DigestReading.objects.create(
        instance=source,
        schema="tenant",
        requested_by="alice",
        requested_at=clock.now(),
        finished_at=clock.now(),
        status="succeeded",
        result=to_record(digests or found()),
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server answers to readings."""
    answers: list[Any] = [found()]

    def read(row: DigestReading) -> SourceDigests:
        if isinstance(answers[0], BaseException):
            raise answers[0]
        return answers[0]

    monkeypatch.setattr(digest_readings, "_read", read)
    return answers


def test_operator_requests_a_reading_and_keeps_the_choices(
    source: Instance, operator: Client, sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        answer = operator.post(f"{READ}?steps=1,+9", {**WANTED, "threads": "33", "statements": "SELECT 'secret'"})
    row = only()
    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query == {"reading": [str(row.pk)], "steps": ["1, 9"], "threads": ["33"], "schema": ["tenant"]}
    assert (row.instance.name, row.schema, row.status) == ("backup-1", "tenant", "queued")
    assert ("read_digests", row.pk) in sent
    entry = AuditEntry.objects.get(action="digests.requested")
    assert (entry.subject, entry.detail) == ("backup-1", {"reading": row.pk, "schema": "tenant"})


def test_viewer_reads_and_does_not_request(source: Instance, viewer: Client) -> None:
    made(source)
    page = viewer.get(PAGE)
    assert page.status_code == 200
    assert marks(page.content.decode(), "digest") == ["used", "left-out", "left-out"]
    assert "<b>" not in page.content.decode().replace("<body", "")
    assert viewer.post(READ, WANTED).status_code == 403
    assert viewer.get(READ).status_code == 405
    assert DigestReading.objects.count() == 1


@pytest.mark.parametrize("schema", ["", "x" * 65, "a\nb"])
def test_no_name_of_a_schema_is_refused(source: Instance, operator: Client, schema: str) -> None:
    assert operator.post(READ, {**WANTED, "schema": schema}).status_code == 409
    assert not DigestReading.objects.exists()


def test_tidb_node_is_refused_and_not_offered(source: Instance, operator: Client) -> None:
    Instance.objects.filter(pk=source.pk).update(role=Instance.Roles.TIDB)
    assert source not in operator.get(PAGE).context["instances"]
    answer = operator.post(READ, WANTED)
    assert (answer.status_code, answer.context["refused"].code) == (409, "flavor.tidb")
    assert not DigestReading.objects.exists()


def test_second_click_leads_to_the_running_reading(source: Instance, operator: Client) -> None:
    operator.post(READ, WANTED)
    operator.post(READ, {**WANTED, "schema": "other"})
    assert only().schema == "tenant"
    assert AuditEntry.objects.filter(action="digests.requested").count() == 1


def test_instance_of_another_cluster_is_not_found(place: Host, operator: Client) -> None:
    assert operator.post(READ, {**WANTED, "instance": "on-tester-1"}).status_code == 404


def test_redelivered_message_reads_once(source: Instance, operator: Client, server: list[Any]) -> None:
    operator.post(READ, WANTED)
    assert digest_readings.take_reading(only().pk)
    assert not digest_readings.take_reading(only().pk)
    row = only()
    assert (row.status, row.slot) == ("succeeded", None)
    assert len(row.result["digests"]) == 3


def test_failure_has_its_code(source: Instance, operator: Client, server: list[Any]) -> None:
    server[0] = RemoteFailure("digests.off", "Reading", cause="performance_schema is off")
    operator.post(READ, WANTED)
    digest_readings.take_reading(only().pk)
    assert (only().status, only().error["code"], only().slot) == ("failed", "digests.off", None)
    assert operator.get(PAGE).status_code == 200


def test_stopped_worker_leaves_an_end(source: Instance, operator: Client, server: list[Any]) -> None:
    server[0] = SystemExit()
    operator.post(READ, WANTED)
    with pytest.raises(SystemExit):
        digest_readings.take_reading(only().pk)
    assert (only().status, only().slot) == ("unknown", None)


@pytest.mark.parametrize(("status", "column"), [("running", "claimed_at"), ("queued", "requested_at")])
def test_reading_without_a_living_worker_ends(source: Instance, operator: Client, status: str, column: str) -> None:
    operator.post(READ, WANTED)
    assert digest_readings.readings_due(clock.now()) == [only().pk]
    DigestReading.objects.update(status=status, **{column: clock.now() - timedelta(seconds=300)})
    assert digest_readings.readings_due(clock.now()) == []
    assert (only().status, only().error["code"]) == ("unknown", "digests.unknown")


def test_old_readings_are_forgotten(source: Instance, operator: Client, server: list[Any]) -> None:
    for _ in range(KEPT + 3):
        made(source)
    operator.post(READ, WANTED)
    digest_readings.take_reading(DigestReading.objects.first().pk)  # type: ignore[union-attr]
    assert DigestReading.objects.count() == KEPT


# --- in a plan --------------------------------------------------------------------------------------------------------
def plan_page(client: Client, row: DigestReading, **changes: str) -> Any:
    return client.get(NEW, {**CHOICES, "digests": str(row.pk), "schema": "tenant"} | changes)


def test_plan_shows_used_and_left_out_digests(place: Host, source: Instance, viewer: Client) -> None:
    answer = plan_page(viewer, made(source))
    plan = answer.context["plan"]
    assert [(one.count, one.statements) for one in plan.digests.used] == [(900, 10_000)]
    assert len(plan.digests.left_out) == 2
    assert plan.digests.share == pytest.approx(0.9)
    assert "load_test.digests" not in {one.code for one in plan.warnings}
    assert marks(answer.content.decode(), "digest") == ["used", "left-out", "left-out"]
    assert marks(answer.content.decode(), "lost") == ["7"]


def test_small_share_is_a_warning(place: Host, source: Instance, viewer: Client) -> None:
    plan = plan_page(viewer, made(source, found(200))).context["plan"]
    assert "load_test.digests" in {one.code for one in plan.warnings}


def test_fingerprint_covers_the_digests(place: Host, source: Instance, viewer: Client) -> None:
    first, same, other = made(source), made(source), made(source, found(901))
    plans = [plan_page(viewer, row).context["plan"].fingerprint for row in (first, same, other)]
    assert plans[0] == plans[1] != plans[2]


def test_confirmation_runs_exactly_the_shown_digests(place: Host, source: Instance, operator: Client) -> None:
    row, run = made(source), backup(make_schedule(source))
    shown = plan_page(operator, row, backup=str(run.pk)).context
    assert shown["plan"].refusals == ()
    DigestReading.objects.filter(pk=row.pk).update(result=to_record(found(901)))
    given = {"typed_name": "tester-1", "reason": "before the move", "fingerprint": shown["plan"].fingerprint}
    answer = operator.post(shown["url"], given | {"request_key": "one", "shown": shown["shown"], "kept": ""})
    assert (answer.status_code, answer.context["refused"].code) == (409, "load_test.stale")
    assert answer.context["plan"].fingerprint != shown["plan"].fingerprint
    assert not LoadTest.objects.exists()
    DigestReading.objects.filter(pk=row.pk).update(result=to_record(found()))
    operator.post(shown["url"], given | {"request_key": "one", "shown": shown["shown"], "kept": ""})
    kept = from_record(LoadTestRequest, LoadTest.objects.get().request)
    assert kept.workload.digests == found()


def test_reading_that_is_gone_or_of_another_schema_makes_no_plan(place: Host, source: Instance, viewer: Client) -> None:
    row = made(source)
    assert plan_page(viewer, row, schema="other").context["plan"] is None
    row.delete()
    assert plan_page(viewer, row).context["plan"] is None
