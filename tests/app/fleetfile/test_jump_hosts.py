"""Jump hosts of hosts: in the fleet file, in the browser, and what dbops logs in with."""

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from dbops.engine.states import Status
from dbops.fleetfile.stored import load
from dbops.loaders.ssh_addresses import JUMPS, jump_hosts_of, jump_of, ssh_address_of
from dbops.models import AuditEntry, Host, Instance
from dbops.operations.fleet import FleetFileErrors, export_fleet
from dbops.worker.connections import open_database, open_shell
from tests.app.factories import make_rebuild
from tests.app.fleetfile.test_forms import edit_url, errors, shown

pytestmark = pytest.mark.django_db


def with_jumps(folder, **jumps: str) -> str:
    """Return the file with jump hosts: ``db_2="jump_1"``; hosts that are not there are added."""
    text = folder.text.replace("      host_key:", "      jump_host: JUMP1\n      host_key:")
    text = text.replace("{address: 192.0.2.2, key_file: ", "{address: 192.0.2.2, jump_host: JUMP2, key_file: ")
    text = text.replace("JUMP1", jumps.pop("db_1", '""')).replace("JUMP2", jumps.pop("db_2", '""'))
    more = "".join(
        f"  - name: {name}\n"
        f"    ssh: {{address: 198.51.100.{number}, user: jumper, key_file: {folder.key_file}, jump_host: '{jump}'}}\n"
        for number, (name, jump) in enumerate(jumps.items(), 1)
    )
    return text.replace("clusters:\n", f"{more}clusters:\n", 1)


def ways() -> dict[str, list[str]]:
    return {host.name: [jump.name for jump in jump_hosts_of(host)] for host in Host.objects.all()}


def refused_fields(folder, text: str) -> list[str]:
    with pytest.raises(FleetFileErrors) as caught:
        folder.load(text)
    return [error.path.rpartition(".")[2] for error in caught.value.errors]


def test_import_sets_them_in_any_order_and_export_repeats_them(folder):
    report = folder.load(with_jumps(folder, db_1="a", db_2="c", a="b", b="c", c=""))
    assert ways() == {"a": ["c", "b"], "b": ["c"], "c": [], "db-1": ["c", "b", "a"], "db-2": ["c"]}
    assert [item.name for item in report.items][:5] == ["db-1", "db-2", "a", "b", "c"]
    detail = AuditEntry.objects.get(action="host.created", subject="a").detail
    assert "b" in str(detail["jump_host"])
    text = export_fleet()
    assert folder.load(text).count("unchanged") == len(report.items)


def test_import_without_one_connects_directly_again(folder):
    folder.load(with_jumps(folder, db_1="a", a=""))
    report = folder.load(with_jumps(folder, a=""))
    assert [(item.name, item.fields) for item in report.items if item.outcome == "changed"] == [("db-1", ["jump_host"])]
    assert ways()["db-1"] == []


def test_two_hosts_swap_in_one_file(folder):
    folder.load(with_jumps(folder, a="b", b=""))
    folder.load(with_jumps(folder, a="", b="a"))
    assert (ways()["a"], ways()["b"]) == ([], ["a"])


@pytest.mark.parametrize(
    "jumps",
    [
        {"db_1": "nowhere"},
        {"db_1": "db-1"},
        {"db_1": "db-2", "db_2": "db-1"},
        {"db_1": "a", "a": "b", "b": "c", "c": "d", "d": ""},
    ],
    ids=["unknown", "itself", "circle", "four"],
)
def test_way_that_leads_nowhere_is_refused(folder, jumps):
    assert set(refused_fields(folder, with_jumps(folder, **jumps))) == {"jump_host"}
    assert not Host.objects.exists()


def test_change_of_a_jump_host_is_refused_for_the_hosts_behind_it(folder):
    folder.load(with_jumps(folder, db_1="a", a="b", b="c", c=""))
    more = with_jumps(folder, db_1="a", a="b", b="c", c="d", d="")
    assert set(refused_fields(folder, more)) == {"jump_host"}
    for host, jump in (("c", "db-1"), ("c", "db-2"), ("c", "c")):
        row = Host.objects.get(name=host)
        row.jump_host = Host.objects.get(name=jump)
        if jump == "db-2":
            Host.objects.filter(name="db-2").update(jump_host=None)
        with pytest.raises(ValidationError) as caught:
            row.full_clean()
        assert set(caught.value.message_dict) == {"jump_host"}, jump


