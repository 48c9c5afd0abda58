"""MySQL's clone: who may clone whom, how far it is, whether it is whole; the plan, its checks, and giving the donor back."""

from dataclasses import replace
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import CloneFacts, Tool
from dbops.engine.flavors.versions import parse_version
from dbops.engine.methods import METHODS
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds import clone as cloning
from dbops.engine.rebuilds.clone import CloneEvidence, judge_clone, progress_of, read_stages, version_problem
from dbops.engine.rebuilds.follow_ups import EndedRebuild, resume_option
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import Severity, Status, StepState
from tests.engine.builders import inputs
from tests.engine.by_name import build_plan, compare, plan_follow_up

#: What servers, tools and scripts say or get: recorded, not worded here.
CLONES = "CLONE INSTANCE FROM 'dbops-RUN'@'10.0.0.12':3306 IDENTIFIED BY '********' REQUIRE SSL"
LEAVES = "DROP USER IF EXISTS 'dbops-RUN'@'%'; RESET REPLICA ALL; UNINSTALL PLUGIN clone"
CUT = "FILE COPY\tIn Prog"
NO_ROWS = "FILE COPY\tIn Progress\tNULL\tNULL\n"
ESCAPED = "IDENTIFIED BY 'x''; DROP \\\\';"

UUIDS = {name: f"{number}{'0' * 7}-1111-2222-3333-444444444444" for number, name in enumerate("123", 1)}
PRIMARY_SET = f"{UUIDS['1']}:1-90"
ABLE = CloneFacts(
    plugin="",
    super_read_only=False,
    max_allowed_packet=64 * 1024**2,
    platform="Linux x86_64",
    charset="utf8mb4",
    collation="utf8mb4_0900_ai_ci",
    tls=True,
    blocks_ddl=False,
)
GTID = f"{UUIDS['1']}:1-80"


def mysql(member: KnownInstance, number: str, *, clone: CloneFacts | None = ABLE, **changes: Any) -> KnownInstance:
    assert member.facts is not None
    assert member.facts.host is not None
    tools = {name: Tool(f"/usr/bin/{name}") for name in ("bash", "flock", "setsid", "setpriv", "mysql")}
    tools["mysqld"] = Tool("/usr/sbin/mysqld", "9.7.4")
    server, config = member.facts.server, member.facts.config
    given: dict[str, Any] = {"flavor": "mysql", "version": "9.7.4", "server_uuid": UUIDS[number], "gtid_binlog": ""}
    given |= {"gtid_executed": PRIMARY_SET, "clone": clone, **changes}
    facts = replace(
        member.facts,
        host=replace(member.facts.host, tools=tools),
        server=replace(server, **given) if server else None,
        config=replace(config, skip_replica_start=True) if config else None,
        backup_account=(),
    )
    return replace(member, facts=facts)


def world(target: dict[str, Any] | None = None, **source: Any) -> PlanInputs:
    """Return a MySQL cluster in health; keywords change the source's server, ``target`` that of the target."""
    base = inputs()
    assert base.primary is not None
    return replace(
        base,
        target=mysql(base.target, "3", **(target or {})),
        source=mysql(base.source, "2", **source),
        primary=mysql(base.primary, "1"),
    )


def refused(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.refusals}


def test_clone_plan_pauses_nothing_and_needs_no_backup_tool() -> None:
    plan = build_plan(world(), "clone")
    assert refused(plan) == set()
    assert (plan.pause_source, plan.pause_reason) == (False, METHODS["clone"].no_pause)
    assert [step.name for step in plan.steps][1:4] == ["open-access", "swap-datadir", "stream"]
    commands = "\n".join(command.text for step in plan.steps for command in step.commands)
    assert CLONES in commands
    assert LEAVES in commands
    assert "authorized_keys" not in commands


def test_clone_is_refused_for_mariadb() -> None:
    by_name = {one.method: one for one in compare(inputs())}
    assert list(by_name) == ["xbstream", "clone", "archive", "dump"]
    assert by_name["xbstream"].is_possible
    assert all(word in by_name["clone"].why_not[0] for word in ("backup-1", "MariaDB"))


