"""What programs change: the whole way of a rebuild, backups, maintenance; rights, scopes and repeated requests."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from dbops.database import clock
from dbops.engine.states import Approval, Status
from dbops.models import AuditEntry, BackupRun, Cluster, Instance, KeptAnswer, Maintenance, Rebuild, RestoreTest
from dbops.operations import kept_answers
from dbops.web.api import rebuilds as api_rebuilds
from tests.app.api.calls import REASON, Program, good, problem, program_of, rebuild_request
from tests.app.backup_rows import make_run, make_schedule
from tests.app.factories import make_cluster, make_operator

pytestmark = pytest.mark.django_db


def test_program_goes_the_whole_way_of_a_rebuild(fleet: dict[str, Instance], program: Program, reader: Program) -> None:
    plan = good(program.post("/instances/replica-1/plan"))
    assert (plan["is_possible"], plan["source"], plan["start"]["answer"]) == (True, "backup-1", "now")
    assert [step["name"] for step in plan["steps"]][:2] == ["preflight", "open-access"]
    made = good(program.post("/rebuilds", rebuild_request(program)), 201)
    row = Rebuild.objects.get()
    assert (made["id"], made["status"], made["target"], made["requested_by"]) == (
        row.pk,
        "queued",
        "replica-1",
        "olga",
    )
    assert good(reader.get("/rebuilds"))["items"][0]["id"] == row.pk
    assert good(program.post(f"/rebuilds/{row.pk}/cancel"))["status"] == "cancelled"
    problem(program.post(f"/rebuilds/{row.pk}/cancel"), 409, "rebuild.ended")


def test_change_ticket_is_checked_stored_and_shown(fleet: dict[str, Instance], program: Program) -> None:
    Cluster.objects.update(ticket_pattern="CHG[0-9]+")
    request = rebuild_request(program)
    problem(program.post("/rebuilds", request), 409, "rebuild.ticket")
    problem(program.post("/rebuilds", {**request, "ticket": "CHG1\0"}), 422, "api.invalid")
    assert good(program.post("/rebuilds", {**request, "ticket": "CHG12"}), 201)["ticket"] == "CHG12"
    assert Rebuild.objects.get().ticket == "CHG12"


def test_several_people_approve_through_the_api(fleet: dict[str, Instance], program: Program) -> None:
    Cluster.objects.update(needs_approval=True, approval_count=2)
    made = good(program.post("/rebuilds", rebuild_request(program)), 201)
    assert (made["approval"]["state"], made["approval"]["wanted"]) == ("waiting", 2)
    problem(program.post(f"/rebuilds/{made['id']}/approve"), 409, "approval.own")
    first, second = (program_of(make_operator(name)) for name in ("otto", "oda"))
    assert good(first.post(f"/rebuilds/{made['id']}/approve"))["approval"]["state"] == "waiting"
    again = program_of(User.objects.get(username="otto"), name="another")
    problem(again.post(f"/rebuilds/{made['id']}/approve"), 409, "approval.twice")
    assert good(second.post(f"/rebuilds/{made['id']}/approve"))["approval"]["state"] == "approved"


def test_audit_entries_name_account_and_token(fleet: dict[str, Instance], olga: User) -> None:
    program = program_of(olga, name="ansible")
    good(program.post("/rebuilds", rebuild_request(program)), 201)
    entry = AuditEntry.objects.get(action="rebuild.requested")
    assert (entry.actor, entry.detail["api_token"], entry.reason) == ("olga", "ansible", REASON)


def test_plan_writes_nothing_and_needs_no_scope(fleet: dict[str, Instance], reader: Program) -> None:
    before = AuditEntry.objects.count()
    good(reader.post("/instances/replica-1/plan", {"method": "xbstream", "source": "backup-1"}))
    assert (Rebuild.objects.count(), AuditEntry.objects.count()) == (0, before)


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"confirm": "replica-2"}, 409, "rebuild.name"),
        ({"fingerprint": "0" * 64}, 409, "plan.stale"),
        ({"reason": "   "}, 409, "rebuild.reason"),
        ({"reason": "no"}, 422, "api.invalid"),
        ({"start": "after-run:99"}, 409, "plan.start_stale"),
        ({"expires_hours": 169}, 422, "api.invalid"),
        ({"rate": 1}, 409, "rebuild.rate"),
        ({"method": "rollback"}, 422, "api.invalid"),
        ({"source": "replica-1"}, 404, "api.not_found"),
        ({"target": "unknown"}, 404, "api.not_found"),
        ({"sauce": "backup-1"}, 422, "api.invalid"),
        ({"reason": "nul \0 nul"}, 422, "api.invalid"),
        ({"reason": "half \ud83d emoji"}, 422, "api.invalid"),
        ({"confirm": None}, 422, "api.invalid"),
    ],
)
def test_wrong_request_is_refused(
    fleet: dict[str, Instance], program: Program, changed: dict[str, Any], status: int, code: str
) -> None:
    problem(program.post("/rebuilds", rebuild_request(program, **changed)), status, code)
    assert not Rebuild.objects.exists()


def test_token_never_has_more_rights_than_its_account(
    fleet: dict[str, Instance], victor: User, olga: User, program: Program
) -> None:
    given = rebuild_request(program)
    problem(program_of(victor, "operate").post("/rebuilds", given), 403, "access.denied")
    problem(program_of(olga, "read").post("/rebuilds", given), 403, "token.scope")
    olga.groups.clear()
    problem(program.post("/rebuilds", given), 403, "access.denied")
    assert not Rebuild.objects.exists()


def test_limited_token_changes_only_its_clusters(fleet: dict[str, Instance], olga: User, program: Program) -> None:
    given = rebuild_request(program)
    rebuild = good(program.post("/rebuilds", given), 201)["id"]
    schedule = make_schedule(fleet["backup-1"])
    run = make_run(schedule)
    kept = Maintenance.objects.create(
        cluster=Cluster.objects.get(), starts_at=clock.now(), reason="switch", created_by="olga"
    )
    other = program_of(olga, clusters=[make_cluster("other")])
    wish = {"reason": REASON}
    for address, body in (
        ("/rebuilds", given),
        ("/instances/replica-1/plan", {}),
        (f"/rebuilds/{rebuild}/cancel", {}),
        (f"/rebuilds/{rebuild}/approve", wish),
        (f"/rebuilds/{rebuild}/decline", wish),
        (f"/backup-schedules/{schedule.name}/run", wish),
        (f"/backup-runs/{run.pk}/restore-tests", wish),
        ("/clusters/shop/maintenance", wish),
        (f"/maintenance/{kept.pk}/end", {}),
    ):
        problem(other.post(address, body), 404, "api.not_found")
    assert Rebuild.objects.get().status == Status.QUEUED
    assert (BackupRun.objects.count(), RestoreTest.objects.count(), Maintenance.objects.count()) == (1, 0, 1)


def test_no_one_approves_their_own_request_with_another_token(fleet: dict[str, Instance], olga: User) -> None:
    Cluster.objects.update(needs_approval=True)
    first, second = program_of(olga), program_of(olga)
    rebuild = good(first.post("/rebuilds", rebuild_request(first)), 201)
    assert rebuild["approval"]["state"] == "waiting"
    for decision in ("approve", "decline"):
        answer = second.post(f"/rebuilds/{rebuild['id']}/{decision}", {"reason": REASON})
        problem(answer, 409, "approval.own")
    other = program_of(make_operator("otto"))
    assert good(other.post(f"/rebuilds/{rebuild['id']}/approve"))["approval"]["by"] == "otto"
    assert Rebuild.objects.get().approval == Approval.APPROVED


def test_other_operator_declines_with_a_reason(fleet: dict[str, Instance], program: Program) -> None:
    Cluster.objects.update(needs_approval=True)
    rebuild = good(program.post("/rebuilds", rebuild_request(program)), 201)["id"]
    other = program_of(make_operator("otto"))
    problem(other.post(f"/rebuilds/{rebuild}/decline"), 409, "rebuild.reason")
    assert good(other.post(f"/rebuilds/{rebuild}/decline", {"reason": REASON}))["status"] == "cancelled"


def test_backup_runs_now(fleet: dict[str, Instance], program: Program) -> None:
    make_schedule(fleet["backup-1"])
    run = good(program.post("/backup-schedules/nightly/run", {"reason": REASON}), 201)
    assert (run["status"], run["schedule"], run["id"]) == ("queued", "nightly", BackupRun.objects.get().pk)
    problem(program.post("/backup-schedules/nightly/run"), 409, "backup.active")


def test_restore_test_is_requested(fleet: dict[str, Instance], program: Program) -> None:
    run = make_run(
        make_schedule(fleet["backup-1"]), "succeeded", finished_at=clock.now(), path="/backups/one", bytes_written=1
    )
    made = good(program.post(f"/backup-runs/{run.pk}/restore-tests", {"reason": REASON}), 201)
    assert (made["backup_run"], made["status"], made["source"]) == (run.pk, "queued", "backup-1")
    assert good(program.get(f"/restore-tests/{made['id']}")) == made
    BackupRun.objects.update(path="")
    problem(program.post(f"/backup-runs/{run.pk}/restore-tests"), 409, "restore_test.no_backup")


def test_maintenance_begins_and_ends(fleet: dict[str, Instance], program: Program) -> None:
    ends = (clock.now() + timedelta(hours=1)).isoformat()
    made = good(program.post("/clusters/shop/maintenance", {"reason": REASON, "ends_at": ends}), 201)
    assert good(program.get("/clusters/shop/maintenance"))["items"] == [made]
    good(program.post(f"/maintenance/{made['id']}/end"))
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
        answer = program.post("/clusters/shop/maintenance", {"reason": REASON, "starts_at": moment})
        problem(answer, 409, "maintenance.invalid")


class TestOnce:
    def test_repeat_gets_the_first_answer_and_changes_nothing(
        self, fleet: dict[str, Instance], program: Program
    ) -> None:
        given = rebuild_request(program)
        first = program.post("/rebuilds", given, key="one")
        Rebuild.objects.update(waiting_for="something else")
        second = program.post("/rebuilds", given, key="one")
        assert (second.status_code, second.content) == (first.status_code, first.content) == (201, first.content)
        assert second.headers["Idempotency-Replayed"] == "true"
        assert Rebuild.objects.count() == AuditEntry.objects.filter(action="rebuild.requested").count() == 1

    def test_refusal_is_repeated_too(self, fleet: dict[str, Instance], program: Program) -> None:
        given = rebuild_request(program, confirm="wrong")
        first, second = (program.post("/rebuilds", given, key="one") for _ in range(2))
        assert problem(first, 409, "rebuild.name") == problem(second, 409, "rebuild.name")
        assert AuditEntry.objects.filter(action="rebuild.refused").count() == 1

    def test_same_key_with_another_body_or_address_is_refused(
        self, fleet: dict[str, Instance], program: Program
    ) -> None:
        given = rebuild_request(program)
        rebuild = good(program.post("/rebuilds", given, key="one"), 201)["id"]
        problem(program.post("/rebuilds", given | {"reason": "another"}, key="one"), 422, "idempotency.mismatch")
        problem(program.post(f"/rebuilds/{rebuild}/cancel", key="one"), 422, "idempotency.mismatch")
        assert Rebuild.objects.get().status == Status.QUEUED

    def test_keys_belong_to_a_token(self, fleet: dict[str, Instance], olga: User, program: Program) -> None:
        rebuild = good(program.post("/rebuilds", rebuild_request(program), key="one"), 201)["id"]
        assert good(program_of(olga).post(f"/rebuilds/{rebuild}/cancel", key="one"))["status"] == "cancelled"

    @pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 65])
    def test_wrong_key_is_refused(self, fleet: dict[str, Instance], program: Program, key: str) -> None:
        sent = {"Idempotency-Key": key}
        problem(program.post("/rebuilds", rebuild_request(program), **sent), 422, "api.invalid")
        assert not Rebuild.objects.exists()

    def test_key_is_free_again_after_a_day(self, fleet: dict[str, Instance], program: Program) -> None:
        rebuild = good(program.post("/rebuilds", rebuild_request(program), key="one"), 201)["id"]
        KeptAnswer.objects.update(begun_at=clock.now() - timedelta(hours=25))
        good(program.post(f"/rebuilds/{rebuild}/cancel", key="one"))
        assert KeptAnswer.objects.count() == 1

    def test_unexpected_error_frees_the_key(
        self, fleet: dict[str, Instance], program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = rebuild_request(program)
        with monkeypatch.context() as broken:
            broken.setattr(api_rebuilds, "full", lambda _: 1 / 0)
            found = problem(program.post("/rebuilds", given, key="one"), 500, "api.failed")
            assert "division" not in str(found)
        # the request was written before the error: the repeat finds that rebuild
        assert good(program.post("/rebuilds", given, key="one"), 201)["id"] == Rebuild.objects.get().pk

    def test_request_in_progress_is_not_done_twice(self, fleet: dict[str, Instance], program: Program) -> None:
        given = rebuild_request(program)
        good(program.post("/rebuilds", given, key="one"), 201)
        KeptAnswer.objects.update(status=None, body="")
        problem(program.post("/rebuilds", given, key="one"), 409, "idempotency.in_progress")

    def test_request_whose_process_is_gone_is_answered(self, fleet: dict[str, Instance], program: Program) -> None:
        given = rebuild_request(program)
        made = good(program.post("/rebuilds", given, key="one"), 201)["id"]
        begun = clock.now() - kept_answers.LONGEST_REQUEST - timedelta(seconds=1)
        KeptAnswer.objects.update(status=None, body="", begun_at=begun)
        assert good(program.post("/rebuilds", given, key="one"), 201)["id"] == made
        assert (Rebuild.objects.count(), KeptAnswer.objects.get().status) == (1, 201)
