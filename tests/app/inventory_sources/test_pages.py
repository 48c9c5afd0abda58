"""Pages and commands of inventory sources: who may, what is refused, what is recorded, and that no secret is shown."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from dbops.engine.facts.instance import to_record
from dbops.engine.inventory.readers import SourceKind, read_document
from dbops.models import AuditEntry, Cluster, Host, IgnoredDifference, Instance, InventorySource
from dbops.queries.inventory_sources import sources
from tests.app.factories import make_trio, make_user
from tests.app.pauses import act_in_pauses
from tests.app.web.test_admin_users import error_codes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
LIST, ADD = "/inventory/sources/", "/inventory/sources/add/"
ONE = "/inventory/sources/of/main/"
SECRET = "s3cret-that-is-never-shown"
NEW = {"name": "main", "kind": "orchestrator", "address": "https://orc.corp:3000", "user": "dbops", "secret": SECRET}
NEW["every_minutes"] = "60"


@pytest.fixture
def admin(db: None) -> Client:
    user = make_user("root")
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


@pytest.fixture
def source(admin: Client) -> InventorySource:
    assert admin.post(ADD, NEW).status_code == 302
    return InventorySource.objects.get()


def lists(text: str) -> None:
    """Let the source have read this table."""
    listing = read_document(SourceKind.CSV, text)
    InventorySource.objects.update(listing=to_record(listing), read_at=timezone.now())


def run(*words: str) -> str:
    out = StringIO()
    call_command("inventory", *words, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_operators_judge_and_superusers_add(source: InventorySource, operator: Client, viewer: Client) -> None:
    assert [viewer.get(path).status_code for path in (LIST, ADD, ONE)] == [403] * 3
    assert [operator.get(path).status_code for path in (LIST, ADD, ONE)] == [200, 403, 200]
    assert operator.post(ADD, NEW | {"name": "other"}).status_code == 403
    assert operator.post(f"{ONE}remove/").status_code == 403
    assert viewer.post(f"{ONE}read/").status_code == 403
    assert operator.post(f"{ONE}read/").status_code == 302
    assert InventorySource.objects.count() == 1


def test_secret_is_shown_and_stored_nowhere_in_clear(source: InventorySource, admin: Client) -> None:
    assert source.secret == SECRET
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM dbops_inventorysource")
        assert SECRET not in cursor.fetchone()[0]
    wrong = admin.post(ADD, NEW | {"name": "other", "address": "ftp://x"})
    for answer in (admin.get(LIST), admin.get(ONE), wrong):
        assert SECRET not in answer.content.decode()
    added = AuditEntry.objects.get(action="inventory_source.added")
    assert (added.actor, added.subject) == ("root", "main")
    assert added.detail == {
        "kind": "orchestrator",
        "address": NEW["address"],
        "user": "dbops",
        "secret": True,
        "ca": False,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": "main"}, {"name": "../x"}, {"address": "http://orc.corp/"}, {"address": "https://u:p@orc/"}),
        *({"address": "file:list.csv"}, {"kind": "csv", "address": "file:list.csv"}, {"ca": "no certificate"}),
        *({"ca": "é"}, {"secret": "a\tb"}, {"user": "a:b"}, {"kind": "replication-manager", "user": ""}),
        *(
            {"kind": "csv", "user": "", "secret": "", "address": f"file:{name}"}
            for name in ("", "../x", ".x", "a/b", "/a")
        ),
        {"address": "http://127.0.0.1/", "ca": "x"},
    ],
)
def test_what_cannot_work_is_refused(source: InventorySource, admin: Client, wrong: dict[str, str]) -> None:
    answer = admin.post(ADD, NEW | {"name": "other"} | wrong)
    assert (answer.status_code, error_codes(answer)) == (422, {"__all__": ["inventory_source.invalid"]})
    assert InventorySource.objects.count() == 1


def test_page_shows_differences_of_the_inventory_as_it_is_now(source: InventorySource, admin: Client) -> None:
    first = make_trio()[0]
    cluster = first.cluster
    lists(
        f"name,address,port,cluster\n{first.name},{first.address},{first.port},{cluster.name}\nnew,10.9.9.9,,{cluster.name}\n"
    )
    others = Instance.objects.filter(cluster=cluster).count() - 1
    answer = admin.get(ONE)
    codes = [one.code.value for one in answer.context["now"].open]
    assert codes == ["not_in_inventory", *["not_listed"] * others]
    assert answer.content.decode().count('data-difference="not_listed"') == others
    Instance.objects.filter(pk=first.pk).update(address="10.7.7.7")
    assert [one.code.value for one in sources()[0].open][0] == "address"


def test_difference_is_ignored_with_its_values_and_opened_again(source: InventorySource, operator: Client) -> None:
    lists("name,address\nnew,10.9.9.9\n")
    [difference] = operator.get(ONE).context["now"].open
    values = {
        "code": difference.code.value,
        "server": "new",
        "listed": difference.listed,
        "known": "",
        "action": "ignore",
    }
    refused = operator.post(ONE, values)
    assert (refused.status_code, refused.context["refused"].code) == (409, "inventory_source.reason")
    assert operator.post(ONE, values | {"reason": "a test machine"}).status_code == 302
    assert (sources()[0].open, sources()[0].state) == ((), "equal")
    again = operator.post(ONE, values | {"reason": "a second click"})
    assert (again.status_code, again.context["refused"].code) == (409, "inventory_source.stale")
    lists("name,address\nnew,10.9.9.8\n")
    assert len(sources()[0].open) == 1, "another address is another difference"
    lists("name,address\nnew,10.9.9.9\n")
    assert operator.post(ONE, values | {"action": "open"}).status_code == 302
    assert (len(sources()[0].open), IgnoredDifference.objects.count()) == (1, 0)
    entries = AuditEntry.objects.filter(action__startswith="inventory_source.difference").order_by("sequence")
    assert [(entry.action.partition("_source.")[2], entry.reason) for entry in entries] == [
        ("difference_ignored", "a test machine"),
        ("difference_opened", ""),
    ]


def test_proposal_can_be_completed_and_imported(source: InventorySource, operator: Client) -> None:
    lists(
        "name,address,cluster,role,datadir,systemd_unit\np,10.9.9.9,fresh,primary,/srv/p,mariadb\nr,10.9.9.8,fresh,replica,,\n"
    )
    answer = operator.get(f"{ONE}proposal/?cluster=fresh")
    text = answer.context["text"]
    checked = operator.post("/inventory/import/", {"text": text, "action": "check"})
    missing = {error.path for error in checked.context["errors"]}
    assert missing == {
        *("hosts[0].ssh.key_file", "hosts[1].ssh.key_file"),
        "clusters[0].instances[1]",
    }
    assert operator.get(f"{ONE}proposal/?cluster=other").status_code == 404
    assert operator.get(f"{ONE}proposal/").status_code == 404
    assert not Cluster.objects.filter(name="fresh").exists()


def test_proposal_uses_known_hosts_and_keeps_the_values_of_known_clusters(
    source: InventorySource, operator: Client
) -> None:
    cluster = make_trio()[0].cluster
    Cluster.objects.filter(pk=cluster.pk).update(wanted_replicas=7)
    host = Host.objects.all()[0]
    lists(f"name,address,port,cluster\nnew,{host.ssh_address},3399,{cluster.name}\n")
    text = operator.get(f"{ONE}proposal/?cluster={cluster.name}").context["text"]
    assert f"host: {host.name}\n" in text
    assert "wanted_replicas: 7\n" in text


def test_hostile_listing_is_shown_as_text(source: InventorySource, operator: Client) -> None:
    InventorySource.objects.update(error={"code": "inventory_source.rejected", "who": "host", "cause": "<b>x</b>"})
    lists("name,address,cluster\nnew,10.9.9.9,a\n<script>,b,c\n")
    body = operator.get(ONE).content.decode()
    assert "<b>x</b>" not in body
    assert "<script>,b" not in body


def test_removing_asks_first(source: InventorySource, admin: Client) -> None:
    assert admin.get(f"{ONE}remove/").status_code == 200
    assert InventorySource.objects.exists()
    assert admin.post(f"{ONE}remove/").status_code == 302
    assert not InventorySource.objects.exists()
    assert AuditEntry.objects.get(action="inventory_source.removed").detail["kind"] == "orchestrator"
    for path in ("", "read/", "remove/"):
        assert admin.post(ONE + path).status_code == 404


def test_commands_add_list_ignore_and_remove(tmp_path: Path, db: None) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    run("source", "add", "main", "csv", "https://cmdb.corp/x", "--secret-file", str(secret), "--every-minutes", "5")
    assert InventorySource.objects.get().secret == SECRET
    lists("name,address\nnew,10.9.9.9\n")
    with pytest.raises(SystemExit) as different:
        run("source", "show", "main")
    assert different.value.code == 3
    run("ignore", "main", "new", "not_in_inventory", "--reason", "a test machine")
    assert SECRET not in run("source", "list") + run("source", "show", "main")
    run("open", "main", "new", "not_in_inventory")
    run("source", "remove", "main")
    for words in (
        ["source", "remove", "main"],
        ["source", "show", "main"],
        ["source", "read", "main"],
        ["ignore", "main", "new", "role", "--reason", "x"],
        ["source", "add", "main", "csv", "ftp://x"],
        ["source", "add", "main", "csv", "https://x", "--ca", "/none"],
    ):
        with pytest.raises(CommandError):
            run(*words)
    assert not InventorySource.objects.exists()


@pytest.mark.parametrize("is_read", [True, False])
def test_command_waits_for_the_reading(source: InventorySource, monkeypatch: pytest.MonkeyPatch, is_read: bool) -> None:
    def work(_: float) -> None:
        error = {"code": "inventory_source.rejected", "operation": "Reading", "cause": "HTTP 500", "next_step": "Look."}
        row = make_trio()[0]
        if is_read:
            lists(f"name,address,port\n{row.name},{row.address},{row.port}\n")
        else:
            InventorySource.objects.update(error=error, failed_at=timezone.now())

    # in place of the worker, while the command waits
    act_in_pauses(monkeypatch, "dbops.management.commands.inventory", work)
    if is_read:
        run("source", "read", "main")
    else:
        with pytest.raises(CommandError) as refused:
            run("source", "read", "main")
        assert "[inventory_source.rejected]" in str(refused.value)


def test_proposal_of_a_file(tmp_path: Path, db: None) -> None:
    file = tmp_path / "servers.csv"
    file.write_text("name,address,cluster\na,10.0.0.1,shop\nb,10.0.0.2,blog\n")
    text = run(
        "propose", "csv", str(file), "--cluster", "shop", "--ssh-key-file", "/etc/dbops/key", "--ssh-user", "ops"
    )
    assert "name: a\n" in text
    assert "name: b\n" not in text
    assert "key_file: /etc/dbops/key\n" in text
    for words in (["csv", str(tmp_path / "none")], ["ansible", str(file)], ["csv", str(file), "--cluster", "x"]):
        with pytest.raises(CommandError):
            run("propose", *words)


def test_sources_are_read_with_few_queries(source: InventorySource, django_assert_max_num_queries: Any) -> None:
    make_trio()
    for number in range(20):
        InventorySource.objects.create(
            name=f"s{number}", kind="csv", address="https://x", created_at=timezone.now(), next_read_at=timezone.now()
        )
    lists("name,address\nnew,10.9.9.9\n")
    with django_assert_max_num_queries(3):
        assert len(sources()) == 21