def test_clone_plan_is_possible_without_a_backup_tool() -> None:
    by_name = {one.method: one for one in compare(world())}
    assert by_name["clone"].is_possible
    assert not by_name["xbstream"].is_possible
    assert by_name["clone"].reads_server
    assert not by_name["clone"].pauses_source


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ({"version": "8.4.3"}, {}, "clone.version"),
        ({"version": "8.0.17"}, {"version": "8.0.17"}, "clone.version"),
        ({"version": "8.0.15", "clone": None}, {"version": "8.0.15"}, "clone.version"),
        ({"foreign_engines": {"MyISAM": 2}}, {}, "clone.engines"),
        ({"gtid_enabled": False}, {}, "clone.gtid"),
        ({"clone": replace(ABLE, super_read_only=True)}, {}, "clone.super_read_only"),
        ({"clone": replace(ABLE, plugin="DISABLED")}, {}, "clone.plugin"),
        ({"clone": replace(ABLE, max_allowed_packet=1024**2)}, {}, "clone.packet"),
        ({"clone": replace(ABLE, charset="latin1")}, {}, "clone.platform"),
        ({"clone": replace(ABLE, platform="Linux aarch64")}, {}, "clone.platform"),
        ({"clone": None}, {}, "clone.plugin"),
        ({"external_paths": ("/redo",)}, {}, "source.external_paths"),
    ],
)
def test_clone_plan_is_refused_for_each_obstacle(source: dict[str, Any], target: dict[str, Any], code: str) -> None:
    assert refused(build_plan(world(target, **source), "clone")) == {code}


@pytest.mark.parametrize(
    ("facts", "version", "code"),
    [
        (replace(ABLE, tls=False), "9.7.4", "clone.tls"),
        (replace(ABLE, blocks_ddl=True), "9.7.4", "clone.ddl"),
        (ABLE, "8.0.26", "clone.ddl"),
    ],
)
def test_clone_plan_warns_of_each_risk(facts: CloneFacts, version: str, code: str) -> None:
    plan = build_plan(world({"version": version}, clone=facts, version=version), "clone")
    assert refused(plan) == set()
    found = {finding.code for finding in plan.findings if finding.severity is Severity.WARNING}
    assert code in found


def test_clone_plan_refuses_a_target_without_mysqld() -> None:
    base = world()
    facts = base.target.facts
    assert facts is not None
    assert facts.host is not None
    tools = {name: tool for name, tool in facts.host.tools.items() if name != "mysqld"}
    target = replace(base.target, facts=replace(facts, host=replace(facts.host, tools=tools)))
    assert refused(build_plan(replace(base, target=target), "clone")) == {"clone.programs"}


@pytest.mark.parametrize(
    ("donor", "recipient", "fits"),
    [
        ("9.7.4", "9.7.4", True),
        ("9.7.4", "9.7.5", True),
        ("9.7.5", "9.7.4", False),
        ("9.6.0", "9.7.0", False),
        ("8.4.0", "8.4.6", True),
        ("8.0.36", "8.0.36", True),
        ("8.0.36", "8.0.37", False),
        ("8.0.37", "8.0.42", True),
        ("8.0.17", "8.0.17", False),
        ("8.0.42", "8.4.0", False),
    ],
)
def test_version_problem_is_empty_for_matching_versions(donor: str, recipient: str, fits: bool) -> None:
    assert (version_problem(parse_version(donor), parse_version(recipient)) == "") is fits


# Polls of a clone of 9.7.4 that was slowed down by the donor, as its server reported them.
POLLS = (
    "DROP DATA\tIn Progress\t0\t0\nFILE COPY\tNot Started\t0\t0\nPAGE COPY\tNot Started\t0\t0\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tIn Progress\t734117888\t0\nPAGE COPY\tNot Started\t0\t0\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tIn Progress\t734117888\t489053184\nPAGE COPY\tNot Started\t0\t0\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tIn Progress\t734117888\t734117000\nPAGE COPY\tNot Started\t0\t0\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tCompleted\t734117888\t734117888\nPAGE COPY\tIn Progress\t85229568\t0\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tCompleted\t734117888\t734117888\nPAGE COPY\tIn Progress\t85229568\t26673152\n",
    "DROP DATA\tCompleted\t0\t0\nFILE COPY\tCompleted\t734117888\t734117888\nPAGE COPY\tCompleted\t85229568\t85229568\n",
)


def test_progress_never_falls_though_the_estimate_grows() -> None:
    percent, seen, stages = 0.0, [], []
    for poll in POLLS:
        progress = progress_of(read_stages(poll), before_percent=percent)
        assert progress is not None
        percent = progress.percent
        seen.append(percent)
        stages.append(progress.stage)
    assert seen == sorted(seen)
    assert seen[2] == pytest.approx(66.6, abs=0.1)
    assert max(seen) == 99.9
    alone = progress_of(read_stages(POLLS[4]), before_percent=0.0)
    assert alone is not None
    assert alone.percent == pytest.approx(89.6, abs=0.1)  # it would have jumped back
    assert stages == ["drop data", "file copy", "file copy", "file copy", "page copy", "page copy", ""]


def test_progress_of_ignores_missing_and_cut_rows() -> None:
    assert progress_of(read_stages(""), before_percent=5.0) is None
    assert read_stages(CUT) == []
    assert read_stages(NO_ROWS) == []


