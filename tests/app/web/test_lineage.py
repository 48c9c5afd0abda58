"""The lineage of an instance: page, card, CSV and JSON."""

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.states import Status
from dbops.models import InstanceState, Rebuild, Step
from dbops.queries.rebuilds.lineage import lineage_of
from tests.app.factories import make_rebuild, make_trio

pytestmark = pytest.mark.django_db
ADDRESS = "/instances/replica-1/lineage/"


def copied(target: Any, source: Any, days_ago: float, **values: Any) -> Rebuild:
    start = timezone.now() - timedelta(days=days_ago)
    given = {
        "status": Status.SUCCEEDED,
        "requested_at": start - timedelta(minutes=1),
        "started_at": start,
        "finished_at": start + timedelta(hours=2),
        "memory": {"touched": True, "stream.bytes": 3 * 1024**3},
    }
    rebuild = make_rebuild(target=target, source=source, **(given | values))
    Step.objects.filter(rebuild=rebuild, name="stream").update(
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


def test_the_page_goes_back_to_where_the_data_comes_from(viewer: Client, two: Any) -> None:
    _, first, second = two
    text = words(viewer, ADDRESS)
    assert text.index(f"rebuild {second.pk}</a>") < text.index(f"rebuild {first.pk}</a>")
    for shown in (
        "has the data of <strong>backup-1</strong>",
        "has the data of <strong>primary-1</strong>",
        "3.00 GiB",
    ):
        assert shown in text
    for shown in (
        "aes128-gcm@openssh.com",
        "approved by otto",
        "for 1 h 00 min",
        "<strong>primary-1</strong> had its own data",
    ):
        assert shown in text
    assert f'href="/rebuilds/{second.pk}/evidence/"' in text
    assert "None." in text, "nothing went out from replica-1"
    sent = words(viewer, "/instances/backup-1/lineage/")
    assert (
        'backup-1 →</span> <strong class="nowrap">replica-1</strong>' in sent.partition("Copies of it that went out")[2]
    )
    assert viewer.get("/instances/nobody/lineage/").status_code == 404


def test_what_did_not_reach_the_copy_moved_nothing(viewer: Client, two: Any) -> None:
    trio, _, second = two
    early = copied(trio[2], trio[1], 1, status=Status.CANCELLED, memory={})
    Step.objects.filter(rebuild=early).update(started_at=None)
    found = lineage_of(trio[2], timezone.now())
    assert [one.rebuild for one in found.received] == [second.pk]
    assert found.ancestors[0].copy is not None
    half = copied(trio[2], trio[1], 0.5, status=Status.FAILED, memory={"touched": True})
    found = lineage_of(trio[2], timezone.now())
    assert [one.rebuild for one in found.received] == [half.pk, second.pk], "a part of the data went over"
    assert (found.ancestors[0].known, found.ancestors[0].copy) == ("left undone", None)
    assert "What <strong>replica-1</strong> had is not known" in words(viewer, ADDRESS)


def test_csv_and_json_have_the_same(viewer: Client, two: Any) -> None:
    _, first, second = two
    lines = list(csv.DictReader(StringIO(viewer.get(f"{ADDRESS}?format=csv").content.decode("utf-8-sig"))))
    assert [(line["part"], int(line["rebuild"])) for line in lines] == [
        ("lineage", second.pk),
        ("lineage", first.pk),
        ("received", second.pk),
    ]
    assert lines[0]["reason"] == "'=the disk"
    told = viewer.get(f"{ADDRESS}?format=json").json()
    assert [one["known"] for one in told["lineage"]] == ["copied", "copied", "never rebuilt"]
    assert told["lineage"][0]["copy"] == told["received"][0]
    assert (told["received"][0]["bytes"], told["sent"]) == (3 * 1024**3, [])


def test_the_card_of_an_instance_has_the_last_few(operator: Client, two: Any) -> None:
    trio, _, second = two
    numbers = [copied(trio[2], trio[1], 9 - number).pk for number in range(3)]
    text = words(operator, "/inventory/instance/replica-1/").partition('id="lineage"')[2]
    assert [f"Evidence of {pk}<" in text for pk in (*numbers, second.pk)] == [True, True, True, False]
    assert f'href="{ADDRESS}"' in text
    assert 'id="lineage"' not in words(operator, "/inventory/add/instance/")
    assert f'href="{ADDRESS}"' in words(operator, "/clusters/shop/")


def test_it_costs_three_queries(two: Any, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    trio, _, _ = two
    for _ in range(2):
        with django_assert_num_queries(3):
            lineage_of(trio[2], timezone.now())
        copied(trio[2], trio[1], 2)


def test_the_page_says_why_doublewrite_has_to_stay_on(viewer: Client, two: Any) -> None:
    assert "innodb_doublewrite" not in words(viewer, ADDRESS)  # an older record does not say
    state = InstanceState.objects.get(instance__name="replica-1")
    state.record["server"]["doublewrite"] = "ON"
    state.record["datadir"]["storage"] = {
        **{"filesystem": "ext4", "block_bytes": 4096, "device": "vda", "atomic_bytes": 0},
    }
    state.save(update_fields=["record"])
    text = words(viewer, ADDRESS)
    assert "<code>innodb_doublewrite</code> is <strong>ON</strong>. It has to stay on" in text
    assert "vda promises nothing to be written wholly or not at all; a page has 16384." in text
    assert "does not ask for such writes" in text


def test_a_finished_backup_holds_what_its_source_had_when_it_was_taken(two: Any) -> None:
    """Between the backup and the rebuild that read it, the source was copied anew: that copy is not what the backup has."""
    trio, first, _ = two
    copied(trio[1], trio[0], 5)
    rebuild = copied(trio[2], trio[1], 1, method="archive")
    taken_at = timezone.now() - timedelta(days=8)
    Rebuild.objects.filter(pk=rebuild.pk).update(
        plan={**rebuild.plan, "archive": {"run": 7, "taken_at": taken_at.isoformat()}}
    )
    copies = [one.copy.rebuild for one in lineage_of(trio[2], timezone.now()).ancestors if one.copy]
    assert copies == [rebuild.pk, first.pk]
