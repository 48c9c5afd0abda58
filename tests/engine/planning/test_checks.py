"""Every finding of the pre-flight, right and wrong."""

from dataclasses import replace
from datetime import timedelta

import pytest

from dbops.engine.facts.instance import Attached, Client, ConfigFacts, ProbeProblem, StatementCheck, Tool
from dbops.engine.planning.checks import OF_A_SERVER
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.states import Severity
from tests.engine.builders import (
    GIB,
    NOW,
    datadir,
    facts,
    host,
    inputs,
    link,
    member,
    primary_server,
    server,
    source_with,
    target_with,
)
from tests.engine.by_name import build_plan, run_checks
from tests.said import names

OK, WARNING, REFUSAL = Severity.OK, Severity.WARNING, Severity.REFUSAL


def severities(of: PlanInputs, code: str) -> set[Severity]:
    return {finding.severity for finding in run_checks(of) if finding.code == code}


def test_checks_are_ok_for_a_healthy_fleet() -> None:
    assert [finding for finding in run_checks(inputs()) if finding.severity is not OK] == []


def test_checks_report_on_a_healthy_fleet() -> None:
    silent = [check.__name__ for check in OF_A_SERVER if not list(check(inputs()))]
    assert silent == ["target_stays_quiet_after_start"]


def test_findings_have_advice_when_not_ok() -> None:
    broken = inputs(
        target=target_with(read_only=False), source=source_with(replication=()), write_addresses=("10.0.0.13:3306",)
    )
    assert all(finding.advice and finding.seen for finding in run_checks(broken) if finding.severity is not OK)


def down(number: int) -> object:
    return facts(number, server=None, server_problem=ProbeProblem("mysql.unreachable", "Connection refused"))


def config(number: int, **changes: object) -> ConfigFacts:
    fresh = facts(number).config
    assert fresh is not None
    return replace(fresh, **changes)