def evidence(**changes: Any) -> CloneEvidence:
    given: dict[str, Any] = {
        "statuses": {"clone": 0, "server": 0},
        "outcome": {"state": "Completed", "error": "0", "message": "", "gtid": GTID},
        "said": "ERROR 3707 (HY000) at line 3: Restart server failed (mysqld is not managed by supervisor process).",
        "last": "",
    }
    return CloneEvidence(**{**given, **changes})


def test_3707_means_start_me() -> None:
    assert judge_clone(evidence()) == GTID
    assert judge_clone(evidence(said="")) == GTID


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (
            {
                "statuses": {"clone": 1},
                "said": "ERROR 3862 (HY000) at line 3: Clone Donor Error: 2013 : Lost connection.",
                "outcome": {},
            },
            "clone.failed",
            "Clone Donor Error: 2013",
        ),
        (
            {
                "statuses": {"clone": 1},
                "said": "ERROR 1158 (08S01) at line 3: Got an error reading communication packets",
                "outcome": {},
            },
            "clone.failed",
            "ERROR 1158",
        ),
        (
            {"statuses": {"clone": 1}, "said": "", "last": "The server ended", "outcome": {}},
            "clone.failed",
            "The server ended",
        ),
        ({"statuses": {}, "said": "", "outcome": {}}, "clone.failed", "without a word"),
        (
            {"outcome": {"state": "Failed", "error": "1317", "message": "Query execution was interrupted"}},
            "clone.incomplete",
            "1317",
        ),
        (
            {"outcome": {}, "last": "The server on the new data ended: x"},
            "clone.incomplete",
            "The server on the new data ended",
        ),
        ({"outcome": {"state": "Completed", "error": "0", "gtid": ""}}, "clone.incomplete", "Completed"),
        ({"statuses": {"clone": 0, "server": 1}}, "clone.server", "status 1"),
        ({"statuses": {"clone": 0}, "last": "could not be taken out"}, "clone.server", "could not be taken out"),
    ],
)
def test_judge_clone_refuses_an_incomplete_clone(changes: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(RemoteFailure) as caught:
        judge_clone(evidence(**changes))
    assert caught.value.code == code
    assert words in caught.value.cause


FULL = "[ERROR] [MY-012640] [InnoDB] Error number 28 means 'No space left on device'"


@pytest.mark.parametrize(
    "changes",
    [
        {
            "statuses": {"clone": 1},
            "said": "ERROR 3 (HY000) at line 3: Error writing file './x' (OS errno 28 - No space left on device)",
        },
        {"statuses": {}, "last": f"The server on the new data ended: {FULL}"},
        {
            "outcome": {},
            "last": "The server on the new data ended: [ERROR] Aborting",
            "server_log": f"{FULL}\n[ERROR] Aborting\n",
        },
        {
            "outcome": {
                "state": "Failed",
                "error": "1026",
                "message": "Error writing file (OS errno 28 - No space left on device)",
            }
        },
        {"statuses": {"clone": 0, "server": 1}, "server_log": FULL},
    ],
)
def test_judge_clone_names_a_full_disk(changes: dict[str, Any]) -> None:
    with pytest.raises(RemoteFailure) as caught:
        judge_clone(evidence(**changes))
    assert caught.value.code == "stream.disk_full"
    assert "28" in caught.value.cause


def test_judge_clone_names_a_disk_that_is_too_small() -> None:
    said = "ERROR 3873 (HY000) at line 3: Clone estimated database size is 250.23 MiB. Available space 27.01 MiB is not enough."
    with pytest.raises(RemoteFailure) as caught:
        judge_clone(evidence(statuses={"clone": 1}, said=said))
    assert caught.value.code == "stream.disk_full"
    assert "27.01" in caught.value.cause


def test_judge_clone_ignores_a_full_disk_of_a_whole_clone() -> None:
    assert judge_clone(evidence(server_log=FULL)) == GTID


def test_clone_statements_quote_the_password() -> None:
    text = cloning.clone_statements(run_id="a" * 32, password="x'; DROP \\", host="db", port=3306, tls=False)  # noqa: S106
    assert ESCAPED in text
    assert "REQUIRE SSL" not in text
    assert len(cloning.account_name("f" * 32)) == 32


def test_retry_of_a_clone_is_planned_as_a_clone() -> None:
    plan = build_plan(world(), "clone")
    steps = {step.name: StepState.DONE for step in plan.steps}
    steps |= {"catch-up": StepState.FAILED, "repoint": StepState.SKIPPED, "verify": StepState.SKIPPED}
    checkpoint = {"touched": True, "loaded": True, "new_identity": "1:2", "done_before": ["set-ownership", "prepare"]}
    option = resume_option(EndedRebuild("u", Status.FAILED, checkpoint, steps))
    assert option.is_possible
    follow_up = plan_follow_up(plan, option)
    assert (follow_up.method, follow_up.copied_by) == ("resume", "clone")
