"""Listings of each kind of source: what is read, what is skipped with its place, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.inventory.listing import MOST_REMARKS, MOST_SERVERS, BadListing, ListedServer, read_server
from dbops.engine.inventory.readers import SourceKind, read_document
from dbops.engine.states import Role

PRIMARY = {"Key": {"Hostname": "db1.shop", "Port": 3306}, "MasterKey": {"Hostname": "", "Port": 0}}


def read(kind: str, content: Any) -> list[ListedServer]:
    text = content if isinstance(content, str) else json.dumps(content)
    return list(read_document(SourceKind(kind), text).servers)


def replica(number: int, **changes: Any) -> dict[str, Any]:
    return {"Key": {"Hostname": f"db{number}.shop", "Port": 3306}, "MasterKey": PRIMARY["Key"], **changes}


@pytest.mark.parametrize("separator", [",", ";"])
def test_csv_has_all_columns(separator: str) -> None:
    text = (
        "\ufeffname,address,port,cluster,role,ssh_address,ssh_port,ssh_user,datadir,defaults_file,systemd_unit\r\n"
        "a,10.0.0.1,3307,shop,Master,10.1.0.1,2222,dbops,/srv/a b,/etc/my.cnf,mariadb@a\r\n\r\nb,10.0.0.2\r\n"
    )
    first, second = read("csv", text.replace(",", separator))
    assert first == ListedServer(
        *(
            "a",
            "10.0.0.1",
            3307,
            "shop",
            Role.PRIMARY,
            "10.1.0.1",
            2222,
            "dbops",
            "/srv/a b",
            "/etc/my.cnf",
            "mariadb@a",
        )
    )
    assert second == ListedServer("b", "10.0.0.2")


@pytest.mark.parametrize(
    "text",
    [
        *("", "name\na\n", "name,address,password\na,b,c\n", "name,name,address\na,b,c\n", 'name,address\n"a\n'),
        *("name,address\n", "name,address\na,bad address\n"),
    ],
)
def test_table_without_a_usable_server_is_refused(text: str) -> None:
    with pytest.raises(BadListing):
        read("csv", text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", "a b"), ("name", "../a"), ("name", "a" * 64), ("address", "-oProxyCommand=x"), ("address", "a;b")),
        *(("port", "0"), ("port", "65536"), ("port", "3_306"), ("port", "٣"), ("port", [1]), ("role", "boss")),
        *(("datadir", "srv"), ("datadir", "/a\nb"), ("ssh_user", "-l"), ("ssh_user", "a b"), ("cluster", "{{ x }}")),
        ("systemd_unit", "a;reboot"),
    ],
)
def test_value_that_the_inventory_cannot_have_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} "):
        read_server({"name": "a", "address": "b", field: value})


def test_skipped_entries_are_named_and_the_others_kept() -> None:
    listing = read_document(
        SourceKind.CSV, "name,address\na,1.1.1.1\n-x,1.1.1.2\nb,1.1.1.1\nA,1.1.1.3\nc,d,e\nf,1.1.1.4\n"
    )
    assert [server.name for server in listing.servers] == ["a", "f"]
    assert [remark.split(":")[0] for remark in listing.remarks] == ["row 3", "row 4", "row 5", "row 6"]


def test_limits() -> None:
    rows = "".join(f"n{number},h{number}\n" for number in range(MOST_SERVERS + 1))
    with pytest.raises(BadListing):
        read("csv", "name,address\n" + rows)
    bad = "-,x\n" * (MOST_REMARKS + 5)
    assert len(read_document(SourceKind.CSV, f"name,address\na,b\n{bad}").remarks) == MOST_REMARKS + 1


def test_ansible_hosts_with_a_cluster_count() -> None:
    found = read(
        "ansible",
        {
            "_meta": {
                "hostvars": {
                    "web-1": {"ansible_host": "10.0.0.9"},
                    "shop-1": {
                        **{"dbops_cluster": "shop", "dbops_role": "primary", "ansible_host": "10.0.0.1"},
                        **{"ansible_port": 2222, "ansible_user": "ops", "mysql_port": 3310, "cluster": "not ours"},
                        "mysql_root_password": {"__ansible_vault": "..."},
                    },
                    "shop-2": {
                        **{
                            "dbops_cluster": "shop",
                            "dbops_instances": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
                        },
                    },
                }
            },
            "all": {"children": ["ungrouped"]},
        },
    )
    assert found[0] == ListedServer(
        *("shop-1", "10.0.0.1", 3310, "shop", Role.PRIMARY, "10.0.0.1", 2222, "ops"),
    )
    assert [(one.name, one.address, one.port, one.ssh_address) for one in found[1:]] == [
        ("a", "shop-2", 1, "shop-2"),
        ("b", "shop-2", 2, "shop-2"),
    ]


def test_orchestrator_roles_clusters_and_names() -> None:
    found = read(
        "orchestrator",
        [
            PRIMARY | {"ClusterName": "db1.shop:3306", "SuggestedClusterAlias": "shop"},
            replica(2, ClusterName="db1.shop:3306"),
            replica(3, SuggestedClusterAlias="shop", IsCoMaster=True),
            {"Key": {"Hostname": "db1.other", "Port": 3306}, "MasterKey": None},
        ],
    )
    assert [(one.name, one.role, one.cluster) for one in found] == [
        ("db1.shop", Role.PRIMARY, "shop"),
        ("db2", Role.REPLICA, "db1.shop-3306"),
        ("db3", None, "shop"),
        ("db1.other", Role.PRIMARY, ""),
    ]
    assert not any(one.has_own_name for one in found)


def test_servers_of_one_host_get_names_with_their_ports() -> None:
    keys = [{"Key": {"Hostname": "10.0.0.1", "Port": port}} for port in (3306, 3307)]
    assert [one.name for one in read("orchestrator", keys)] == ["10.0.0.1-3306", "10.0.0.1-3307"]


def test_replication_manager_states() -> None:
    states = {
        "Master": Role.PRIMARY,
        "Slave": Role.REPLICA,
        "SlaveErr": Role.REPLICA,
        "Failed": None,
        "StandAlone": None,
    }
    rows = [{"host": f"h{number}", "port": "3306", "state": state} for number, state in enumerate(states)]
    found = read("replication-manager", {"shop": rows})
    assert [one.role for one in found] == list(states.values())
    assert {one.cluster for one in found} == {"shop"}


@pytest.mark.parametrize("kind", [kind for kind in SourceKind if kind is not SourceKind.CSV])
@pytest.mark.parametrize(
    "text", ["", "<html>", "[]", "{}", "3", "[" * 100_000, '[{"Key": 3}]', '{"_meta": 3}', '{"a": [3]}']
)
def test_answer_of_another_kind_is_refused(kind: SourceKind, text: str) -> None:
    with pytest.raises(BadListing):
        read_document(kind, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["Key", "Hostname", "Port", "MasterKey", "_meta", "hostvars", "host", "port", "dbops_cluster"]
            ),
            inner,
        )
    ),
    max_leaves=15,
)


@given(kind=st.sampled_from(SourceKind), content=JSON)
def test_no_answer_is_more_than_refused(kind: SourceKind, content: Any) -> None:
    try:
        servers = read(kind, content)
    except BadListing:
        return
    assert all(read_server({"name": one.name, "address": one.address, "port": one.port}) for one in servers)
