"""The lineage of an instance: page, card, CSV and JSON."""

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.rebuilds.lineage import DataOrigin
from dbops.engine.states import Status
from dbops.models import Rebuild, RebuildStep
from dbops.queries.rebuilds.lineage import lineage_of
from tests.app.factories import make_rebuild, make_trio

from .marks import marks, part

pytestmark = pytest.mark.django_db
ADDRESS = "/instances/replica-1/lineage/"


def copied(target: Any, source: Any, days_ago: float, **values: Any) -> Rebuild:
    start = timezone.now() - timedelta(days=days_ago)
    given = {
        "status": Status.SUCCEEDED,
        "requested_at": start - timedelta(minutes=1),
        "started_at": start,
        "finished_at": start + timedelta(hours=2),
        "checkpoint": {"touched": True, "stream.bytes": 3 * 1024**3},
    }
    rebuild = make_rebuild(target=target, source=source, **(given | values))
    RebuildStep.objects.filter(rebuild=rebuild, name="stream").update(
        started_at=start + timedelta(minutes=5), finished_at=start + timedelta(minutes=65)
    )
    return rebuild


@pytest.fixture
def two(db: None) -> tuple[Any, Rebuild, Rebuild]:
    """backup-1 was copied from primary-1, then replica-1 from backup-1."""
    trio = make_trio()
    first = copied(trio[1], trio[0], 20)
    approved = {"approval": "approved", "approval_by": "otto", "reason": "=the disk"}
    return trio, first, copied(trio[2], trio[1], 10, **approved)


def words(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_page_follows_the_data_back_to_its_origin(viewer: Client, two: Any) -> None:
    _, first, second = two
    text = words(viewer, ADDRESS)
    assert list(zip(marks(text, "instance"), marks(text, "known"), marks(text, "source"), strict=True)) == [
        ("replica-1", DataOrigin.COPIED, "backup-1"),
        ("backup-1", DataOrigin.COPIED, "primary-1"),
        ("primary-1", DataOrigin.NEVER_REBUILT, ""),
    ]
    origin = part(text, 'id="origin-title"', "</section>")
    assert re.findall(r'href="/rebuilds/(\d+)/"', origin) == [str(second.pk), str(first.pk)]
    received = part(text, 'id="received"', "</section>")
    assert marks(received, "copy") == ["backup-1/replica-1"]
    for shown in ("3.00 GiB", "aes128-gcm@openssh.com", "approved", "otto", "1 h 00 min"):
        assert shown in received
    assert f'href="/rebuilds/{second.pk}/evidence/"' in received
    assert marks(part(text, 'id="sent"', "</section>"), "copy") == [], "nothing went out from replica-1"
    sent = words(viewer, "/instances/backup-1/lineage/")
    assert marks(part(sent, 'id="sent"', "</section>"), "copy") == ["backup-1/replica-1"]
    assert viewer.get("/instances/missing/lineage/").status_code == 404


def test_lineage_leaves_out_a_rebuild_that_copied_nothing(viewer: Client, two: Any) -> None:
    trio, _, second = two
    early = copied(trio[2], trio[1], 1, status=Status.CANCELLED, checkpoint={})
    RebuildStep.objects.filter(rebuild=early).update(started_at=None)
    found = lineage_of(trio[2], timezone.now())
    assert [one.rebuild for one in found.received] == [second.pk]
    assert found.ancestors[0].copy is not None
    half = copied(trio[2], trio[1], 0.5, status=Status.FAILED, checkpoint={"touched": True})
    found = lineage_of(trio[2], timezone.now())
    assert [one.rebuild for one in found.received] == [half.pk, second.pk], "a part of the data went over"
    assert (found.ancestors[0].known, found.ancestors[0].copy) == (DataOrigin.LEFT_UNDONE, None)
    text = words(viewer, ADDRESS)
    assert (marks(text, "instance")[0], marks(text, "known")[0]) == ("replica-1", DataOrigin.LEFT_UNDONE)


def test_csv_and_json_have_the_same_copies(viewer: Client, two: Any) -> None:
    _, first, second = two
    lines = list(csv.DictReader(StringIO(viewer.get(f"{ADDRESS}?format=csv").content.decode("utf-8-sig"))))
    assert [(line["part"], int(line["rebuild"])) for line in lines] == [
        ("lineage", second.pk),
        ("lineage", first.pk),
        ("received", second.pk),
    ]
    assert lines[0]["reason"] == "'=the disk"
    found = viewer.get(f"{ADDRESS}?format=json").json()
    assert [one["known"] for one in found["lineage"]] == [
        DataOrigin.COPIED,
        DataOrigin.COPIED,
        DataOrigin.NEVER_REBUILT,
    ]
    assert found["lineage"][0]["copy"] == found["received"][0]
    assert (found["received"][0]["bytes"], found["sent"]) == (3 * 1024**3, [])


def test_card_of_an_instance_shows_the_last_copies(operator: Client, two: Any) -> None:
    trio, _, second = two
    numbers = [copied(trio[2], trio[1], 9 - number).pk for number in range(3)]
    text = words(operator, "/inventory/instance/replica-1/").partition('id="lineage"')[2]
    links = [f'href="/rebuilds/{pk}/evidence/"' in text for pk in (*numbers, second.pk)]
    assert links == [True, True, True, False]
    assert f'href="{ADDRESS}"' in text
    assert 'id="lineage"' not in words(operator, "/inventory/add/instance/")
    assert f'href="{ADDRESS}"' in words(operator, "/clusters/shop/")


def test_lineage_takes_three_queries(two: Any, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    trio, _, _ = two
    for _ in range(2):
        with django_assert_num_queries(3):
            lineage_of(trio[2], timezone.now())
        copied(trio[2], trio[1], 2)


def test_lineage_of_an_archive_follows_the_source_at_the_time_of_the_backup(two: Any) -> None:
    """Between the backup and the rebuild that read it, the source was copied again: the backup does not have that copy."""
    trio, first, _ = two
    copied(trio[1], trio[0], 5)
    rebuild = copied(trio[2], trio[1], 1, method="archive")
    taken_at = timezone.now() - timedelta(days=8)
    Rebuild.objects.filter(pk=rebuild.pk).update(
        plan={**rebuild.plan, "archive": {"run": 7, "taken_at": taken_at.isoformat()}}
    )
    copies = [one.copy.rebuild for one in lineage_of(trio[2], timezone.now()).ancestors if one.copy]
    assert copies == [rebuild.pk, first.pk]
