"""Roles on single clusters: what verbs and commands they allow, and who gives them."""

import io
import json
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dbops.engine.errors import Refused
from dbops.engine.states import Status
from dbops.fleetfile.write import write
from dbops.models import AuditEntry, BackupRun, Cluster, ClusterRole, Instance, Rebuild
from dbops.operations.cluster_roles import give_role, take_role
from dbops.operations.connection_tests import request_ssh, request_stream
from dbops.operations.fleet import delete, import_fleet, save_cluster, save_instance
from dbops.operations.rebuilds import cancel_rebuild, request_rebuild
from dbops.operations.schedules import save_schedule
from dbops.security.permissions import is_allowed, needs_second_factor, people_who_may
from tests.app.factories import make_rebuild, make_schedule, make_trio, make_user

pytestmark = pytest.mark.usefixtures("no_broker")


@pytest.fixture
def shop(db: None) -> tuple[Instance, Instance, Instance]:
    return make_trio()


@pytest.fixture
def away(db: None) -> tuple[Instance, Instance, Instance]:
    return make_trio("away")


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


def clusters_alone() -> str:
    """Return the fleet file without hosts and instances, whose rows in tests have no keys."""
    content = yaml.safe_load(write())
    clusters = [{key: value for key, value in one.items() if key != "instances"} for one in content["clusters"]]
    return yaml.safe_dump({"version": 1, "clusters": clusters}, sort_keys=False)


def person(role: str, of: Instance, group: str = "viewer") -> User:
    user = make_user(f"{role}-of-{of.cluster.name}", group)
    ClusterRole.objects.create(user=user, cluster=of.cluster, role=role)
    return user


def code_of(call: Any, *args: Any, **given: Any) -> str:
    with pytest.raises(Refused) as raised:
        call(*args, **given)
    return raised.value.code


def test_operator_of_a_cluster_acts_there_alone(shop: Any, away: Any) -> None:
    opal = person("operator", shop[2])
    here = make_rebuild(target=shop[2], source=shop[1], status=Status.QUEUED)
    there = make_rebuild(target=away[2], source=away[1], status=Status.QUEUED)
    assert code_of(cancel_rebuild, actor=opal, rebuild=there) == "access.denied"
    cancel_rebuild(actor=opal, rebuild=here)
    here.refresh_from_db()
    assert here.status == "cancelled"


def test_source_of_another_cluster_needs_its_role_too(shop: Any, away: Any) -> None:
    opal = person("operator", shop[2])
    given = {"typed_name": "replica-1", "reason": "the disk", "fingerprint": "", "request_key": "one"}
    wanted = {"actor": opal, "target": shop[2], **given}
    assert code_of(request_rebuild, source=away[1], **wanted) == "access.denied"
    assert code_of(request_rebuild, source=shop[1], **wanted) != "access.denied"


def test_role_ends_with_the_group_and_with_the_account(shop: Any) -> None:
    opal = person("operator", shop[2])
    assert is_allowed(opal, "operate", shop[2].cluster_id)  # type: ignore[arg-type]
    opal.groups.clear()
    assert not is_allowed(opal, "operate", shop[2].cluster_id)  # type: ignore[arg-type]
    opal = person("admin", shop[2])
    User.objects.filter(pk=opal.pk).update(is_active=False)
    assert not is_allowed(User.objects.get(pk=opal.pk), "operate", shop[2].cluster_id)  # type: ignore[arg-type]
    assert "admin-of-shop" not in [name for _, name in people_who_may("view")]  # type: ignore[arg-type]


def test_hosts_and_instances_need_the_role_everywhere(shop: Any, away: Any) -> None:
    for role in ("operator", "admin"):
        user = person(role, shop[2])
        assert code_of(save_instance, actor=user, instance=shop[2], values={"os_user": "x"}) == "access.denied"
        assert code_of(delete, actor=user, row=shop[2]) == "access.denied"
        assert code_of(request_ssh, actor=user, host=away[2].host) == "access.denied"
        assert code_of(request_stream, actor=user, source=shop[1].host, target=away[2].host) == "access.denied"
        request_ssh(actor=user, host=shop[2].host)


def test_host_shared_by_two_clusters_needs_both_roles(shop: Any, away: Any) -> None:
    Instance.objects.filter(pk=away[2].pk).update(host=shop[2].host, datadir="/var/lib/other")
    opal = person("operator", shop[2])
    assert code_of(request_ssh, actor=opal, host=shop[2].host) == "access.denied"
    ClusterRole.objects.create(user=opal, cluster=away[2].cluster, role="operator")
    request_ssh(actor=opal, host=shop[2].host)


