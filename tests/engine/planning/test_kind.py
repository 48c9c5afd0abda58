"""What a plan says of members of groups, servers of a service, and other products."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.instance import ProbeProblem
from dbops.engine.facts.server_kind import GALERA, GROUP_REPLICATION, MemberGroup, ServerKind
from dbops.engine.methods import METHODS
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.states import Severity
from tests.engine.builders import facts, inputs, member, primary_server, server, source_with, target_with
from tests.engine.by_name import run_checks

OK, WARNING, REFUSAL = Severity.OK, Severity.WARNING, Severity.REFUSAL
CLUSTER = MemberGroup(GALERA, "shop", state="Synced", size=3)
NAME = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
GROUP = MemberGroup(GROUP_REPLICATION, NAME, "ONLINE", "PRIMARY", 3, shares_gtids=True, origins=(NAME,))
SERVICES = ("Amazon RDS", "Amazon Aurora", "Google Cloud SQL", "Azure Database")


def found(of: PlanInputs, code: str, method: str = "xbstream") -> Severity:
    [finding] = [one for one in run_checks(of, method) if one.code == code]
    assert finding.seen
    assert finding.advice or finding.severity is OK
    return finding.severity


def in_group(group: MemberGroup) -> dict[str, Any]:
    return {"kind": ServerKind("MariaDB", group=group)}


def managed(service: str) -> dict[str, Any]:
    return {"kind": ServerKind(service, managed_by=service)}


def primary_with(**changes: Any) -> KnownInstance:
    return member("primary-1", "primary", 11, facts=facts(11, server=primary_server(**changes)))


def down(**changes: Any) -> KnownInstance:
    problem = ProbeProblem("mysql.unreachable", "refused")
    return member("replica-1", "replica", 13, facts=facts(13, server=None, server_problem=problem, **changes))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("group", [CLUSTER, GROUP, replace(GROUP, state="OFFLINE")])
def test_member_as_target_is_refused_by_every_method(group: MemberGroup, method: str) -> None:
    assert found(inputs(target=target_with(**in_group(group))), "target.group", method) is REFUSAL
    assert found(inputs(target=down(group_seen=group)), "target.group", method) is REFUSAL
    assert found(inputs(), "target.group", method) is OK


@pytest.mark.parametrize(
    "options",
    [
        {"wsrep_on": "ON", "wsrep_provider": "/usr/lib/galera/libgalera_smm.so", "wsrep_cluster_name": "shop"},
        {"group_replication_group_name": NAME},
    ],
)
def test_target_whose_option_file_makes_it_a_member_is_refused(options: dict[str, str]) -> None:
    config = facts(13).config
    assert config is not None
    config = replace(config, options=options)
    for target in (down(config=config), member("replica-1", "replica", 13, facts=facts(13, config=config))):
        assert found(inputs(target=target), "target.group") is REFUSAL


@pytest.mark.parametrize("method", ["xbstream", "clone"])
def test_member_as_source_is_refused(method: str) -> None:
    for group in (CLUSTER, GROUP):
        assert found(inputs(source=source_with(**in_group(group))), "source.group", method) is REFUSAL
    assert found(inputs(), "source.group", method) is OK


@pytest.mark.parametrize("method", ["archive", "dump"])
@pytest.mark.parametrize(
    ("of_source", "of_primary", "expected"),
    [
        (None, None, OK),
        (None, CLUSTER, OK),
        (CLUSTER, CLUSTER, REFUSAL),
        (replace(CLUSTER, shares_gtids=True), replace(CLUSTER, shares_gtids=True), OK),
        (GROUP, GROUP, OK),
        (GROUP, replace(GROUP, name=NAME.replace("a", "b")), REFUSAL),
        (GROUP, None, REFUSAL),
    ],
)
def test_backup_of_a_member_is_used_where_its_gtids_count(
    of_source: MemberGroup | None, of_primary: MemberGroup | None, expected: Severity, method: str
) -> None:
    source = source_with(**(in_group(of_source) if of_source else {}))
    primary = primary_with(**(in_group(of_primary) if of_primary else {}))
    assert found(inputs(source=source, primary=primary), "source.group", method) is expected


def test_backup_of_the_primary_is_used_though_its_gtids_are_its_own() -> None:
    primary = primary_with(**in_group(CLUSTER))
    assert found(inputs(source=primary, primary=primary), "source.group", "archive") is OK


@pytest.mark.parametrize(
    ("primary", "expected"),
    [
        (primary_with(), OK),
        (primary_with(**in_group(GROUP)), OK),
        (primary_with(**in_group(CLUSTER)), WARNING),
        (primary_with(**in_group(replace(CLUSTER, shares_gtids=True))), OK),
        (primary_with(**in_group(replace(GROUP, state="RECOVERING"))), WARNING),
        (primary_with(log_replica_updates=False), OK),
        (primary_with(log_replica_updates=False, **in_group(replace(CLUSTER, shares_gtids=True))), REFUSAL),
    ],
)
def test_primary_in_a_group_is_followed_if_it_logs_all(primary: KnownInstance, expected: Severity) -> None:
    assert found(inputs(primary=primary), "primary.group") is expected


@pytest.mark.parametrize("service", SERVICES)
def test_server_of_a_service_is_neither_read_nor_replaced(service: str) -> None:
    for method in METHODS:
        assert found(inputs(target=target_with(**managed(service))), "target.managed", method) is REFUSAL
        assert found(inputs(primary=primary_with(**managed(service))), "primary.managed", method) is WARNING
    for method in ("xbstream", "clone"):
        assert found(inputs(source=source_with(**managed(service))), "source.managed", method) is REFUSAL


@pytest.mark.parametrize("code", ["target.managed", "source.managed", "primary.managed"])
def test_server_of_an_unknown_kind_is_refused(code: str) -> None:
    older: dict[str, Any] = {"kind": None}
    of = inputs(target=target_with(**older), source=source_with(**older), primary=primary_with(**older))
    assert found(of, code) is REFUSAL


def test_other_product_causes_a_warning() -> None:
    other = {"kind": ServerKind("Percona Server")}
    assert found(inputs(source=source_with(**other)), "pair.product") is WARNING
    assert found(inputs(source=source_with(**other), target=target_with(**other)), "pair.product") is OK


MYSQL = {
    "flavor": "mysql",
    "version": "8.4.10",
    "server_uuid": "8f84f270-e51e-11f1-9a6c-02fc00000001",
    "gtid_binlog": "",
    "gtid_executed": f"{NAME}:1-100",
}


def test_transactions_of_the_group_are_not_errant() -> None:
    ahead = {**MYSQL, "server_uuid": "8f84f270-e51e-11f1-9a6c-02fc00000003", "gtid_executed": f"{NAME}:1-101"}
    of = inputs(
        primary=primary_with(**MYSQL, **in_group(GROUP)), source=source_with(**ahead), target=target_with(**ahead)
    )
    assert (found(of, "source.errant"), found(of, "target.errant")) == (OK, OK)
    alone = inputs(primary=primary_with(**MYSQL), source=source_with(**ahead), target=target_with(**ahead))
    assert (found(alone, "source.errant"), found(alone, "target.errant")) == (REFUSAL, WARNING)


def test_transactions_of_galera_members_in_the_inventory_are_not_errant() -> None:
    other = member("galera-2", "replica", 21, facts=facts(21, server=server(21, **in_group(CLUSTER))))
    primary, source = primary_with(**in_group(CLUSTER)), source_with(gtid_binlog="0-21-101", gtid_executed="0-21-101")
    of = inputs(primary=primary, source=source)
    assert found(of, "source.errant") is REFUSAL
    assert found(replace(of, members=(*of.members, other)), "source.errant") is OK
