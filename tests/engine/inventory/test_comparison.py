"""Which listed server is which instance, and what differs."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.inventory.comparison import DifferenceCode, KnownServer, compare
from dbops.engine.inventory.listing import ListedServer, Listing
from dbops.engine.states import Role

KNOWN = (
    KnownServer("shop-1", "shop", Role.PRIMARY, "10.0.0.1", 3306, ("shop-1.corp",)),
    KnownServer("shop-2", "shop", Role.REPLICA, "10.0.0.2", 3306),
    KnownServer("shop-3", "shop", Role.BACKUP, "10.0.0.3", 3306),
    KnownServer("blog-1", "blog", Role.PRIMARY, "10.0.1.1", 3306),
)
EQUAL = {
    "shop-1": ListedServer("shop-1", "10.0.0.1", cluster="shop", role=Role.PRIMARY),
    "shop-2": ListedServer("shop-2", "10.0.0.2", cluster="shop", role=Role.REPLICA),
    "shop-3": ListedServer("shop-3", "10.0.0.3", cluster="shop", role=Role.REPLICA),
}


def found(*servers: ListedServer) -> list[tuple[str, str, str, str]]:
    differences = compare(Listing(servers), KNOWN).differences
    return [(one.code.value, one.server, one.listed, one.known) for one in differences]


def changed(which: str, /, **values: Any) -> list[ListedServer]:
    return [replace(server, **values) if server.name == which else server for server in EQUAL.values()]


def test_equal_listing_has_no_difference_and_other_clusters_do_not_matter() -> None:
    assert found(*EQUAL.values()) == []


@pytest.mark.parametrize("address", ["SHOP-1.CORP", "10.0.0.1"])
def test_server_is_found_by_each_address(address: str) -> None:
    assert found(*changed("shop-1", name="x", address=address)) == []


def test_new_and_missing_servers() -> None:
    new = ListedServer("shop-9", "10.0.0.9", cluster="shop")
    listed = [EQUAL["shop-1"], EQUAL["shop-2"], new]
    assert found(*listed) == [
        ("not_in_inventory", "shop-9", "10.0.0.9:3306", ""),
        ("not_listed", "shop-3", "", "10.0.0.3:3306"),
    ]
    assert compare(Listing(tuple(listed)), KNOWN).new == (new,)


def test_name_counts_only_if_the_source_gives_it() -> None:
    other = changed("shop-2", address="10.9.9.9")
    assert found(*other) == [("address", "shop-2", "10.9.9.9:3306", "10.0.0.2:3306")]
    derived = changed("shop-2", address="10.9.9.9", has_own_name=False)
    assert [one[0] for one in found(*derived)] == ["not_in_inventory", "not_listed"]


def test_two_listed_servers_are_never_one_instance() -> None:
    again = ListedServer("shop-1", "10.9.9.9", cluster="shop")
    assert found(*changed("shop-1", name="renamed"), again) == [("not_in_inventory", "shop-1", "10.9.9.9:3306", "")]


def test_other_port_is_another_address() -> None:
    assert found(*changed("shop-2", port=3307)) == [("address", "shop-2", "10.0.0.2:3307", "10.0.0.2:3306")]


@pytest.mark.parametrize(
    ("name", "role", "differs"),
    [
        ("shop-1", Role.REPLICA, True),
        ("shop-2", Role.PRIMARY, True),
        ("shop-2", Role.BACKUP, True),
        ("shop-3", Role.PRIMARY, True),
        ("shop-3", Role.BACKUP, False),
        ("shop-1", None, False),
    ],
)
def test_roles(name: str, role: Role | None, differs: bool) -> None:
    known = next(one.role.value for one in KNOWN if one.name == name)
    expected = [("role", name, role.value, known)] if role and differs else []
    assert found(*changed(name, role=role)) == expected


def test_clusters_may_have_other_names() -> None:
    renamed = [replace(server, cluster="shop-alias") for server in EQUAL.values()]
    assert found(*renamed) == []
    assert found(*renamed[:2]) == [("not_listed", "shop-3", "", "10.0.0.3:3306")]
    new = ListedServer("shop-9", "10.0.0.9", cluster="shop-alias")
    assert [one.cluster for one in compare(Listing((*renamed, new)), KNOWN).new] == ["shop"]
    moved = ListedServer("blog-1", "10.0.1.1", cluster="shop-alias", role=Role.PRIMARY)
    assert found(*renamed, moved) == [("cluster", "blog-1", "shop", "blog")]


def test_source_without_clusters_misses_nothing() -> None:
    assert found(ListedServer("shop-1", "10.0.0.1")) == []


def test_code_is_a_word_of_the_command() -> None:
    assert {code.value for code in DifferenceCode} == {"not_in_inventory", "not_listed", "address", "role", "cluster"}
