"""A confirmed plan, then anything that the inventory's verbs allow: the comparison refuses, or it is still the same instance."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from dbops.engine.errors import Refused
from dbops.engine.facts.instance import from_record, to_record
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight import live_check
from dbops.engine.states import Role
from dbops.models import Instance, InstanceState, Rebuild
from dbops.operations.fleet import delete, save_host, save_instance
from dbops.operations.rebuilds import plan_rebuild, request_rebuild
from dbops.worker import scheduler
from tests.app import rows

pytestmark = pytest.mark.django_db
NAMES = tuple(rows.NUMBERS)
ADDRESSES = {f"10.0.0.{number}": name for name, number in rows.NUMBERS.items()}
Edit = tuple[str, str, str]


@pytest.fixture(autouse=True)
def _no_broker(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbops.messaging.wakeups.publish", lambda *_: None)
    monkeypatch.setattr("dbops.messaging.updates.announce", lambda *_: None)


def edit(actor: Any, what: str, name: str, other: str) -> None:
    """One verb of the inventory, as the browser calls it. What it refuses changes nothing."""
    row = Instance.objects.select_related("host").filter(name=name).first()
    if row is None:
        return
    number = rows.NUMBERS[other]
    try:
        if what == "ssh_address":
            save_host(actor=actor, host=row.host, values={"ssh_address": f"10.0.0.{number}"})
        elif what == "host_key":
            save_host(actor=actor, host=row.host, values={"host_key": f"{rows.HOST_KEY[:-4]}{number}aa"})
        elif what == "delete":
            delete(actor=actor, row=row)
        else:
            values = {
                "address": f"10.0.0.{number}",
                "datadir": f"/srv/{number}",
                "role": other.partition("-")[0],
                "systemd_unit": f"mariadb@{number}",
                "port": 3300 + number,
            }
            save_instance(actor=actor, instance=row, values={what: values[what]})
    except Refused:
        pass


def probe() -> None:
    """Read every instance through the inventory's addresses: the machines are the same as in the beginning."""
    now = timezone.now()
    for instance in Instance.objects.select_related("host"):
        facts = rows.facts_of(ADDRESSES[instance.host.ssh_address], now)
        answering = rows.facts_of(ADDRESSES[instance.address], now).server if instance.port == 3306 else None
        if facts.datadir and instance.datadir != facts.datadir.path:
            elsewhere = replace(facts.datadir, path=instance.datadir, identity=f"{facts.datadir.identity}0")
            facts = replace(facts, datadir=elsewhere)
        record = to_record(replace(facts, server=answering))
        InstanceState.objects.filter(instance=instance).update(record=record, observed_at=now)


def place(name: str) -> tuple[Any, ...]:
    row = Instance.objects.select_related("host", "cluster").get(name=name)
    return (row.pk, row.host.ssh_address, row.host.host_key, row.address, row.port, row.datadir, row.systemd_unit)


def confirmed(actor: Any, fleet: dict[str, Instance], *, starts: bool) -> Rebuild:
    target, source = fleet["replica-1"], fleet["backup-1"]
    fingerprint = plan_rebuild(target=target, source=source).fingerprint
    words = {"typed_name": target.name, "reason": "disk replaced", "request_key": "one"}
    rebuild = request_rebuild(actor=actor, target=target, source=source, fingerprint=fingerprint, **words)
    if starts:
        scheduler.start_what_can()
    return rebuild


def is_let_through(rebuild: Rebuild) -> bool:
    rebuild = Rebuild.objects.select_related("target__cluster", "target__host", "source__host").get(pk=rebuild.pk)
    before = from_record(Plan, rebuild.plan)
    try:
        now = plan_rebuild(target=rebuild.target, source=rebuild.source, keep_old_data=before.keep_old_data)
    except Refused:
        return False
    return not live_check.differences(before, now)


WHAT = ("ssh_address", "host_key", "address", "datadir", "role", "systemd_unit", "port", "delete")
edits = st.lists(st.tuples(st.sampled_from(WHAT), st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=6)


def test_comparison_accepts_only_the_same_instance_after_edits() -> None:
    olga, seen = rows.operator(), set()

    @given(edits, st.booleans())
    @settings(max_examples=60)
    def hold(sequence: list[Edit], starts: bool) -> None:
        with transaction.atomic():
            rebuild = confirmed(olga, rows.make_fleet(*NAMES), starts=starts)
            before = place("replica-1"), place("backup-1")
            for one in sequence:
                edit(olga, *one)
            probe()
            let_through = is_let_through(rebuild)
            seen.add(let_through)
            if let_through:
                assert (place("replica-1"), place("backup-1")) == before
                assert Instance.objects.get(name="replica-1").role != Role.PRIMARY
            transaction.set_rollback(True)

    hold()
    assert seen == {True, False}, "both must have been met, else this says nothing"


@pytest.mark.parametrize("column", ["address", "datadir", "systemd_unit", "role"])
def test_comparison_refuses_a_row_changed_in_the_database(column: str) -> None:
    """The control: the comparison alone detects each change that the operations refuse while a rebuild waits."""
    rebuild = confirmed(rows.operator(), rows.make_fleet(*NAMES), starts=False)
    assert is_let_through(rebuild)
    changed = {"address": "10.0.0.14", "datadir": "/srv/14", "systemd_unit": "mariadb@14", "role": "backup"}
    Instance.objects.filter(name="replica-2").delete()
    Instance.objects.filter(name="replica-1").update(**{column: changed[column]})
    probe()
    assert not is_let_through(rebuild)