def test_schedule_is_of_its_instance(shop: Any, away: Any) -> None:
    opal = person("operator", shop[2])
    given = {"name": "n", "method": "physical", "run_by": "external", "cron": "30 2 * * *", "time_zone": "UTC"}
    call = {"actor": opal, "schedule": None}
    assert code_of(save_schedule, values={**given, "instance": away[2]}, **call) == "access.denied"
    assert code_of(save_schedule, values=given, **call) == "access.denied"
    save_schedule(values={**given, "instance": shop[2]}, **call)


RULES = [
    {"needs_approval": True},
    {"approval_count": 2},
    {"approvers_only": True},
    {"ticket_pattern": "CHG[0-9]+"},
    {"ticket_url": "https://jira.example/{ticket}"},
]


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_a_cluster_are_for_its_admins(
    shop: Any, away: Any, root: User, olga: User, rule: dict[str, Any]
) -> None:
    cluster = shop[2].cluster
    for who in (olga, person("operator", shop[2]), person("approver", shop[2]), person("admin", away[2])):
        assert code_of(save_cluster, actor=who, cluster=cluster, values=rule) == "access.denied"
    [(name, value)] = rule.items()
    assert getattr(Cluster.objects.get(pk=cluster.pk), name) != value
    save_cluster(actor=person("admin", shop[2]), cluster=cluster, values=rule)
    assert getattr(Cluster.objects.get(pk=cluster.pk), name) == value
    save_cluster(actor=olga, cluster=cluster, values={"wanted_replicas": 1})


def test_fleet_file_in_the_browser_keeps_the_rules(shop: Any, root: User, olga: User) -> None:
    Cluster.objects.update(needs_approval=True, ticket_pattern="CHG[0-9]+")
    text = clusters_alone()
    given = {"text": text.replace("needs_approval: true", "needs_approval: false"), "base_dir": None}
    assert given["text"] != text
    assert code_of(import_fleet, actor="olga", user=olga, **given) == "access.denied"
    assert Cluster.objects.get().needs_approval is True
    import_fleet(actor="olga", user=olga, text=text, base_dir=None)
    import_fleet(actor="root", user=root, **given)
    assert Cluster.objects.get().needs_approval is False


def test_fleet_file_has_the_rules_both_ways(shop: Any) -> None:
    Cluster.objects.update(
        needs_approval=True,
        approval_count=2,
        approvers_only=True,
        ticket_pattern="CHG[0-9]+",
        ticket_url="https://jira.example/{ticket}",
    )
    before, text = Cluster.objects.values().get(), clusters_alone()
    names = ("approval_count", "approvers_only", "ticket_pattern", "ticket_url")
    Cluster.objects.update(approval_count=1, approvers_only=False, ticket_pattern="", ticket_url="")
    import_fleet(actor="x", text=text, base_dir=None)
    after = Cluster.objects.values().get()
    assert {name: after[name] for name in names} == {name: before[name] for name in names}


@pytest.mark.parametrize(
    "line",
    [
        "approvals: 0",
        "approvals: 6",
        "ticket_pattern: '(a+)+'",
        "ticket_url: 'http://x/{ticket}'",
        "ticket_url: 'https://x/'",
    ],
)
def test_fleet_file_refuses_bad_rules(shop: Any, line: str) -> None:
    text = clusters_alone()
    import_fleet(actor="x", text=text, base_dir=None)
    assert code_of(import_fleet, actor="x", text=f"{text}  {line}\n", base_dir=None) == "fleet.file"


def test_roles_are_given_by_superusers_and_recorded(shop: Any, root: User, olga: User, victor: User) -> None:
    wanted = {"user": victor, "cluster": shop[2].cluster, "role": "operator"}
    assert code_of(give_role, actor=olga, **wanted) == code_of(take_role, actor=olga, **wanted) == "access.denied"
    assert code_of(give_role, actor=root, **{**wanted, "role": "viewer"}) == "account.invalid"
    assert [give_role(actor=root, **wanted), give_role(actor=root, **wanted)] == [True, False]
    assert [take_role(actor=root, **wanted), take_role(actor=root, **wanted)] == [True, False]
    entries = AuditEntry.objects.filter(action__startswith="account.role_").order_by("sequence")
    assert [(one.action, one.actor, one.subject, one.cluster, one.detail) for one in entries] == [
        ("account.role_given", "root", "victor", "shop", {"role": "operator"}),
        ("account.role_taken", "root", "victor", "shop", {"role": "operator"}),
    ]