CASES = [
    ("facts.fresh", REFUSAL, lambda: inputs(target=member("replica-1", "replica", 13, facts=None))),
    ("facts.fresh", REFUSAL, lambda: inputs(now=NOW + timedelta(minutes=5))),
    (
        "target.host",
        REFUSAL,
        lambda: inputs(
            target=member(
                "replica-1",
                "replica",
                13,
                facts=facts(13, host=None, host_problem=ProbeProblem("ssh.unreachable", "timed out")),
            )
        ),
    ),
    ("target.role", REFUSAL, lambda: inputs(target=member("replica-1", "primary", 13))),
    ("target.read_only", REFUSAL, lambda: inputs(target=target_with(read_only=False))),
    ("target.read_only", WARNING, lambda: inputs(target=member("replica-1", "replica", 13, facts=down(13)))),
    (
        "target.path",
        REFUSAL,
        lambda: inputs(
            target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, exchangeable="/srv")))
        ),
    ),
    ("target.replicas", REFUSAL, lambda: inputs(target=target_with(replicas=(Attached(99, "10.0.0.99"),)))),
    ("target.replicas", REFUSAL, lambda: inputs(source=source_with(replication=(link("10.0.0.13"),)))),
    ("target.write_address", REFUSAL, lambda: inputs(write_addresses=("10.0.0.13:3306",))),
    ("target.write_address", REFUSAL, lambda: inputs(write_addresses=("10.0.0.13",))),
    (
        "target.write_address",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, address="10.0.0.11")),
    ),
    (
        "target.clients",
        WARNING,
        lambda: inputs(target=target_with(clients=(Client("app", "10.0.0.50", "shop", "Query"),))),
    ),
    ("target.errant", WARNING, lambda: inputs(target=target_with(gtid_binlog="0-11-100,5-13-7"))),
    ("target.errant", WARNING, lambda: inputs(target=member("replica-1", "replica", 13, facts=down(13)))),
    (
        "target.service",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, start_command="", stop_command="")),
    ),
    (
        "target.server_id",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, config=config(13, server_id=None)))),
    ),
    (
        "target.server_id",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, config=config(13, server_id=12)))),
    ),
    ("target.datadir", REFUSAL, lambda: inputs(target=target_with(datadir="/data/mysql/"))),
    (
        "target.datadir",
        REFUSAL,
        lambda: inputs(
            target=member("replica-1", "replica", 13, facts=facts(13, server=None, config=config(13, datadir="/data")))
        ),
    ),
    (
        "target.external_paths",
        REFUSAL,
        lambda: inputs(
            target=member(
                "replica-1", "replica", 13, facts=facts(13, config=config(13, options={"log_bin": "/logs/bin"}))
            )
        ),
    ),
    ("source.rows_differ", WARNING, lambda: inputs(source_differs=17)),
    ("source.errant", REFUSAL, lambda: inputs(source=source_with(gtid_binlog="0-11-100,7-12-3"))),
    (
        "target.read_only_config",
        WARNING,
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, config=config(13, read_only=False)))),
    ),
    (
        "target.init_file",
        WARNING,
        lambda: inputs(
            target=member("replica-1", "replica", 13, facts=facts(13, config=config(13, options={"init_file": "/x"})))
        ),
    ),
    ("pair.differ", REFUSAL, lambda: inputs(source=member("replica-1", "backup", 13))),
    ("pair.differ", REFUSAL, lambda: inputs(source=member("backup-1", "backup", 12, address="10.0.0.13"))),
    ("pair.cluster", REFUSAL, lambda: inputs(source=member("backup-1", "backup", 12, cluster="other"))),
    ("pair.cluster", REFUSAL, lambda: inputs(primary=None)),
    ("pair.cluster", REFUSAL, lambda: inputs(primary=member("primary-1", "primary", 11, facts=down(11)))),
    ("pair.version", REFUSAL, lambda: inputs(target=target_with(flavor="mysql", version="8.0.36"))),
    ("pair.version", REFUSAL, lambda: inputs(target=target_with(version="10.6.1"))),
    ("pair.version", REFUSAL, lambda: inputs(target=target_with(version="10.11.2"))),
    (
        "tools.source",
        REFUSAL,
        lambda: inputs(source=member("backup-1", "backup", 12, facts=facts(12, host=host(12, tools={})))),
    ),
    (
        "tools.target",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, host=host(13, tools={})))),
    ),
    (
        "programs.target",
        REFUSAL,
        lambda: inputs(target=member("replica-1", "replica", 13, facts=facts(13, host=host(13, tools={})))),
    ),
    ("pair.page_size", REFUSAL, lambda: inputs(target=target_with(page_size=4096))),
    ("pair.lower_case_table_names", REFUSAL, lambda: inputs(target=target_with(lower_case_table_names=1))),
    (
        "pair.clock",
        WARNING,
        lambda: inputs(
            source=member("backup-1", "backup", 12, facts=facts(12, host=host(12, clock_offset_seconds=-900.0)))
        ),
    ),
    ("source.answers", REFUSAL, lambda: inputs(source=member("backup-1", "backup", 12, facts=down(12)))),
    ("source.role", REFUSAL, lambda: inputs(source=member("backup-1", "primary", 12))),
    ("source.role", WARNING, lambda: inputs(source=member("backup-1", "replica", 12))),
    ("source.replication", REFUSAL, lambda: inputs(source=source_with(replication=()))),
    ("source.replication", REFUSAL, lambda: inputs(source=source_with(replication=(link(sql_running="No"),)))),
    ("source.replication", REFUSAL, lambda: inputs(source=source_with(replication=(link(lag_seconds=900.0),)))),
    ("source.replication", REFUSAL, lambda: inputs(source=source_with(replication=(link(lag_seconds=None),)))),
    (
        "source.replication",
        REFUSAL,
        lambda: inputs(source=source_with(replication=(link(channel="a"), link(channel="b")))),
    ),
    ("source.binlog", REFUSAL, lambda: inputs(source=source_with(log_bin=False))),
    ("source.binlog", REFUSAL, lambda: inputs(source=source_with(log_replica_updates=False, gtid_enabled=False))),
    ("source.gtid", WARNING, lambda: inputs(source=source_with(gtid_enabled=False))),
    ("source.retention", REFUSAL, lambda: inputs(source=source_with(binlog_expire_seconds=60))),
    (
        "primary.retention",
        REFUSAL,
        lambda: inputs(
            primary=member("primary-1", "primary", 11, facts=facts(11, server=primary_server(binlog_expire_seconds=60)))
        ),
    ),
    (
        "source.account",
        REFUSAL,
        lambda: inputs(source=member("backup-1", "backup", 12, facts=facts(12, backup_account=()))),
    ),
    (
        "source.account",
        REFUSAL,
        lambda: inputs(
            source=member(
                "backup-1",
                "backup",
                12,
                facts=facts(12, backup_account=(StatementCheck("SHOW MASTER STATUS", "1227 Access denied"),)),
            )
        ),
    ),
    (
        "source.admin_login",
        REFUSAL,
        lambda: inputs(
            source=member(
                "backup-1", "backup", 12, facts=facts(12, admin_login=StatementCheck("SELECT 1", "1045 Access denied"))
            )
        ),
    ),
    (
        "source.dashboard_account",
        REFUSAL,
        lambda: inputs(
            source=member("backup-1", "backup", 12, facts=facts(12, server=server(12, missing_privileges=("SUPER",))))
        ),
    ),
    (
        "target.admin_login",
        REFUSAL,
        lambda: inputs(
            target=member(
                "replica-1",
                "replica",
                13,
                facts=facts(13, admin_login=StatementCheck("SELECT 1", "1045 Access denied")),
            )
        ),
    ),
    (
        "source.shared_login",
        WARNING,
        lambda: inputs(source=replace(member("backup-1", "backup", 12, facts=facts(12)), shared_logins=("dbops",))),
    ),
    (
        "target.shared_login",
        WARNING,
        lambda: inputs(target=replace(member("replica-1", "replica", 13, facts=facts(13)), shared_logins=("dbops",))),
    ),
    ("source.engines", WARNING, lambda: inputs(source=source_with(foreign_engines={"MyISAM": 3}))),
    ("source.external_paths", REFUSAL, lambda: inputs(source=source_with(external_paths=("/srv/undo",)))),
    (
        "target.space",
        REFUSAL,
        lambda: inputs(
            target=member(
                "replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=GIB, total_bytes=GIB))
            )
        ),
    ),
    (
        "target.space",
        WARNING,
        lambda: inputs(
            target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=5 * GIB)))
        ),
    ),
    (
        "target.space",
        REFUSAL,
        lambda: inputs(
            keep_old_data=True,
            target=member("replica-1", "replica", 13, facts=facts(13, datadir=datadir(13, free_bytes=5 * GIB))),
        ),
    ),
    ("source.redo", WARNING, lambda: inputs(source=source_with(redo_bytes_per_second=None))),
    ("source.redo", WARNING, lambda: inputs(source=source_with(redo_bytes_per_second=8 * 1024**2))),
    ("source.redo", REFUSAL, lambda: inputs(source=source_with(redo_bytes_per_second=float(GIB)))),
    (
        "source.open_files",
        WARNING,
        lambda: inputs(source=member("backup-1", "backup", 12, facts=facts(12, host=host(12, open_files_limit=1024)))),
    ),
]


