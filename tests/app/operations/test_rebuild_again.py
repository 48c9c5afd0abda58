"""Rebuild again: the plan page with the choices of the rebuild that failed, and nothing without a click."""

import ast
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

import dbops
from dbops.engine.states import Role, Status
from dbops.models import AuditEntry, Instance, Rebuild
from dbops.operations.follow_up_options import choices_of, follow_up_options
from dbops.operations.rebuilds import cancel_rebuild
from dbops.worker import scheduler, tasks
from tests.app.factories import make_rebuild
from tests.app.shared_reads import TOUCHED, Read, fresh

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]

MIB = 1024**2
LINK = "again-link"


@pytest.fixture
def read(olga: User) -> Read:
    return Read(olga)


@pytest.fixture
def dropped(read: Read) -> Rebuild:
    """A follower that was dropped with an incomplete copy; the other one has succeeded."""
    read.copied(read.leader)
    read.end(read.leader)
    plan = {**fresh(read.follower).plan, "keep_old_data": True}
    return read.drop(plan=plan, stream_rate=5 * MIB)


def address(rebuild: Rebuild) -> str:
    return f"/instances/{rebuild.target.name}/rebuild/?again={rebuild.pk}"


def form_of(client: Client, rebuild: Rebuild, **changes: Any) -> dict[str, Any]:
    """Return what a person sends who has typed the name and changed nothing else."""
    seen = client.get(address(rebuild)).context
    given = {
        "source": seen["plan"].source.name,
        "method": seen["method"],
        "fingerprint": seen["plan"].fingerprint,
        "request_key": str(seen["request_key"]),
        "start": seen["start"].key,
        "again": seen["again"].pk,
        "typed_name": rebuild.target.name,
        **seen["typed"],
        **({"keep_old_data": "1"} if seen["keep"] else {}),
    }
    return given | changes


def send(client: Client, rebuild: Rebuild, **changes: Any) -> Any:
    return client.post(f"/instances/{rebuild.target.name}/rebuild/", form_of(client, rebuild, **changes))


def test_dropped_follower_is_never_queued_by_a_task(read: Read, dropped: Rebuild) -> None:
    for _ in range(3):
        assert scheduler.start_what_can() == []
        tasks.reconcile()
    assert set(Rebuild.objects.values_list("pk", flat=True)) == {read.leader.pk, dropped.pk}
    assert not [name for name in tasks.app.conf.beat_schedule if "drop" in name or "resume" in name]