def test_form_saves_it_and_refuses_a_circle(folder, operator):
    folder.load()
    first, second = Host.objects.get(name="db-1"), Host.objects.get(name="db-2")
    response = operator.post(
        edit_url("host", "db-1"), shown(operator, edit_url("host", "db-1")) | {"jump_host": second.pk}
    )
    assert response.status_code == 302
    assert ways() == {"db-1": ["db-2"], "db-2": []}
    values = shown(operator, edit_url("host", "db-2"))
    response = operator.post(edit_url("host", "db-2"), values | {"jump_host": first.pk})
    assert "jump_host" in errors(response)
    for nonsense in ("\0", "x", "999999"):
        assert "jump_host" in errors(operator.post(edit_url("host", "db-2"), values | {"jump_host": nonsense}))
    response = operator.post(edit_url("host", "db-2"), values | {"name": "bastion"})
    assert response.status_code == 302
    assert ways() == {"db-1": ["bastion"], "bastion": []}
    assert 'data-jump-host="bastion"' in operator.get(reverse("inventory")).content.decode()


def test_jump_host_cannot_be_removed_before_the_hosts_behind_it(folder, operator):
    folder.load(with_jumps(folder, db_1="a", a=""))
    response = operator.post(reverse("inventory-remove", args=["host", "a"]), {"typed_name": "a"})
    assert (response.status_code, response.context["refused"].code) == (409, "fleet.in_use")
    folder.load(with_jumps(folder, a=""))
    assert operator.post(reverse("inventory-remove", args=["host", "a"]), {"typed_name": "a"}).status_code == 302
    assert not Host.objects.filter(name="a").exists()


def test_it_is_locked_while_an_instance_is_at_work(folder, operator):
    folder.load(with_jumps(folder, db_1="a", a=""))
    instances = {row.name: row for row in Instance.objects.all()}
    make_rebuild(target=instances["shop-2"], source=instances["shop-1"], status=Status.RUNNING)
    assert set(refused_fields(folder, with_jumps(folder, db_1="", a=""))) == {"jump_host"}
    values = shown(operator, edit_url("host", "db-1"))
    values.pop("jump_host")
    response = operator.post(edit_url("host", "db-1"), values)
    assert "__all__" in errors(response)
    assert ways()["db-1"] == ["a"]
    moved = shown(operator, edit_url("host", "a")) | {"ssh_address": "203.0.113.9"}
    assert operator.post(edit_url("host", "a"), moved).status_code == 302, "a jump host can be replaced in its row"
    assert jump_of(Host.objects.get(name="db-1")).address == "203.0.113.9"


def test_shell_and_database_go_the_same_way(folder):
    folder.load(with_jumps(folder, db_1="a", a="b", b=""))
    instance = Instance.objects.get(name="shop-1")
    shell = open_shell(instance.host)
    way = shell.address.jump
    assert (way.name, way.address, way.user) == ("a", "198.51.100.1", "jumper")
    assert (way.jump.name, way.jump.jump) == ("b", None)
    assert open_database(instance).address.jump == way
    assert open_database(Instance.objects.get(name="shop-2")).address.jump is None


def test_threads_need_no_database(folder, django_assert_num_queries):
    """Neither does the whole inventory need a query for each host."""
    folder.load(with_jumps(folder, db_1="a", a="b", b="c", c=""))
    instance = Instance.objects.select_related(f"host__{JUMPS}", "cluster").get(name="shop-1")
    with django_assert_num_queries(0):
        assert ssh_address_of(instance.host).jump.jump.jump.name == "c"
    rows = load()
    with django_assert_num_queries(0):
        assert [jump.name for jump in jump_hosts_of(rows.hosts["db-1"])] == ["c", "b", "a"]