def test_account_page_gives_and_takes_roles(shop: Any, root: User, victor: User) -> None:
    client = Client()
    client.force_login(root)
    address = f"/admin/users/{victor.pk}/roles/"
    given = {"cluster": "shop", "role": "approver"}
    assert client.post(address, {**given, "action": "give"}).status_code == 302
    assert 'data-role="shop approver"' in client.get(f"/admin/users/{victor.pk}/").content.decode()
    assert 'data-role="victor approver"' in client.get("/inventory/cluster/shop/").content.decode()
    for wrong in ({"cluster": "none"}, {"role": "viewer"}, {"cluster": "a\0b"}, {"role": "a\0b"}):
        assert client.post(address, {**given, **wrong}).status_code == 422
    assert client.post(address, {**given, "action": "take"}).status_code == 302
    assert not ClusterRole.objects.exists()


def test_command_gives_roles_and_lists_them(shop: Any, victor: User) -> None:
    out = io.StringIO()
    call_command("account", "role", "victor", "shop", "operator", stdout=out)
    call_command("account", "list", stdout=out)
    assert "operator of shop" in out.getvalue().splitlines()[-1]
    call_command("account", "role", "victor", "shop", "operator", "--remove", stdout=out)
    assert not ClusterRole.objects.exists()
    with pytest.raises(CommandError):
        call_command("account", "role", "victor", "none", "operator")


#: The options of ``manage.py rebuild`` that act for a person, with what each needs besides.
ACTS = [
    "--cancel",
    "--first",
    "--priority=2",
    "--rate=5",
    "--force-fail",
    "--override-approval",
    "--approve",
    "--decline",
]


@pytest.mark.parametrize("act", ACTS)
def test_rebuild_command_acts_with_the_roles_of_the_account(shop: Any, away: Any, act: str) -> None:
    make_rebuild(target=away[2], source=away[1], status=Status.QUEUED, approval="waiting")
    person("operator", shop[2])
    out, before = io.StringIO(), Rebuild.objects.values().get()
    with pytest.raises(SystemExit) as ended:
        call_command(
            "rebuild", "away-replica-1", act, "--reason=the disk", "--json", "--as=operator-of-shop", stdout=out
        )
    assert ended.value.code == 2
    assert json.loads(out.getvalue())["error"]["code"] == "access.denied"
    assert Rebuild.objects.values().get() == before


def test_backup_command_acts_with_the_roles_of_the_account(shop: Any, away: Any) -> None:
    make_schedule(away[2], run_by="dbops", directory="/backups")
    person("operator", shop[2])
    with pytest.raises((SystemExit, CommandError)):
        call_command("backup", "away-replica-1", "--as=operator-of-shop")
    assert not BackupRun.objects.exists()
    call_command("backup", "away-replica-1", f"--as={person('operator', away[2])}")
    assert BackupRun.objects.count() == 1


def test_second_factor_counts_roles_on_clusters(shop: Any, settings: Any) -> None:
    settings.SECOND_FACTOR_GROUPS = frozenset({"operator", "superuser"})
    assert [needs_second_factor(person(role, shop[2])) for role in ("operator", "admin", "approver")] == [
        True,
        True,
        False,
    ]


def test_pages_offer_only_what_the_person_may(shop: Any, away: Any) -> None:
    client = Client()
    client.force_login(person("operator", shop[2]))
    assert 'id="group-link"' in client.get("/clusters/shop/").content.decode()
    assert 'id="group-link"' not in client.get("/clusters/away/").content.decode()
    reasons = client.get("/instances/away-replica-1/rebuild/").context["blocking_reasons"]
    assert "access" in [one.code for one in reasons]
    assert "access" not in [one.code for one in client.get("/instances/replica-1/rebuild/").context["blocking_reasons"]]
    edits = client.get("/inventory/").content.decode()
    assert "/inventory/host/host-replica-1/" not in edits


def test_form_shows_the_rules_and_keeps_them(shop: Any, olga: User, root: User) -> None:
    Cluster.objects.update(needs_approval=True, ticket_pattern="CHG[0-9]+")
    for who, is_frozen in ((olga, True), (root, False)):
        client = Client()
        client.force_login(who)
        form = client.get("/inventory/cluster/shop/").context["form"]
        assert form.fields["needs_approval"].disabled is is_frozen
        assert form.fields["ticket_pattern"].disabled is is_frozen