@pytest.mark.parametrize(
    ("code", "severity", "build"), CASES, ids=[f"{code}-{severity}-{n}" for n, (code, severity, _) in enumerate(CASES)]
)
def test_checks_find_each_problem(code: str, severity: Severity, build: object) -> None:
    assert severity in severities(build(), code)  # type: ignore[operator]


def test_check_refuses_mysql_with_automatic_replication_start() -> None:
    mysql = source_with(flavor="mysql", version="8.0.46", version_comment="MySQL Community Server")
    assert severities(inputs(source=mysql), "target.skip_replica_start") == {REFUSAL}


def test_mysql_without_gtid_and_with_parallel_appliers_has_no_single_position() -> None:
    mysql = source_with(flavor="mysql", version="8.0.46", version_comment="", gtid_enabled=False, parallel_workers=4)
    assert severities(inputs(source=mysql), "source.gtid") == {REFUSAL}


@pytest.mark.parametrize(
    ("server", "severity"),
    [
        ({"flavor": "mysql", "version": "5.7.29", "version_comment": ""}, WARNING),
        ({"flavor": "mysql", "version": "8.0.46", "version_comment": ""}, OK),
        ({}, OK),
    ],
)
def test_check_says_when_writes_wait_and_how_long_they_did(server: dict[str, str], severity: Severity) -> None:
    given = inputs(source=source_with(**server), last_write_lock_seconds=37.0)
    [found] = [finding for finding in run_checks(given) if finding.code == "source.write_lock"]
    assert found.severity is severity
    assert "37 s" in found.seen