def test_only_verbs_of_people_queue_a_rebuild() -> None:
    """``rebuild_requests.queue`` is called by two verbs; pages and command line alone call those."""
    callers: dict[str, set[str]] = {}
    root = Path(dbops.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of = getattr(getattr(node.func, "value", None), "id", "")
            if name in ("request_rebuild", "request_follow_up", "request_group") or (of, name) == (
                "rebuild_requests",
                "queue",
            ):
                callers.setdefault(name, set()).add(path.relative_to(root).as_posix())
    assert callers["queue"] == {"operations/rebuilds.py", "operations/follow_ups.py"}
    assert {path.split("/")[0] for name, paths in callers.items() if name != "queue" for path in paths} <= {
        "web",
        "management",
        "operations",
    }


def test_again_page_has_the_choices_of_the_failed_rebuild(operator: Client, dropped: Rebuild) -> None:
    page = operator.get(address(dropped))
    seen = page.context
    assert page.status_code == 200
    assert (seen["plan"].source.name, seen["method"], seen["keep"]) == ("backup-1", "xbstream", True)
    assert seen["typed"] == {"reason": f"Rebuild {dropped.pk} again: the rack burned", "rate": "5"}
    assert (seen["blocking_reasons"], seen["has_rate"]) == ([], True)
    text = page.content.decode()
    assert f'name="again" value="{dropped.pk}"' in text
    assert f'value="Rebuild {dropped.pk} again: the rack burned"' in text
    assert 'name="keep_old_data" value="1"' in text
    assert 'value=""' in text.split('id="typed-name"')[1].split(">")[0], "the name is for the person to type"
    assert Rebuild.objects.count() == 2


def test_again_page_keeps_its_context_with_another_choice(operator: Client, dropped: Rebuild) -> None:
    seen = operator.get(address(dropped)).context
    for url in (seen["aside_url"], *(choice.url for choice in seen["methods"])):
        assert operator.get(url).context["again"] == dropped
    assert operator.get(seen["aside_url"]).context["keep"] is False


def test_again_form_has_no_rate_field_without_a_limit(operator: Client, dropped: Rebuild) -> None:
    Rebuild.objects.filter(pk=dropped.pk).update(stream_rate=None)
    assert operator.get(address(dropped)).context["has_rate"] is False
    assert send(operator, dropped).status_code == 302
    assert Rebuild.objects.get(follows=dropped).stream_rate is None


def test_again_confirmation_follows_the_failed_rebuild(operator: Client, olga: User, dropped: Rebuild) -> None:
    assert send(operator, dropped).status_code == 302
    again = Rebuild.objects.get(follows=dropped)
    assert (again.status, again.requested_by, again.leader) == (Status.QUEUED, olga, None)
    assert (again.method, again.source, again.stream_rate) == (dropped.method, dropped.source, 5 * MIB)
    assert again.checkpoint == {"incomplete_copy": TOUCHED["aside_path"], "incomplete_copy_tree": TOUCHED["left_tree"]}
    entry = AuditEntry.objects.get(action="rebuild.requested", detail__rebuild=again.pk)
    assert (entry.actor, entry.detail["follows"]) == ("olga", dropped.pk)
    old, new = (operator.get(f"/rebuilds/{pk}/").content.decode() for pk in (dropped.pk, again.pk))
    assert f'href="/rebuilds/{again.pk}/"' in old
    assert f'href="/rebuilds/{dropped.pk}/"' in new
    assert choices_of(fresh(again)).reason == f"Rebuild {again.pk} again: the rack burned"


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"typed_name": ""}, "rebuild.name", "typed_name"),
        ({"typed_name": "replica-1"}, "rebuild.name", "typed_name"),
        ({"reason": " "}, "rebuild.reason", "reason"),
        ({"rate": "0.0001"}, "rebuild.rate", "rate"),
        ({"rate": "fast"}, "rebuild.rate", "rate"),
        ({"rate": "nan"}, "rebuild.rate", "rate"),
        ({"fingerprint": "0" * 64}, "plan.stale", ""),
    ],
)
def test_again_form_refuses_incomplete_input(
    operator: Client, dropped: Rebuild, changes: dict[str, str], code: str, field: str
) -> None:
    answer = send(operator, dropped, **changes)
    assert (answer.status_code, answer.context["refused"].code, answer.context["bad_field"]) == (409, code, field)
    assert answer.context["again"] == dropped
    assert not Rebuild.objects.filter(follows=dropped).exists()


def test_again_is_hidden_and_refused_for_viewers(viewer: Client, operator: Client, dropped: Rebuild) -> None:
    assert LINK in operator.get(f"/rebuilds/{dropped.pk}/").content.decode()
    assert LINK not in viewer.get(f"/rebuilds/{dropped.pk}/").content.decode()
    given = form_of(operator, dropped)
    answer = viewer.post("/instances/replica-2/rebuild/", given)
    assert answer.context["refused"].code == "access.denied"
    assert not Rebuild.objects.filter(follows=dropped).exists()


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.EXPIRED])
def test_again_is_offered_after_every_unsuccessful_end(operator: Client, read: Read, status: Status) -> None:
    rebuild = make_rebuild(target=read.fleet["replica-1"], source=read.source, status=status)
    Rebuild.objects.exclude(pk=rebuild.pk).update(status=Status.SUCCEEDED, target_slot=None)
    actions = operator.get(f"/rebuilds/{rebuild.pk}/actions/").content.decode()
    assert f'href="{address(rebuild)}"' in actions


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.RUNNING, Status.QUEUED, Status.LOST])
def test_again_is_not_offered_in_other_states(operator: Client, read: Read, status: Status) -> None:
    Rebuild.objects.update(target_slot=None, status=Status.SUCCEEDED)
    rebuild = make_rebuild(target=read.target, source=read.source, status=status)
    assert LINK not in operator.get(f"/rebuilds/{rebuild.pk}/actions/").content.decode()
    assert operator.get(address(rebuild)).context["blocking_reasons"] != []


