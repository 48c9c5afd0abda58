"""How the target replicated, on the plan: kept, changed, refused."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.facts.instance import ProbeProblem, RunTimeSetting, from_record, to_record
from dbops.engine.facts.stored_data import LoadedPlugin, StoredData
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.kept_replication import Fate, KeptReplication
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.preflight.live_check import differences
from dbops.engine.states import Severity
from tests.engine.builders import facts, inputs, link, member, source_with, target_with
from tests.engine.by_name import build_plan, run_checks

TLS = {"MASTER_SSL": "1", "MASTER_SSL_CA": "/etc/ca.pem", "MASTER_DELAY": "60", "IGNORE_DOMAIN_IDS": "7"}


def severities(of: PlanInputs, code: str) -> set[Severity]:
    return {finding.severity for finding in run_checks(of) if finding.code == code}


def with_link(**changes: Any) -> PlanInputs:
    return inputs(target=target_with(replication=(link(**{"options": TLS, **changes}),)), replication_user="repl")


def kept_of(of: PlanInputs) -> KeptReplication:
    kept = build_plan(of).replication
    assert kept
    return kept


def fates(kept: KeptReplication) -> dict[str, Fate]:
    return {one.name: one.fate for one in kept.settings}


def test_settings_are_on_the_plan_and_in_its_statements() -> None:
    plan = build_plan(with_link(channel="main"))
    kept = plan.replication
    assert kept
    assert (kept.channel, kept.options) == ("main", TLS)
    texts = {step.name: " ".join(command.text for command in step.commands) for step in plan.steps}
    assert "MASTER_SSL = 1" in texts["catch-up"]
    assert "DOMAIN_IDS" not in texts["catch-up"]
    assert "IGNORE_DOMAIN_IDS = (7)" in texts["repoint"]
    assert "DELAY" not in texts["catch-up"] + texts["repoint"]
    assert "MASTER_DELAY = 60" in texts["verify"]


def test_changed_account_and_source_are_named() -> None:
    found = fates(kept_of(with_link(source_user="old", source_host="10.0.0.99", uses_gtid=False)))
    assert {found[name] for name in ("account", "source", "position")} == {Fate.CHANGED}
    assert found["MASTER_SSL"] is Fate.KEPT


def test_last_reading_counts_while_the_server_is_down() -> None:
    silent = facts(
        13, server=None, server_problem=ProbeProblem("mysql.unreachable", "gone"), replication_seen=(link(options=TLS),)
    )
    kept = kept_of(inputs(target=member("replica-1", "replica", 13, facts=silent)))
    assert kept.is_last_known
    assert kept.options == TLS


def test_record_without_settings_keeps_nothing() -> None:
    assert build_plan(inputs()).replication is None


def test_other_settings_make_another_plan() -> None:
    one, other = build_plan(with_link()), build_plan(with_link(options={**TLS, "MASTER_DELAY": "61"}))
    assert one.fingerprint != other.fingerprint
    found = differences(one, other)
    assert found
    assert all("MASTER_DELAY" in text for text in found), "only what differs is named"
    assert differences(one, one) == []
    assert one.replication
    earlier = replace(one, replication=replace(one.replication, is_last_known=True))
    assert len(differences(one, earlier)) == 1
    reasoned = replace(one.replication, settings=(replace(one.replication.settings[0], reason="other"),))
    assert differences(one, replace(one, replication=reasoned))
    assert len(differences(one, replace(one, replication=None))) > 3


def test_plan_survives_its_record() -> None:
    plan = build_plan(with_link(filters={"Replicate_Do_DB": "a"}))
    assert from_record(Plan, to_record(plan)).replication == plan.replication


def test_several_connections_are_refused() -> None:
    two = (link(channel="main"), link(channel="erp"))
    assert severities(inputs(target=target_with(replication=two)), "target.sources") == {Severity.REFUSAL}
    silent = facts(13, server=None, server_problem=ProbeProblem("mysql.unreachable", "gone"), replication_seen=two)
    down = inputs(target=member("replica-1", "replica", 13, facts=silent))
    assert severities(down, "target.sources") == {Severity.REFUSAL}
    never = inputs(target=member("replica-1", "replica", 13, facts=replace(silent, replication_seen=None)))
    assert severities(never, "target.sources") == {Severity.WARNING}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/ca.pem", Severity.OK),
        ("ca.pem", Severity.REFUSAL),
        ("/var/lib/mysql/ssl/ca.pem", Severity.REFUSAL),
        ("/etc/../var/lib/mysql/ca.pem", Severity.REFUSAL),
        ("/var/lib/mysql-tls/ca.pem", Severity.OK),
    ],
)
def test_files_inside_the_data_directory_are_refused(path: str, expected: Severity) -> None:
    found = severities(with_link(options={**TLS, "MASTER_SSL_CA": path}), "target.replication_files")
    assert found == {expected}


def test_filters_are_warned_of() -> None:
    plain = {**TLS, "IGNORE_DOMAIN_IDS": ""}
    assert severities(with_link(), "target.filters") == {Severity.WARNING}
    assert severities(with_link(options=plain), "target.filters") == {Severity.OK}
    named = with_link(options=plain, filters={"Replicate_Do_DB": "a"})
    assert severities(named, "target.filters") == {Severity.WARNING}


def test_filter_that_no_statement_can_set_is_lost() -> None:
    filters = {"Replicate_Do_DB": "a", "Replicate_Rewrite_DB": "a->b"}
    target = target_with(version="10.6.27", replication=(link(options=TLS, filters=filters),))
    found = inputs(target=target, source=source_with(version="10.6.27"))
    kept = kept_of(found)
    assert kept.filters == {"Replicate_Do_DB": "a"}
    assert fates(kept)["Replicate_Rewrite_DB"] is Fate.LOST
    assert kept_of(with_link(filters=filters)).filters == filters


def test_numbers_are_equal_in_each_form() -> None:
    kept = KeptReplication(options={"MASTER_HEARTBEAT_PERIOD": "3.000", "MASTER_SSL": "1"})
    assert kept.differing({"MASTER_HEARTBEAT_PERIOD": "3.0", "MASTER_SSL": "0"}) == {"MASTER_SSL": "1"}
    assert kept.differing({"MASTER_SSL": "1"}) == {"MASTER_HEARTBEAT_PERIOD": "3.000"}


def test_inventory_changes_what_it_names() -> None:
    wanted = replace(
        target_with(replication=(link(options=TLS),)),
        replication_tls="verify",
        replication_tls_ca="/etc/other.pem",
        replication_delay_seconds=0,
    )
    kept = kept_of(inputs(target=wanted))
    assert kept.options == {
        "MASTER_SSL": "1",
        "MASTER_SSL_CA": "/etc/other.pem",
        "MASTER_SSL_VERIFY_SERVER_CERT": "1",
        "MASTER_DELAY": "0",
        "IGNORE_DOMAIN_IDS": "7",
    }
    found = fates(kept)
    assert (found["MASTER_SSL_CA"], found["MASTER_DELAY"], found["MASTER_SSL"]) == (
        Fate.CHANGED,
        Fate.CHANGED,
        Fate.KEPT,
    )


def test_inventory_counts_where_nothing_is_known() -> None:
    never = replace(target_with(replication=()), replication_tls="on")
    assert kept_of(inputs(target=never)).options == {"MASTER_SSL": "1", "MASTER_SSL_VERIFY_SERVER_CERT": "0"}


def test_ca_of_the_inventory_inside_the_data_directory_is_refused() -> None:
    wanted = replace(target_with(replication=(link(options=TLS),)), replication_tls_ca="/var/lib/mysql/ca.pem")
    assert severities(inputs(target=wanted), "target.replication_files") == {Severity.REFUSAL}


def test_group_suffix_is_in_the_commands_of_the_target_s_server() -> None:
    suffixed = replace(target_with(), group_suffix="@r1")
    plan = build_plan(inputs(target=suffixed))
    assert plan.target.group_suffix == "@r1"
    texts = " ".join(command.text for step in plan.steps for command in step.commands if step.name == "start")
    assert "--defaults-group-suffix=@r1" in texts


def test_settings_from_before_an_incomplete_copy_count() -> None:
    before = kept_of(with_link())
    bare = replace(with_link(options={"MASTER_SSL": "0", "MASTER_DELAY": "0"}), unrestored=before)
    kept = kept_of(bare)
    assert (kept.options, kept.is_last_known) == (TLS, True)
    gone = replace(inputs(target=target_with(replication=())), unrestored=before)
    assert kept_of(gone).options == TLS


def test_inventory_overrules_what_an_incomplete_copy_had() -> None:
    before = kept_of(with_link())
    target = replace(target_with(replication=()), replication_delay_seconds=5)
    kept = kept_of(replace(inputs(target=target), unrestored=before))
    assert kept.options == {**TLS, "MASTER_DELAY": "5"}
    assert fates(kept)["MASTER_DELAY"] is Fate.CHANGED


SET = (
    RunTimeSetting("slave_exec_mode", "IDEMPOTENT", "STRICT"),
    RunTimeSetting("slave_net_timeout", "60", "60"),
    RunTimeSetting("event_scheduler", "ON", "OFF"),
    RunTimeSetting("max_connections", "500", "151"),
)


def set_at_run_time(*found: RunTimeSetting, **changes: Any) -> PlanInputs:
    return inputs(target=target_with(replication=(link(options=TLS),), set_at_run_time=found, **changes))


def test_variables_of_replication_that_a_restart_loses_are_restored_and_others_named() -> None:
    of = set_at_run_time(*SET)
    plan = build_plan(of)
    kept = plan.replication
    assert kept
    assert kept.variables == {"slave_exec_mode": "IDEMPOTENT", "event_scheduler": "ON"}
    assert {fates(kept)[name] for name in kept.variables} == {Fate.KEPT}
    [verify] = [step for step in plan.steps if step.name == "verify"]
    texts = [command.text for command in verify.commands]
    assert "SET GLOBAL slave_exec_mode = 'IDEMPOTENT'" in texts
    [finding] = [one for one in run_checks(of) if one.code == "target.run_time"]
    assert finding.severity is Severity.WARNING
    assert "max_connections = 500" in finding.seen
    assert "slave_exec_mode" not in finding.seen
    again = from_record(KeptReplication, to_record(kept))
    assert again == kept


def test_super_read_only_is_only_switched_on() -> None:
    for value, fate in (("ON", Fate.KEPT), ("OFF", Fate.CHANGED)):
        kept = kept_of(set_at_run_time(RunTimeSetting("super_read_only", value)))
        assert fates(kept)["super_read_only"] is fate
        assert kept.variables == ({"super_read_only": "ON"} if value == "ON" else {})


def test_variable_of_a_plugin_that_the_copy_lacks_is_lost() -> None:
    plugin = LoadedPlugin("rpl_semi_sync_replica", "semisync_replica.so", "REPLICATION", is_installed=True)
    found = RunTimeSetting("rpl_semi_sync_replica_enabled", "ON")
    of = set_at_run_time(found, stored=StoredData(plugins=(plugin,)))
    assert fates(kept_of(of))[found.name] is Fate.LOST
    assert not kept_of(of).variables
    both = replace(of, source=source_with(stored=StoredData(plugins=(plugin,))))
    assert kept_of(both).variables == {found.name: "ON"}


def test_variables_of_an_incomplete_copy_are_not_the_targets() -> None:
    left = KeptReplication(options=TLS, variables={"slave_exec_mode": "IDEMPOTENT"})
    of = replace(set_at_run_time(RunTimeSetting("sync_binlog", "0", "1")), unrestored=left)
    assert kept_of(of).variables == left.variables
    assert severities(of, "target.run_time") == set()