@pytest.mark.parametrize(
    ("version", "own", "other"),
    [("5.7.42", "slave", "replica"), ("8.0.25", "slave", "replica"), ("8.0.26", "replica", "slave")],
)
def test_advice_names_variables_as_the_server_does(version: str, own: str, other: str) -> None:
    """An option that a server does not know keeps it from starting."""
    mysql = source_with(
        flavor="mysql",
        version=version,
        version_comment="",
        gtid_enabled=False,
        parallel_workers=4,
        log_replica_updates=False,
    )
    found = [finding for finding in run_checks(inputs(source=mysql)) if finding.severity is REFUSAL]
    said = " ".join(f"{finding.seen} {finding.advice}" for finding in found)
    for name in (f"skip_{own}_start", f"{own}_parallel_workers", f"log_{own}_updates"):
        assert names(said, name), said
        assert not names(said, name.replace(own, other)), said


def test_plan_is_possible_when_the_target_is_down() -> None:
    plan = build_plan(inputs(target=member("replica-1", "replica", 13, facts=down(13))))
    assert plan.is_possible
    assert not plan.target.is_answering


def test_checks_invent_nothing_about_a_host_that_was_not_read() -> None:
    """Without sudo (``requiretty``), nothing of the host is known; with a stopped server, nothing of the server either."""
    problem = ProbeProblem("ssh.sudo_refused", "sudo: you must have a tty to run sudo")
    unread = facts(13, host=None, datadir=None, config=None, server=None, host_problem=problem, server_problem=problem)
    found = run_checks(inputs(target=member("replica-1", "replica", 13, facts=unread)))
    refused = {finding.code: finding.seen for finding in found if finding.severity is REFUSAL}
    assert refused.keys() == {
        *("target.host", "target.server_id", "pair.version", "pair.page_size", "pair.lower_case_table_names")
    }
    assert [seen for code, seen in refused.items() if code != "target.host" and not seen.startswith("Unknown")] == []


def test_checks_name_a_program_that_shows_no_version() -> None:
    tools = host(13).tools | {"mariadb-backup": Tool("/opt/mariadb-backup", said="no answer in 3 s")}
    found = run_checks(inputs(target=member("replica-1", "replica", 13, facts=facts(13, host=host(13, tools=tools)))))
    [refused] = [finding for finding in found if finding.severity is REFUSAL]
    assert refused.code == "tools.target"
    assert "/opt/mariadb-backup" in refused.seen


def test_check_codes_are_documented() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs" / "reference" / "checks.md").read_text()
    codes = (
        {code for code, _, _ in CASES}
        | {finding.code for finding in run_checks(inputs())}
        | {"target.skip_replica_start"}
    )
    assert [code for code in sorted(codes) if f"`{code}`" not in text] == []


def test_errant_check_ignores_a_target_read_after_the_primary() -> None:
    assert severities(inputs(target=target_with(gtid_binlog="0-11-250")), "target.errant") == {OK}
    assert severities(inputs(target=target_with(gtid_binlog="0-13-250")), "target.errant") == {WARNING}


def test_server_id_check_ignores_other_clusters() -> None:
    other = member("other-1", "replica", 21, cluster="other", facts=facts(21, server=server(13)))
    fleet = inputs()
    assert severities(replace(fleet, members=(*fleet.members, other)), "target.server_id") == {OK}