@pytest.mark.parametrize("why", ["worked since", "primary"])
def test_again_is_refused_when_overtaken(operator: Client, read: Read, dropped: Rebuild, why: str) -> None:
    given = form_of(operator, dropped)
    if why == "primary":
        Instance.objects.filter(role=Role.PRIMARY).update(role=Role.REPLICA)
        Instance.objects.filter(pk=dropped.target_id).update(role=Role.PRIMARY)
    else:
        make_rebuild(target=read.target, source=read.source, status=Status.FAILED, checkpoint={"touched": True})
    assert not follow_up_options(fresh(dropped))["again"].is_possible
    assert LINK not in operator.get(f"/rebuilds/{dropped.pk}/actions/").content.decode()
    answer = operator.post("/instances/replica-2/rebuild/", given)
    assert answer.status_code == 409
    if why != "primary":  # of a primary no plan is made
        assert answer.context["refused"].code == "rebuild.no_follow_up"
    assert not Rebuild.objects.filter(follows=dropped).exists()


@pytest.mark.parametrize("number", ["0", "x", "99999999999", "-1"])
def test_again_answers_404_for_an_unknown_rebuild(operator: Client, dropped: Rebuild, number: str) -> None:
    assert operator.get(f"/instances/replica-2/rebuild/?again={number}").status_code == 404
    assert send(operator, dropped, again=number).status_code == 404


def test_again_answers_404_for_another_target(operator: Client, dropped: Rebuild) -> None:
    assert operator.get(f"/instances/replica-1/rebuild/?again={dropped.pk}").status_code == 404


def test_again_is_idempotent_by_key(operator: Client, dropped: Rebuild) -> None:
    given = form_of(operator, dropped)
    first, second = (operator.post("/instances/replica-2/rebuild/", given) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert Rebuild.objects.filter(follows=dropped).count() == 1


def test_again_never_rolls_back_half_a_copy(operator: Client, read: Read, dropped: Rebuild) -> None:
    send(operator, dropped)
    again = Rebuild.objects.get(follows=dropped)
    assert scheduler.start_what_can() == [again.pk]
    moved = {"touched": True, "aside_path": "/var/lib/mysql.dbops-old-2", "aside_identity": "64769:99"}
    checkpoint = {**fresh(again).checkpoint, **moved}
    ended = read.end(
        again, Status.FAILED, pending_status=Status.FAILED, error={"code": "stream.disk_full"}, checkpoint=checkpoint
    )
    option = follow_up_options(ended)["rollback"]
    assert not option.is_possible
    assert TOUCHED["aside_path"] in option.reason


def test_plan_without_again_ignores_the_failed_rebuild(operator: Client, dropped: Rebuild) -> None:
    """A person's way to rebuild over what somebody has put there since."""
    assert send(operator, dropped, again="").status_code == 302
    newest = Rebuild.objects.order_by("-pk")[0]
    assert (newest.follows, newest.checkpoint) == (None, {})


def test_again_inherits_the_checkpoint_of_a_cancelled_attempt(operator: Client, olga: User, dropped: Rebuild) -> None:
    send(operator, dropped)
    first = Rebuild.objects.get(follows=dropped)
    cancel_rebuild(actor=olga, rebuild=first)
    send(operator, fresh(first))
    assert Rebuild.objects.get(follows=first).checkpoint == first.checkpoint


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = 0
    try:
        call_command("rebuild", "replica-2", "--json", "--as", "olga", *words)
    except SystemExit as end:
        status = int(end.code or 0)
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_again_command_repeats_the_newest_rebuild(dropped: Rebuild, capsys: pytest.CaptureFixture[str]) -> None:
    status, plan = run(capsys, "--again", "--plan")
    assert (status, plan["source"]["name"], Rebuild.objects.count()) == (0, "backup-1", 2)
    status, said = run(capsys, "--again")
    again = Rebuild.objects.get(follows=dropped)
    assert (status, said["rebuild"]) == (0, again.pk)
    assert (again.reason, again.stream_rate) == (f"Rebuild {dropped.pk} again: the rack burned", 5 * MIB)
    status, said = run(capsys, "--again")
    assert (status, said["error"]["code"]) == (2, "rebuild.busy")


def test_again_command_accepts_another_reason(dropped: Rebuild, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "--again", "--reason", f"the link was repaired {uuid.uuid4()}")
    assert Rebuild.objects.get(follows=dropped).reason.startswith("the link")


def test_again_is_refused_after_success(read: Read, capsys: pytest.CaptureFixture[str]) -> None:
    read.copied(read.leader)
    read.end(read.leader)
    read.end(read.follower)
    read.see_target(runs=True)
    status, said = run(capsys, "--again")
    assert (status, said["error"]["code"]) == (2, "rebuild.no_follow_up")
    assert Rebuild.objects.count() == 2
