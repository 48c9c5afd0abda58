"""Products, services and groups, from what such servers report. Records of services and of Percona's servers are public ones."""

import pytest

from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.facts.server_kind import GALERA, GROUP_REPLICATION, MemberGroup, ServerKind
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.server_kind import (
    KIND_VARIABLES,
    configured_group,
    galera_group,
    is_in_galera,
    kind_from,
    replication_group,
)
from tests.engine import builders

#: version, version_comment, other variables: as recorded. Then the product and the service.
SERVERS = [
    ("10.11.19-MariaDB-0+deb12u1-log", "Debian 12", {"basedir": "/usr/"}, "MariaDB", ""),
    ("11.8.6-MariaDB", "mariadb.org binary distribution", {}, "MariaDB", ""),
    ("9.7.4-2", "(Debian)", {"basedir": "/usr/"}, "MySQL", ""),
    ("8.0.46-0ubuntu0.24.04.5", "(Ubuntu)", {}, "MySQL", ""),
    ("8.4.8-8", "Percona Server (GPL), Release 8, Revision 7b9d5e5a", {}, "Percona Server", ""),
    ("5.7.44-48-log", "Percona Server (GPL), Release 48, Revision 497f936a373", {}, "Percona Server", ""),
    (
        "8.0.36-28.1",
        "Percona XtraDB Cluster (GPL), Release rel28, Revision bfb687f, WSREP version 26.1.4.3",
        {},
        "Percona XtraDB Cluster",
        "",
    ),
    (
        "8.0.35",
        "Source distribution",
        {"basedir": "/rdsdbbin/mysql-8.0.35.R2/", "datadir": "/rdsdbdata/db/"},
        "Amazon RDS (MySQL)",
        "Amazon RDS",
    ),
    ("10.11.7-MariaDB", "managed by https://aws.amazon.com/rds/", {}, "Amazon RDS (MariaDB)", "Amazon RDS"),
    (
        "8.0.32",
        "Source distribution",
        {"aurora_version": "3.05.2", "basedir": "/rdsdbbin/oscar-8.0.mysql_aurora.3.05.2/"},
        "Amazon Aurora MySQL",
        "Amazon Aurora",
    ),
    ("8.0.31-google", "(Google)", {}, "Google Cloud SQL (MySQL)", "Google Cloud SQL"),
    ("5.7.44-google-log", "(Google)", {}, "Google Cloud SQL (MySQL)", "Google Cloud SQL"),
    ("8.0.42-azure", "Source distribution", {}, "Azure Database (MySQL)", "Azure Database"),
]


@pytest.mark.parametrize(("version", "comment", "variables", "product", "service"), SERVERS)
def test_product_and_service_are_recognized(
    version: str, comment: str, variables: dict[str, str], product: str, service: str
) -> None:
    values = {"version": version, "version_comment": comment, **variables}
    kind = kind_from(values, None, flavor=flavor_for(version, comment).name)
    assert (kind.product, kind.managed_by, kind.group) == (product, service, None)
    assert set(variables) <= set(KIND_VARIABLES)


#: As MariaDB 10.11.19 with galera-4 26.4.23 printed them.
GALERA_VARIABLES = {
    "wsrep_on": "ON",
    "wsrep_provider": "/usr/lib/galera/libgalera_smm.so",
    "wsrep_cluster_name": "shop",
    "wsrep_gtid_mode": "OFF",
}
UUID, INVERTED = "1946f9a0-e973-11f1-9630-a257d2354f05", "e6b9065f-168c-ee0e-69cf-5da82dcab0fa"
GALERA_STATUS = {
    "wsrep_cluster_state_uuid": UUID,
    "wsrep_cluster_status": "Primary",
    "wsrep_cluster_size": "3",
    "wsrep_local_state_comment": "Synced",
    "wsrep_incoming_addresses": "10.0.0.1:3306,AUTO,10.0.0.3:3306",
}


def test_galera_member_is_read() -> None:
    assert is_in_galera(GALERA_VARIABLES)
    group = galera_group(GALERA_VARIABLES, GALERA_STATUS, flavor="mariadb")
    assert (group.mechanism, group.name, group.state, group.size) == (GALERA, "shop", "Synced", 3)
    assert group.members == ("10.0.0.1:3306", "10.0.0.3:3306")
    assert (group.shares_gtids, group.origins) == (False, ())


def test_galera_gtids_are_shared_by_mode_or_by_mysql() -> None:
    mode = galera_group({**GALERA_VARIABLES, "wsrep_gtid_mode": "ON"}, GALERA_STATUS, flavor="mariadb")
    assert mode.shares_gtids
    mysql = galera_group({**GALERA_VARIABLES, "gtid_mode": "ON"}, GALERA_STATUS, flavor="mysql")
    assert (mysql.shares_gtids, set(mysql.origins)) == (True, {UUID, INVERTED})
    assert not galera_group({**GALERA_VARIABLES, "gtid_mode": "OFF"}, GALERA_STATUS, flavor="mysql").shares_gtids


