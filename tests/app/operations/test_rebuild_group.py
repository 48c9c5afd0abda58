"""Rebuilds of several replicas: all are checked before the first is written."""

import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dbops.engine.errors import Refused
from dbops.models import AuditEntry, Instance, Rebuild
from dbops.operations.rebuild_group import ConfirmedTarget, plan_group, request_group
from tests.app import rows
from tests.said import names

pytestmark = pytest.mark.django_db
STOPS = 'id="blocking-reasons"'


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


@pytest.fixture
def fleet(olga: User) -> dict[str, Instance]:
    made = rows.make_fleet("primary-1", "backup-1", "replica-1", "replica-2")
    state = made["backup-1"].state
    state.record["host"]["tools"]["python3"] = {"path": "/usr/bin/python3", "version": None}
    state.save()
    return made


def confirmed(fleet: dict[str, Instance], **typed: str) -> list[ConfirmedTarget]:
    targets = [fleet["replica-1"], fleet["replica-2"]]
    return [
        ConfirmedTarget(
            one.target,
            typed.get(one.target.name.replace("-", "_"), one.target.name),
            one.plan.fingerprint if one.plan else "",
        )
        for one in plan_group(targets, fleet["backup-1"])
    ]


def ask(
    fleet: dict[str, Instance], olga: User, what: list[ConfirmedTarget], key: str = "", **values: Any
) -> list[Rebuild]:
    given = {"reason": "the rack burned", "request_key": key or str(uuid.uuid4()), **values}
    return request_group(actor=olga, source=fleet["backup-1"], confirmed=what, **given)


def test_group_request_makes_a_leader_and_followers(fleet: dict[str, Instance], olga: User) -> None:
    first, second = ask(fleet, olga, confirmed(fleet))
    assert (first.leader_id, Rebuild.objects.get(pk=second.pk).leader_id) == (None, first.pk)
    asked = AuditEntry.objects.filter(action="rebuild.requested").order_by("pk")
    assert [(entry.subject, entry.detail.get("leader")) for entry in asked] == [
        ("replica-1", None),
        ("replica-2", first.pk),
    ]


def test_group_request_is_idempotent_by_key(fleet: dict[str, Instance], olga: User) -> None:
    key, what = str(uuid.uuid4()), confirmed(fleet)
    once, twice = ask(fleet, olga, what, key), ask(fleet, olga, what, key)
    assert [row.pk for row in once] == [row.pk for row in twice]
    assert Rebuild.objects.count() == 2


@pytest.mark.parametrize(
    ("typed", "reason", "code"),
    [({"replica_2": "replica-1"}, "the rack burned", "rebuild.name"), ({}, " ", "rebuild.reason")],
)
def test_group_request_is_refused_whole_when_one_is_refused(
    fleet: dict[str, Instance], olga: User, typed: dict[str, str], reason: str, code: str
) -> None:
    with pytest.raises(Refused) as refused:
        ask(fleet, olga, confirmed(fleet, **typed), reason=reason)
    assert refused.value.code == code
    assert Rebuild.objects.count() == 0
    assert AuditEntry.objects.filter(action="rebuild.refused", detail__code=code).count() == 1


def test_group_request_is_refused_when_one_plan_is_stale(fleet: dict[str, Instance], olga: User) -> None:
    what = confirmed(fleet)
    stale = ConfirmedTarget(what[1].target, what[1].typed_name, "0" * 64)
    with pytest.raises(Refused) as refused:
        ask(fleet, olga, [what[0], stale])
    assert refused.value.code == "plan.stale"
    assert Rebuild.objects.count() == 0


def page(client: Client, *targets: str) -> str:
    asked = client.get("/clusters/shop/rebuild-group/", {"source": "backup-1", "target": list(targets)})
    assert asked.status_code == 200
    return asked.content.decode()


def test_group_page_requires_each_name(fleet: dict[str, Instance], operator: Client) -> None:
    text = page(operator, "replica-1", "replica-2")
    assert STOPS not in text
    assert re.findall(r'name="fingerprint-([^"]+)"', text) == ["replica-1", "replica-2"]
    form: dict[str, Any] = {
        name: value for name, value in re.findall(r'name="([a-z0-9_-]+)"\s+value="([^"]*)"', text) if name != "target"
    }
    form |= {"target": ["replica-1", "replica-2"], "source": "backup-1", "reason": "the rack burned"}
    answer = operator.post("/clusters/shop/rebuild-group/", form)
    assert answer.status_code == 409
    assert "rebuild.name" in answer.content.decode()
    form |= {"typed-replica-1": "replica-1", "typed-replica-2": "replica-2"}
    answer = operator.post("/clusters/shop/rebuild-group/", form)
    first = Rebuild.objects.order_by("pk").first()
    assert first is not None
    assert (answer.status_code, answer["Location"]) == (302, f"/rebuilds/{first.pk}/")
    assert Rebuild.objects.filter(leader=first).count() == 1
    again = page(operator, "replica-1", "replica-2")
    assert STOPS in again
    assert f"Rebuild {first.pk}</a>" in again


def test_group_page_excludes_primary_and_source(fleet: dict[str, Instance], operator: Client) -> None:
    text = page(operator, "primary-1", "backup-1", "replica-1")
    assert re.findall(r'type="checkbox"\s+name="target"\s+value="([^"]+)"', text) == ["replica-1", "replica-2"]
    assert "Wipe" not in text
    assert "/instances/replica-1/rebuild/?source=backup-1" in text


def test_group_page_warns_of_a_source_without_python(fleet: dict[str, Instance], operator: Client) -> None:
    state = fleet["backup-1"].state
    del state.record["host"]["tools"]["python3"]
    state.save()
    text = page(operator, "replica-1", "replica-2")
    assert names(text, "python3")
    assert STOPS in text


def test_group_page_needs_an_operator_and_a_key(fleet: dict[str, Instance], operator: Client, viewer: Client) -> None:
    assert viewer.get("/clusters/shop/rebuild-group/").status_code == 403
    form = {"source": "backup-1", "target": ["replica-1", "replica-2"], "reason": "the rack burned"}
    assert viewer.post("/clusters/shop/rebuild-group/", form).status_code == 403
    assert operator.post("/clusters/shop/rebuild-group/", form).status_code == 404
    assert operator.get("/clusters/none/rebuild-group/").status_code == 404
    assert Rebuild.objects.count() == 0
