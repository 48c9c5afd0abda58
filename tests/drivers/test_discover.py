"""Following replication over servers that answer as real ones do."""

from typing import Any

from dbops.drivers.discover import Bounds, discover
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.ports import Database
from dbops.engine.topology.nodes import DiscoveryResult, Node, Silent
from tests.said import names


class Server(Database):
    """A server of a small world: ``sources`` and ``hosts`` are what it says, ``processes`` who is connected."""

    def __init__(self, number: int, **values: Any) -> None:
        self.number = number
        self.flavor: str = values.pop("flavor", "mariadb")
        self.sources: list[tuple[str, int]] = values.pop("sources", [])
        self.hosts: list[dict[str, Any]] = values.pop("hosts", [])
        self.processes: list[dict[str, Any]] = values.pop("processes", [])
        self.error: Exception | None = values.pop("error", None)
        self.forbidden: str = values.pop("forbidden", "")
        self.group: list[dict[str, Any]] = values.pop("group", [])
        self.values = {
            "server_id": str(number),
            "hostname": f"db-{number}",
            "port": "3306",
            "datadir": "/var/lib/mysql/",
            "read_only": "ON" if self.sources else "OFF",
            "log_bin": "ON",
            **({"server_uuid": f"uuid-{number}"} if self.flavor == "mysql" else {}),
            **values,
        }
        self.asked = 0

    def query(self, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
        self.asked += 1
        if self.error:
            raise self.error
        if self.forbidden and self.forbidden in sql:
            raise RemoteFailure("mysql.error", "Running", cause="1227: Access denied; you need SUPER")
        if "VERSION()" in sql:
            mysql = self.flavor == "mysql"
            return [{"version": "8.4.3" if mysql else "10.11.19-MariaDB", "comment": "MySQL" if mysql else "MariaDB"}]
        if "VARIABLES" in sql:
            return [{"Variable_name": name, "Value": value} for name, value in self.values.items()]
        if "GLOBAL STATUS" in sql or "replication_group_members" in sql:
            return self.group
        if sql in ("SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS"):
            new = sql == "SHOW REPLICA STATUS"
            source, replica = ("Source", "Replica") if new else ("Master", "Slave")
            return [
                {
                    f"{source}_Host": host,
                    f"{source}_Port": port,
                    f"{replica}_IO_Running": "Yes",
                    f"{replica}_SQL_Running": "Yes",
                }
                for host, port in self.sources
            ]
        if sql in ("SHOW SLAVE HOSTS", "SHOW REPLICAS"):
            return self.hosts
        if sql == "SHOW FULL PROCESSLIST":
            return self.processes
        raise AssertionError(sql)

    def execute(self, sql: str, parameters: Any = ()) -> None:
        raise AssertionError("a discovery changes nothing")

    def close(self) -> None:
        pass


class World:
    def __init__(self, servers: dict[tuple[str, int], Server]) -> None:
        self.servers = servers

    def open(self, host: str, port: int) -> Database:
        nobody = Server(0, error=Unreachable("mysql.unreachable", f"Talking to {host}", cause="2003: refused"))
        return self.servers.get((host, port), nobody)

    def discover(self, host: str, port: int = 3306, **bounds: Any) -> DiscoveryResult:
        return discover((host, port), self.open, Bounds(**bounds))


def reported(number: int, host: str, port: int = 3306) -> dict[str, Any]:
    return {"Server_id": number, "Host": host, "Port": port}


def dump(host: str) -> dict[str, Any]:
    return {"Host": host, "Command": "Binlog Dump GTID", "Info": None, "User": "repl"}


def by_address(found: DiscoveryResult) -> dict[str, Node]:
    return {f"{host}:{port}": node for node in found.nodes for host, port in node.addresses}


def test_discovery_walks_up_to_the_primary_and_down_to_replicas() -> None:
    for flavor in ("mariadb", "mysql"):
        world = World(
            {
                ("p", 3306): Server(
                    1, flavor=flavor, hosts=[reported(2, "b"), reported(3, "r")], processes=[dump("b:1"), dump("r:1")]
                ),
                ("b", 3306): Server(2, flavor=flavor, sources=[("p", 3306)]),
                ("r", 3306): Server(
                    3, flavor=flavor, sources=[("p", 3306)], hosts=[reported(4, "c")], processes=[dump("c:1")]
                ),
                ("c", 3306): Server(4, flavor=flavor, sources=[("r", 3306)]),
            }
        )
        found = world.discover("c")
        nodes = by_address(found)
        assert set(nodes) == {"p:3306", "b:3306", "r:3306", "c:3306"}
        assert nodes["c:3306"].links is not None
        assert nodes["c:3306"].links[0].source == nodes["r:3306"].key
        assert not any(node.silent for node in found.nodes)
        assert found.left_out == ()


def test_discovery_merges_two_addresses_of_one_server() -> None:
    primary = Server(1, hosts=[reported(2, "r")], processes=[dump("r:1")])
    world = World({("p", 3306): primary, ("vip", 3306): primary, ("r", 3306): Server(2, sources=[("vip", 3306)])})
    found = world.discover("p")
    assert [node.addresses for node in found.nodes] == [(("p", 3306), ("vip", 3306)), (("r", 3306),)]
    links = found.nodes[1].links
    assert links is not None
    assert links[0].source == found.nodes[0].key


def test_discovery_reads_what_a_server_is() -> None:
    galera = Server(
        1,
        wsrep_on="ON",
        wsrep_provider="/usr/lib/galera/libgalera_smm.so",
        wsrep_cluster_name="shop",
        group=[{"Variable_name": "wsrep_cluster_size", "Value": "3"}],
        hosts=[reported(2, "r")],
        processes=[dump("r:1")],
    )
    aurora = Server(2, sources=[("p", 3306)], aurora_version="3.05.2")
    found = by_address(World({("p", 3306): galera, ("r", 3306): aurora}).discover("p"))
    galera_kind, aurora_kind = found["p:3306"].kind, found["r:3306"].kind
    assert galera_kind is not None
    assert galera_kind.group is not None
    assert (galera_kind.product, galera_kind.group.name, galera_kind.group.size) == ("MariaDB", "shop", 3)
    assert aurora_kind is not None
    assert (aurora_kind.managed_by, aurora_kind.group) == ("Amazon Aurora", None)


def test_discovery_of_a_group_whose_members_the_account_may_not_read_names_it() -> None:
    name = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    member = Server(1, flavor="mysql", group_replication_group_name=name, forbidden="replication_group_members")
    [node] = World({("p", 3306): member}).discover("p").nodes
    assert node.kind is not None
    assert node.kind.group is not None
    assert (node.kind.group.name, node.kind.group.state, node.kind.group.size) == (name, "", None)


def test_discovery_keeps_two_servers_with_one_uuid() -> None:
    world = World(
        {
            ("p", 3306): Server(1, flavor="mysql", server_uuid="same", hosts=[reported(2, "r")]),
            ("r", 3306): Server(2, flavor="mysql", server_uuid="same", sources=[("p", 3306)]),
        }
    )
    assert len(world.discover("p").nodes) == 2


def test_discovery_resolves_localhost_to_the_reporting_server() -> None:
    world = World(
        {
            ("box", 3307): Server(2, port="3307", sources=[("127.0.0.1", 3306)]),
            ("box", 3306): Server(1, hosts=[reported(2, "localhost", 3307)], processes=[dump("localhost:41")]),
        }
    )
    found = world.discover("box", 3307)
    assert set(by_address(found)) == {"box:3306", "box:3307"}


def test_discovery_lists_silent_replicas_without_port() -> None:
    world = World({("p", 3306): Server(1, processes=[dump("10.0.0.9:5123"), dump("10.0.0.8:5124")])})
    node = world.discover("p").nodes[0]
    assert node.silent == (Silent("10.0.0.9"), Silent("10.0.0.8"))
    assert node.attached == 2


def test_discovery_finds_a_replica_without_report_host() -> None:
    hosts = [{"Server_id": 2, "Host": "", "Port": 3306}]
    primary = Server(1, hosts=hosts, processes=[dump("r:1")])
    world = World({("p", 3306): primary, ("r", 3306): Server(2, sources=[("p", 3306)])})
    from_above = world.discover("p")
    assert from_above.nodes[0].silent == (Silent("r", 3306, 2),)
    assert names(from_above.nodes[0].silent[0].description, 2, "r", 3306)
    from_below = world.discover("r")
    assert len(from_below.nodes) == 2
    assert not any(node.silent for node in from_below.nodes)


def test_discovery_places_a_refused_replica_below_its_source() -> None:
    denied = RemoteFailure("mysql.access_denied", "Logging in", cause="1045: Access denied")
    world = World({("p", 3306): Server(1, hosts=[reported(2, "r")]), ("r", 3306): Server(2, error=denied)})
    found = world.discover("p")
    replica = by_address(found)["r:3306"]
    assert replica.problem is not None
    assert replica.problem.code == "mysql.access_denied"
    assert replica.links is not None
    assert replica.links[0].source == found.nodes[0].key


def test_discovery_ends_in_a_ring() -> None:
    world = World(
        {
            ("a", 3306): Server(1, sources=[("b", 3306)], hosts=[reported(2, "b")]),
            ("b", 3306): Server(2, sources=[("a", 3306)], hosts=[reported(1, "a")]),
        }
    )
    assert len(world.discover("a").nodes) == 2


def test_discovery_reports_a_refused_statement_and_reads_the_rest() -> None:
    world = World({("r", 3306): Server(2, sources=[("p", 3306)], forbidden="SLAVES STATUS")})
    node = world.discover("r").nodes[0]
    assert node.links is None
    assert len(node.unread) == 1
    assert node.server_id == 2


def test_discovery_has_limits_and_lists_omissions() -> None:
    hosts = [reported(number, f"r{number}") for number in range(2, 30)]
    servers = {("p", 3306): Server(1, hosts=hosts)}
    servers |= {(f"r{number}", 3306): Server(number, sources=[("p", 3306)]) for number in range(2, 30)}
    found = World(servers).discover("p", servers=5)
    assert len(found.nodes) == 5
    assert len(found.left_out) == 24
    assert "5 addresses" in found.left_out[0]


def test_discovery_of_a_silent_address_is_one_node() -> None:
    found = World({}).discover("nowhere")
    assert len(found.nodes) == 1
    assert found.nodes[0].problem is not None
    assert found.nodes[0].problem.code == "mysql.unreachable"


def test_discovery_finds_a_binlog_dump_process() -> None:
    row = {"Host": "x", "Command": "Query", "Info": "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`", "User": "backup"}
    world = World({("b", 3306): Server(2, sources=[("p", 3306)], processes=[row])})
    assert len(world.discover("b").nodes[0].backups) == 1
