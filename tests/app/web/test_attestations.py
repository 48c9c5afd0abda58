"""Doublewrite on the pages of instance and cluster, and the attestation of a storage."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dbops.engine.facts.instance import PageWrites
from dbops.engine.facts.storage import StorageAnswers, StorageFacts, StorageLayer
from dbops.engine.states import Severity
from dbops.models import AuditEntry, Instance, InstanceState, StorageAttestation
from dbops.operations.attestations import digest_of
from dbops.operations.rebuilds import plan_rebuild
from dbops.queries.fleet.doublewrite import doublewrite_page
from tests.app.factories import make_datadir_facts, make_facts, make_host_facts, make_trio

from .marks import marks

pytestmark = pytest.mark.django_db
PAGE, FORM = "/instances/replica-1/lineage/", "/instances/replica-1/attestation/"
EBS = StorageLayer("nvme1n1", "disk", 0, 512, model="Amazon Elastic Block Store", identity="vol-1")
VOLUME = StorageFacts("ext4", 4096, "nvme1n1", 0, layers=(EBS,), answers=StorageAnswers(16384))
VIRTIO = StorageFacts("ext4", 4096, "vda", 0, layers=(StorageLayer("vda", "disk", 0, 512),), is_virtual=True)
CARD = StorageFacts("ext4", 4096, "sfdv0n1", 0, layers=(StorageLayer("sfdv0n1", "disk", 0, 4096),))
DIRECT = PageWrites("O_DIRECT", use_atomic="ON", pages=90_000, doublewritten=90_000)
LEFT_OUT = replace(DIRECT, doublewritten=0)


def store(storage: StorageFacts | None, name: str = "replica-1", machine_id: str = "machine-3", **server: Any) -> None:
    values = {"doublewrite": "ON", "page_writes": DIRECT, "set_at_run_time": (), **server}
    host = make_host_facts(machine_id=machine_id)
    facts = make_facts(host=host, datadir=make_datadir_facts(storage=storage), **values)
    InstanceState.objects.filter(instance__name=name).update(**InstanceState.columns(facts))


@pytest.fixture
def trio(db: None) -> Any:
    made = make_trio()
    store(VOLUME)
    return made


def sent(client: Client, **changes: str) -> Any:
    page = client.get(FORM)
    given = {
        **{"action": "attest", "kind": "cloud", "reference": "ticket OPS-1", "review_on": ""},
        **{"typed_name": "replica-1", "seen": page.context["seen"]},
    }
    return client.post(FORM, given | changes)


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))


@pytest.mark.parametrize(
    ("storage", "writes", "verdict", "deciding"),
    [
        (VIRTIO, DIRECT, "keep", "device"),
        (VOLUME, DIRECT, "attest", None),
        (VOLUME, PageWrites("fsync"), "keep", "flush"),
        (CARD, LEFT_OUT, "safe", None),
        (CARD, replace(LEFT_OUT, pages=1), "keep", "device"),
        (None, DIRECT, "keep", "storage"),
    ],
)
def test_page_shows_the_verdict_and_each_layer(
    viewer: Client, trio: Any, storage: StorageFacts | None, writes: PageWrites, verdict: str, deciding: str | None
) -> None:
    store(storage, page_writes=writes)
    answer = viewer.get(PAGE)
    text = answer.content.decode()
    advice = answer.context["doublewrite"].advice
    assert marks(text, "doublewrite") == [verdict]
    assert marks(text, "layer") == [row.code for row in advice.layers]
    assert (advice.decides.code if verdict == "keep" else None) == deciding
    assert FORM not in text, "a viewer cannot attest"


def test_card_is_no_evidence_while_doublewrite_is_off(viewer: Client, trio: Any) -> None:
    store(CARD, page_writes=LEFT_OUT, doublewrite="OFF")
    advice = viewer.get(PAGE).context["doublewrite"].advice
    assert (advice.verdict, advice.decides.code, advice.must_turn_on) == ("keep", "device", True)


def test_page_has_no_section_for_an_older_record(viewer: Client, trio: Any) -> None:
    store(VOLUME, doublewrite="")
    assert marks(viewer.get(PAGE).content.decode(), "doublewrite") == []


def test_only_operators_open_the_form(viewer: Client, operator: Client, trio: Any) -> None:
    assert viewer.get(FORM).status_code == 403
    assert viewer.post(FORM, {"action": "attest"}).status_code == 403
    assert FORM in operator.get(PAGE).content.decode()
    assert operator.get(FORM).status_code == 200
    assert operator.get("/instances/missing/attestation/").status_code == 404


def test_operator_attests_and_withdraws_and_both_are_audited(operator: Client, trio: Any) -> None:
    assert sent(operator).status_code == 302
    row = StorageAttestation.objects.get()
    assert (row.instance.name, row.kind, row.reference, row.review_on, row.attested_by) == (
        *("replica-1", "cloud", "ticket OPS-1", None),
        "olga",
    )
    answer = operator.get(PAGE)
    advice = answer.context["doublewrite"].advice
    assert (advice.verdict, advice.standing, advice.may_be_off) == ("attest", "valid", True)
    assert marks(answer.content.decode(), "attestation") == ["valid"]
    again = (timezone.now() + timedelta(days=90)).date().isoformat()
    assert sent(operator, reference="ticket OPS-2", review_on=again).status_code == 302
    assert StorageAttestation.objects.get().review_on.isoformat() == again
    assert operator.post(FORM, {"action": "withdraw", "reason": "moved"}).status_code == 302
    assert not StorageAttestation.objects.exists()
    assert actions() == ["storage.attested", "storage.attested", "storage.attestation_withdrawn"]
    first, second, last = AuditEntry.objects.order_by("sequence")
    assert (first.actor, first.instance, first.reason, first.detail["replaces"]) == (
        *("olga", "replica-1", "ticket OPS-1"),
        False,
    )
    assert (second.detail["replaces"], second.detail["review_on"]) == (True, again)
    assert (last.reason, last.detail["reference"]) == ("moved", "ticket OPS-2")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"typed_name": "replica-2"}, "attestation.name"),
        ({"kind": "hope"}, "attestation.invalid"),
        ({"reference": " a "}, "attestation.invalid"),
        ({"reference": "x" * 501}, "attestation.invalid"),
        ({"review_on": "soon"}, "attestation.invalid"),
        ({"review_on": "2020-01-01"}, "attestation.invalid"),
        ({"seen": digest_of("another disk")}, "attestation.stale"),
        ({"action": "withdraw", "reason": ""}, "attestation.invalid"),
        ({"action": "withdraw", "reason": "moved"}, "attestation.stale"),
    ],
)
def test_wrong_input_is_refused(operator: Client, trio: Any, changes: dict[str, str], code: str) -> None:
    answer = sent(operator, **changes)
    assert (answer.status_code, answer.context["refused"].code) == (409, code)
    assert not StorageAttestation.objects.exists()
    assert actions() == []


@pytest.mark.parametrize(("storage", "writes"), [(VIRTIO, DIRECT), (CARD, LEFT_OUT), (None, DIRECT)])
def test_what_is_ruled_out_or_needless_cannot_be_attested(
    operator: Client, trio: Any, storage: StorageFacts | None, writes: PageWrites
) -> None:
    store(storage, page_writes=writes)
    answer = sent(operator)
    assert (answer.status_code, answer.context["refused"].code) == (409, "attestation.ruled_out")


def test_storage_of_an_unknown_machine_cannot_be_attested(operator: Client, trio: Any) -> None:
    store(VOLUME, machine_id="")
    answer = sent(operator)
    assert (answer.status_code, answer.context["refused"].code) == (409, "attestation.ruled_out")


def test_attestation_is_void_when_the_storage_changes(operator: Client, trio: Any) -> None:
    sent(operator)
    for changed in (
        replace(VOLUME, layers=(replace(EBS, identity="vol-2"),)),
        replace(VOLUME, filesystem="xfs"),
        VIRTIO,
    ):
        store(changed)
        answer = operator.get(PAGE)
        assert marks(answer.content.decode(), "attestation") == ["void"]
        assert not answer.context["doublewrite"].advice.may_be_off
        assert FORM in answer.content.decode(), "it can still be withdrawn"
    store(VOLUME, machine_id="machine-4")
    assert marks(operator.get(PAGE).content.decode(), "attestation") == ["void"]
    store(VOLUME, machine_id="")
    assert marks(operator.get(PAGE).content.decode(), "attestation") == ["unconfirmed"]
    store(VOLUME)
    assert marks(operator.get(PAGE).content.decode(), "attestation") == ["valid"]
    StorageAttestation.objects.update(review_on=timezone.now().date())
    assert marks(operator.get(PAGE).content.decode(), "attestation") == ["expired"]


def test_cluster_and_instance_name_settings_that_differ(viewer: Client, trio: Any) -> None:
    store(VIRTIO, "primary-1", read_only=False)
    assert marks(viewer.get("/clusters/shop/").content.decode(), "doublewrite-differs") == []
    store(VOLUME, doublewrite="OFF")
    assert marks(viewer.get("/clusters/shop/").content.decode(), "doublewrite-differs") == ["2"]
    assert viewer.get(PAGE).context["doublewrite"].advice.others == (("primary-1", "ON"),)


def test_plan_says_what_the_target_will_have(operator: Client, trio: Any) -> None:
    _, source, target = trio

    def finding() -> Any:
        plan = plan_rebuild(target=target, source=source)
        return next(item for item in plan.findings if item.code == "target.doublewrite")

    store(VOLUME, "backup-1", doublewrite="OFF")
    store(VOLUME, "primary-1", doublewrite="OFF", read_only=False)
    store(VOLUME, doublewrite="OFF")
    assert finding().severity is Severity.WARNING, "nothing shows that the storage writes whole pages"
    sent(operator)
    assert finding().severity is Severity.OK
    store(VOLUME, "primary-1", read_only=False)
    assert finding().severity is Severity.WARNING, "they differ"


def test_section_takes_two_queries(trio: Any, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    instance = Instance.objects.get(name="replica-1")
    with django_assert_num_queries(2):
        assert doublewrite_page(instance) is not None