def test_galera_member_without_a_majority_says_so() -> None:
    lost = galera_group(GALERA_VARIABLES, {**GALERA_STATUS, "wsrep_cluster_status": "non-Primary"}, flavor="mariadb")
    assert lost.state not in ("Synced", "")
    assert galera_group(GALERA_VARIABLES, {}, flavor="mariadb").size is None


@pytest.mark.parametrize(
    "changes", [{"wsrep_on": "OFF"}, {"wsrep_provider": "none"}, {"wsrep_provider": ""}, {"wsrep_on": ""}]
)
def test_server_without_provider_is_in_no_galera_cluster(changes: dict[str, str]) -> None:
    assert not is_in_galera({**GALERA_VARIABLES, **changes})


NAME, SERVER = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "32093c90-e973-11f1-9386-02fc00000001"
#: As MySQL 9.7.4 printed it, and as 5.7 does, which has fewer columns.
ROW = {
    "CHANNEL_NAME": "group_replication_applier",
    "MEMBER_ID": SERVER,
    "MEMBER_HOST": "127.0.0.1",
    "MEMBER_PORT": 37201,
    "MEMBER_STATE": "ONLINE",
    "MEMBER_ROLE": "PRIMARY",
    "MEMBER_VERSION": "9.7.4",
    "MEMBER_COMMUNICATION_STACK": "XCom",
}
GROUP_VARIABLES = {
    "group_replication_group_name": NAME,
    "group_replication_view_change_uuid": "AUTOMATIC",
    "server_uuid": SERVER,
}


def test_member_of_group_replication_is_read() -> None:
    other = {**ROW, "MEMBER_ID": NAME[::-1], "MEMBER_PORT": 37202, "MEMBER_ROLE": "SECONDARY"}
    group = replication_group(GROUP_VARIABLES, [other, ROW])
    assert group == MemberGroup(
        GROUP_REPLICATION,
        NAME,
        state="ONLINE",
        role="PRIMARY",
        size=2,
        members=("127.0.0.1:37202", "127.0.0.1:37201"),
        shares_gtids=True,
        origins=(NAME,),
    )
    old = {name: value for name, value in ROW.items() if name not in ("MEMBER_ROLE", "MEMBER_VERSION")}
    assert (replication_group(GROUP_VARIABLES, [old]) or group).role == ""


def test_member_that_does_not_run_is_offline_and_an_unreadable_one_unknown() -> None:
    offline = {**ROW, "MEMBER_ID": "", "MEMBER_HOST": "", "MEMBER_PORT": None, "MEMBER_STATE": "OFFLINE"}
    stopped = replication_group(GROUP_VARIABLES, [offline])
    assert stopped is not None
    assert (stopped.state, stopped.size, stopped.members) == ("OFFLINE", 0, ())
    unread = replication_group(GROUP_VARIABLES, None)
    assert unread is not None
    assert (unread.state, unread.size) == ("", None)
    assert replication_group({"group_replication_group_name": ""}, [offline]) is None


@pytest.mark.parametrize(
    ("options", "flavor", "mechanism"),
    [
        ({"wsrep_on": "ON", "wsrep_provider": "/usr/lib/galera/libgalera_smm.so"}, "mariadb", GALERA),
        ({"wsrep_on": "1", "wsrep_provider": "/usr/lib/galera/libgalera_smm.so"}, "mariadb", GALERA),
        ({"wsrep_on": "OFF", "wsrep_provider": "/usr/lib/galera/libgalera_smm.so"}, "mariadb", ""),
        ({"wsrep_provider": "/usr/lib/galera/libgalera_smm.so"}, "mariadb", ""),
        ({"wsrep_provider": "/usr/lib/galera4/libgalera_smm.so"}, "mysql", GALERA),
        ({"wsrep_on": "ON", "wsrep_provider": "none"}, "mariadb", ""),
        ({"wsrep_on": "ON"}, "mariadb", ""),
        ({"group_replication_group_name": NAME}, "mysql", GROUP_REPLICATION),
        ({"group_replication_group_name": ""}, "mysql", ""),
        ({}, "mysql", ""),
    ],
)
def test_option_file_makes_a_member(options: dict[str, str], flavor: str, mechanism: str) -> None:
    group = configured_group(options, flavor=flavor)
    assert (group.mechanism if group else "") == mechanism


def test_kind_survives_json() -> None:
    group = galera_group(GALERA_VARIABLES, GALERA_STATUS, flavor="mariadb")
    facts = builders.facts(12, server=builders.server(12, kind=ServerKind("MariaDB", group=group)), group_seen=group)
    assert from_record(InstanceFacts, to_record(facts)) == facts
