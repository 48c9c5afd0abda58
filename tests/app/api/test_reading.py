"""What programs read, and what a token lets them see."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dbops.audit.log import append
from dbops.database import clock
from dbops.models import AccessToken, AuditEntry, BackupRun, Cluster, Instance, Maintenance, Rebuild
from dbops.operations.api_tokens import revoke_api_token
from tests.app.api.calls import BASE, Program, good, problem, program_of
from tests.app.backup_rows import make_schedule
from tests.app.factories import make_cluster, make_event, make_instance, make_rebuild, make_run

pytestmark = pytest.mark.django_db

READS = (
    *("/clusters", "/clusters/shop", "/clusters/shop/blockers", "/clusters/shop/blockers?target=replica-1"),
    *("/clusters/shop/maintenance", "/instances", "/instances/replica-1", "/rebuilds", "/rebuilds/{rebuild}"),
    *("/rebuilds/{rebuild}/log", "/backup-schedules", "/backup-runs", "/backup-runs/{run}", "/restore-tests"),
    "/availability",
)


@pytest.fixture
def places(fleet: dict[str, Instance], olga: User) -> dict[str, Any]:
    """Numbers of the rows that addresses name."""
    rebuild = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"])
    make_schedule(fleet["backup-1"])
    run = make_run(fleet["backup-1"], started_at=clock.now(), seconds=60)
    return {"rebuild": rebuild.pk, "run": run.pk}


def ask(program: Program, address: str) -> Any:
    return Client().get(BASE + address, headers=program.headers)


@pytest.mark.parametrize("address", [*READS, "/audit", "/audit/1"])
def test_viewer_reads_everything(address: str, places: dict[str, Any], reader: Program) -> None:
    assert good(ask(reader, address.format(**places)))


@pytest.mark.parametrize("address", [*READS, "/audit", "/audit/1"])
def test_session_opens_nothing(address: str, places: dict[str, Any], operator: Client) -> None:
    answer = operator.get(BASE + address.format(**places))
    problem(answer, 401, "token.unknown")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("address", READS)
def test_token_of_another_cluster_sees_nothing_of_this_one(address: str, places: dict[str, Any], victor: User) -> None:
    other = program_of(victor, "read", clusters=[make_cluster("other")])
    answer = ask(other, address.format(**places))
    if answer.status_code == 404:
        problem(answer, 404, "api.not_found")
        return
    found = good(answer)["items"]
    assert [one.get("name", one.get("cluster")) for one in found] in ([], ["other"])


@pytest.mark.parametrize("address", READS)
def test_token_of_this_cluster_sees_it(address: str, places: dict[str, Any], victor: User) -> None:
    make_cluster("other")
    mine = program_of(victor, "read", clusters=[Cluster.objects.get(name="shop")])
    assert "other" not in str(good(ask(mine, address.format(**places))))


def test_limited_token_reads_the_audit_entries_of_its_clusters_alone(places: dict[str, Any], victor: User) -> None:
    shop = Cluster.objects.get(name="shop")
    made = {
        name: append(actor="olga", action="test.noted", subject="x", cluster=name) for name in ("shop", "shop-2", "")
    }
    limited, whole = program_of(victor, "read", clusters=[shop]), program_of(victor, "read")
    for asked in ({}, {"cluster": "sho"}, {"actor": "olg", "action": "test."}):
        seen = good(limited.get("/audit", **asked))["items"]
        assert {one["cluster"] for one in seen} == {"shop"}
    assert good(limited.get("/audit", cluster="shop-2"))["items"] == []
    for name, entry in made.items():
        answer = limited.get(f"/audit/{entry.sequence}")
        assert answer.status_code == (200 if name == "shop" else 404)
        assert whole.get(f"/audit/{entry.sequence}").status_code == 200
    AccessToken.objects.get(clusters=shop).clusters.clear()
    assert good(limited.get("/audit"))["items"] == []
    problem(limited.get(f"/audit/{made['shop'].sequence}"), 404, "api.not_found")


def test_token_ends_at_once(fleet: dict[str, Instance], olga: User, program: Program) -> None:
    good(program.get("/clusters"))
    olga.groups.clear()
    problem(program.get("/clusters"), 403, "access.denied")
    User.objects.filter(pk=olga.pk).update(is_active=False)
    problem(program.get("/clusters"), 401, "token.unknown")


def test_revoked_and_expired_tokens_open_nothing(fleet: dict[str, Instance], olga: User, program: Program) -> None:
    token = AccessToken.objects.get()
    AccessToken.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    problem(program.get("/clusters"), 401, "token.unknown")
    AccessToken.objects.update(expires_at=clock.now() + timedelta(days=1))
    good(program.get("/clusters"))
    revoke_api_token(actor=olga, token=token)
    problem(program.get("/clusters"), 401, "token.unknown")


def test_cluster_has_what_an_inventory_needs(fleet: dict[str, Instance], reader: Program) -> None:
    (found,) = good(reader.get("/clusters"))["items"]
    assert (found["name"], found["primary"], found["replicas"], found["can_start"]) == ("shop", "primary-1", 2, True)
    assert [one["name"] for one in found["instances"]] == ["primary-1", "backup-1", "replica-1"]
    full = good(reader.get("/clusters/shop"))
    replica = next(one for one in full["instances"] if one["name"] == "replica-1")
    assert (replica["host"], replica["port"], replica["refusals"]) == ("db-13", 3306, [])
    assert replica["replication"][0]["sql_running"] == "Yes"
    assert good(reader.get("/instances/replica-1")) == replica | {"observed_at": replica["observed_at"]}


def test_pages_join_without_loss(fleet: dict[str, Instance], reader: Program) -> None:
    names, cursor = [], {}
    for _ in range(3):
        page = good(reader.get("/instances", limit=1, **cursor))
        names += [one["name"] for one in page["items"]]
        cursor = {"cursor": page["next"]}
    assert (names, page["next"]) == (["backup-1", "primary-1", "replica-1"], None)


def test_rebuilds_are_newest_first_and_filtered(fleet: dict[str, Instance], olga: User, reader: Program) -> None:
    made = [
        make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"], status=status).pk
        for status in ("succeeded", "failed", "succeeded")
    ]
    first = good(reader.get("/rebuilds", limit=2))
    assert [one["id"] for one in first["items"]] == made[:0:-1]
    rest = good(reader.get("/rebuilds", limit=2, cursor=first["next"]))
    assert ([one["id"] for one in rest["items"]], rest["next"]) == (made[:1], None)
    assert [one["id"] for one in good(reader.get("/rebuilds", status="failed"))["items"]] == [made[1]]
    assert good(reader.get("/rebuilds", target="backup-1"))["items"] == []


def test_log_is_read_in_pages(fleet: dict[str, Instance], olga: User, reader: Program) -> None:
    rebuild = make_rebuild(target=fleet["replica-1"], source=fleet["backup-1"])
    for number in range(3):
        make_event(rebuild, f"line {number}")
    first = good(reader.get(f"/rebuilds/{rebuild.pk}/log", limit=2))
    rest = good(reader.get(f"/rebuilds/{rebuild.pk}/log", limit=2, cursor=first["next"]))
    texts = [one["text"] for one in first["items"] + rest["items"] if one["text"].startswith("line")]
    assert (texts, rest["next"]) == (["line 0", "line 1", "line 2"], None)


def test_blockers_name_the_maintenance(fleet: dict[str, Instance], reader: Program) -> None:
    assert good(reader.get("/clusters/shop/blockers"))["answer"] == "now"
    ends = clock.now() + timedelta(hours=2)
    Maintenance.objects.create(
        cluster=Cluster.objects.get(), starts_at=clock.now(), ends_at=ends, reason="switch", created_by="olga"
    )
    found = good(reader.get("/clusters/shop/blockers", target="replica-1"))
    assert (found["answer"], [one["kind"] for one in found["blockers"]]) == ("until", ["maintenance"])
    problem(reader.get("/clusters/shop/blockers", target="unknown"), 404, "api.not_found")


def test_backup_runs_are_filtered(fleet: dict[str, Instance], reader: Program) -> None:
    run = make_run(fleet["backup-1"], started_at=clock.now(), seconds=60)
    assert [one["id"] for one in good(reader.get("/backup-runs", instance="backup-1"))["items"]] == [run.pk]
    assert good(reader.get("/backup-runs", status="failed"))["items"] == []
    assert good(reader.get(f"/backup-runs/{run.pk}"))["status"] == BackupRun.objects.get().status


def test_audit_log_is_read_by_filter_and_page(fleet: dict[str, Instance], olga: User, reader: Program) -> None:
    for number in range(60):
        program_of(olga, name=f"token-{number}")
    first = good(reader.get("/audit", action="token.", subject="token-"))
    rest = good(reader.get("/audit", action="token.", subject="token-", cursor=first["next"]))
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (50, 10, None)
    newest = first["items"][0]
    assert newest == good(reader.get(f"/audit/{newest['sequence']}"))
    assert newest["hash"] == AuditEntry.objects.get(sequence=newest["sequence"]).hash
    early = good(reader.get("/audit", until="0001-01-01T00:00:00+14:00"))
    assert early["items"] == []


def test_availability_has_each_cluster(fleet: dict[str, Instance], reader: Program) -> None:
    make_cluster("zoo")
    found = good(reader.get("/availability", days=7))["items"]
    assert [(one["cluster"], one["days"]) for one in found] == [("shop", 7), ("zoo", 7)]


def test_number_of_queries_does_not_grow_with_the_fleet(
    fleet: dict[str, Instance], reader: Program, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        make_instance(f"extra-{number}", cluster=make_cluster(f"extra-{number}"))
    with django_assert_max_num_queries(20):
        assert len(good(reader.get("/clusters"))["items"]) == 6
    Rebuild.objects.all().delete()
