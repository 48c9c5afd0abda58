"""Holding a stream to a rate: who may, what is too slow, what is written, and what the page shows."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Status, StepState
from dbops.engine.tuning.stream_rate import MIB, SLOWEST
from dbops.lifecycle import leases, rebuild_driver
from dbops.loaders.plan_inputs import slowest_rate
from dbops.models import AuditEntry, Instance, InstanceState, Rebuild
from dbops.operations.rate_limit import set_stream_rate
from tests.app.factories import make_plan, make_rebuild, make_trio
from tests.said import names

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


def fresh(row: Rebuild) -> Rebuild:
    return Rebuild.objects.get(pk=row.pk)


@pytest.fixture
def trio() -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def running(olga: User, trio: Any) -> Rebuild:
    return make_rebuild(target=trio[2], source=trio[1], requested_by=olga)


def writes(instance: Instance, redo_bytes_per_second: float) -> None:
    state = InstanceState.objects.get(instance=instance)
    state.record["server"]["redo_bytes_per_second"] = redo_bytes_per_second
    state.save()


def refused(actor: User, rebuild: Rebuild, rate: int | None) -> str:
    with pytest.raises(Refused) as found:
        set_stream_rate(actor=actor, rebuild=rebuild, rate=rate)
    return found.value.code


def test_set_stream_rate_sets_logs_and_clears(running: Rebuild, olga: User) -> None:
    set_stream_rate(actor=olga, rebuild=running, rate=20 * MIB)
    assert fresh(running).stream_rate == 20 * MIB
    [found] = running.events.all()
    assert names(found.text, "20.0 MiB/s", "olga")
    set_stream_rate(actor=olga, rebuild=running, rate=None)
    assert fresh(running).stream_rate is None
    found = AuditEntry.objects.filter(action="rebuild.rate_changed").order_by("pk")
    assert [(entry.detail["before"], entry.detail["bytes_per_second"]) for entry in found] == [
        (None, 20 * MIB),
        (20 * MIB, None),
    ]


def test_set_stream_rate_refuses_a_rate_below_the_floor(running: Rebuild, olga: User, trio: Any) -> None:
    writes(trio[1], 3 * MIB)
    slowest = slowest_rate(from_record(Plan, running.plan), running.source_id)
    assert slowest > 3 * MIB
    with pytest.raises(Refused, match=re.escape(f"{slowest / MIB:.2f} MiB/s")) as found:
        set_stream_rate(actor=olga, rebuild=running, rate=slowest - 1)
    assert found.value.code == "rebuild.rate"
    assert fresh(running).stream_rate is None
    set_stream_rate(actor=olga, rebuild=running, rate=slowest)


@pytest.mark.parametrize("rate", [0, -5, SLOWEST - 1, 10**15])
def test_set_stream_rate_refuses_invalid_rates(running: Rebuild, olga: User, trio: Any, rate: int) -> None:
    writes(trio[1], 0.0)
    assert refused(olga, running, rate) == "rebuild.rate"


def test_set_stream_rate_refuses_a_viewer(running: Rebuild, victor: User) -> None:
    assert refused(victor, running, None) == "access.denied"


@pytest.mark.parametrize("state", [StepState.DONE, StepState.FAILED])
def test_set_stream_rate_is_refused_when_the_stream_has_ended(running: Rebuild, olga: User, state: StepState) -> None:
    running.steps.filter(name="stream").update(state=state)
    assert refused(olga, running, 20 * MIB) == "rebuild.no_stream"


def test_set_stream_rate_refuses_other_methods_and_ended_rebuilds(olga: User, trio: Any) -> None:
    plan = make_plan(target=trio[2], source=trio[1], method="archive")
    assert refused(olga, make_rebuild(target=trio[2], source=trio[1], plan=plan), 20 * MIB) == "rebuild.no_stream"
    ended = make_rebuild(target=trio[2], source=trio[1], status=Status.FAILED)
    assert refused(olga, ended, 20 * MIB) == "rebuild.no_stream"


def test_set_stream_rate_keeps_the_lease(running: Rebuild, olga: User) -> None:
    lease = rebuild_driver.take_lease(running.pk)
    assert lease is not None
    set_stream_rate(actor=olga, rebuild=running, rate=20 * MIB)
    assert leases.renew(lease)


def test_rate_page_sets_and_clears_the_rate(running: Rebuild, operator: Client, trio: Any) -> None:
    writes(trio[1], 0.0)
    address = f"/rebuilds/{running.pk}/rate-limit/"
    assert 'data-rate=""' in operator.get(address).content.decode()
    assert operator.post(address, {"mib": "12.5"}).status_code == 302
    assert fresh(running).stream_rate == round(12.5 * MIB)
    page = operator.get(address).content.decode()
    assert f'data-rate="{round(12.5 * MIB)}"' in page
    assert re.search(r"<strong>12\S* MiB/s</strong>", page)
    for wrong in ("", "nan", "inf", "-1", "fast", "0", "9" * 30):
        answer = operator.post(address, {"mib": wrong})
        assert (answer.status_code, fresh(running).stream_rate) == (409, round(12.5 * MIB)), wrong
    assert operator.post(address, {"full": "1"}).status_code == 302
    assert fresh(running).stream_rate is None


def test_rate_page_needs_an_operator_and_a_stream(running: Rebuild, operator: Client, viewer: Client) -> None:
    address = f"/rebuilds/{running.pk}/rate-limit/"
    assert viewer.get(address).status_code == 403
    assert operator.get("/rebuilds/99/rate-limit/").status_code == 404
    running.steps.filter(name="stream").update(state=StepState.DONE)
    page = operator.get(address).content.decode()
    assert ('name="mib"' in page, "data-no-stream" in page) == (False, True)


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "0.0000001", "-0.0000001"])
def test_rate_command_clears_the_rate_with_zero_only(running: Rebuild, olga: User, trio: Any, word: str) -> None:
    writes(trio[1], 0.0)
    set_stream_rate(actor=olga, rebuild=running, rate=20 * MIB)
    with pytest.raises(SystemExit, match="2"):
        call_command("rebuild", trio[2].name, f"--rate={word}", "--as=olga")
    assert fresh(running).stream_rate == 20 * MIB
    call_command("rebuild", trio[2].name, "--rate=0", "--as=olga")
    assert fresh(running).stream_rate is None
