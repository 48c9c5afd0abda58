"""Finished backups: which one is read, whether it may be, and whether what arrived is it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dbops.engine.backups.archives import Archive, newest
from dbops.engine.errors import Refused, RemoteFailure
from dbops.engine.facts.instance import ProbeProblem, Tool
from dbops.engine.flavors import flavor_for
from dbops.engine.planning.inputs import PlanInputs
from dbops.engine.rebuilds.archive_check import FetchEvidence, judge_fetch, judge_load
from dbops.engine.rebuilds.copy_check import CopyEvidence
from dbops.engine.rebuilds.follow_ups import EndedRebuild, remembered, resume_option
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.states import BackupMethod, Severity, Status, StepState
from tests.engine.builders import NOW, inputs
from tests.engine.by_name import build_plan, compare, plan_follow_up

SUM = "ab" * 32


def archive(run: int = 7, **changes: Any) -> Archive:
    given: dict[str, Any] = {
        "uid": f"{run:016x}",
        "method": BackupMethod.PHYSICAL,
        "instance": "backup-1",
        "path": f"/backups/backup-1-physical-{run}.xbstream.zst",
        "bytes": 1024**3,
        "sha256": SUM,
        "flavor": "mariadb",
        "version": "10.11.19",
        "taken_at": NOW - timedelta(hours=10),
        "data_bytes": 4 * 1024**3,
        "gtid": "0-11-30",
    }
    return Archive(run, **{**given, **changes})


def world(
    *archives: Archive, purged: str | None = "0-11-20", source_answers: bool = True, **primary: Any
) -> PlanInputs:
    """Return a cluster in health whose target's host has zstd; keywords change the primary's server."""
    base = inputs()
    target, source, first = base.target, base.source, base.primary
    assert target.facts is not None
    assert target.facts.host is not None
    assert source.facts is not None
    assert first is not None
    assert first.facts is not None
    assert first.facts.server is not None
    tools = target.facts.host.tools | {
        name: Tool(f"/usr/bin/{name}") for name in ("zstd", "gzip", "mariadb-install-db", "mariadbd")
    }
    target = replace(target, facts=replace(target.facts, host=replace(target.facts.host, tools=tools)))
    if not source_answers:
        problem = ProbeProblem("mysql.unreachable", "Connection refused")
        source = replace(source, facts=replace(source.facts, server=None, server_problem=problem))
    server = replace(
        first.facts.server, gtid_purged=purged, **{"gtid_executed": "0-11-90", "gtid_binlog": "0-11-90", **primary}
    )
    first = replace(first, facts=replace(first.facts, server=server))
    return replace(base, target=target, source=source, primary=first, archives=archives)


def refused(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.refusals}


def test_newest_picks_the_instance_and_method() -> None:
    old, new = archive(7, taken_at=NOW - timedelta(days=2)), archive(8)
    others = (archive(9, instance="replica-2"), archive(10, method=BackupMethod.DUMP))
    assert newest((old, new, *others), instance="backup-1", method=BackupMethod.PHYSICAL) == new
    assert newest(others, instance="backup-1", method=BackupMethod.PHYSICAL) is None


def test_archive_plan_touches_no_source_server() -> None:
    plan = build_plan(world(archive()), "archive")
    assert plan.refusals == ()
    assert plan.archive == archive()
    assert (plan.pause_source, plan.method, plan.bytes_to_copy) == (False, "archive", 4 * 1024**3)
    assert [step.name for step in plan.steps if step.name in ("pause", "release")] == []
    assert "tee >(sha256sum) | zstd -q -d -c" in next(
        command.text
        for step in plan.steps
        if step.name == "stream"
        for command in step.commands
        if "zstd" in command.text
    )
    change = next(step for step in plan.steps if step.name == "catch-up").commands
    assert any("10.0.0.11" in command.text for command in change)  # the primary, not the source


def test_archive_fingerprint_ignores_the_source_server_state() -> None:
    """Between the page and the start the source's server may come or go: the rebuild does not use it."""
    up, down = (build_plan(world(archive(), source_answers=answers), "archive") for answers in (True, False))
    assert down.refusals == ()
    assert up.fingerprint == down.fingerprint
    assert build_plan(world(archive(8)), "archive").fingerprint != up.fingerprint


@pytest.mark.parametrize(
    ("there", "code"),
    [
        pytest.param(world(), "archive.file", id="there is none"),
        pytest.param(world(archive(gtid="")), "archive.gtid", id="a backup without a position"),
        pytest.param(world(archive(), gtid_enabled=False), "archive.gtid", id="a primary without GTID"),
        pytest.param(world(archive(), purged="0-11-31"), "archive.reach", id="the primary removed what it lacks"),
        pytest.param(world(archive(), purged=None), "archive.reach", id="unknown what the primary removed"),
        pytest.param(world(archive(version="11.8.6")), "archive.version", id="a newer server's data"),
    ],
)
def test_archive_plan_refuses_unsuitable_backups(there: PlanInputs, code: str) -> None:
    assert code in refused(build_plan(there, "archive"))


def test_archive_plan_refuses_a_host_without_zstd() -> None:
    there = inputs()
    assert "archive.programs" in refused(build_plan(replace(there, archives=(archive(),)), "archive"))


def test_archive_plan_warns_of_an_old_backup() -> None:
    plan = build_plan(world(archive(taken_at=NOW - timedelta(days=4))), "archive")
    assert [(finding.code, finding.severity) for finding in plan.warnings if finding.code == "archive.file"] == [
        ("archive.file", Severity.WARNING)
    ]


def test_archive_plan_needs_a_primary_when_the_source_is_unknown() -> None:
    with pytest.raises(Refused) as found:
        build_plan(replace(world(source_answers=False)), "archive")
    assert found.value.code == "plan.no_facts"
    assert "backup-1" in found.value.cause


def test_compare_lists_every_method_with_its_cost() -> None:
    stream, clone, file, dump = compare(world(archive()))
    assert (stream.method, stream.is_possible, stream.data_of) == ("xbstream", True, None)
    assert (clone.method, clone.is_possible) == ("clone", False)
    assert (file.method, file.is_possible, file.data_of, file.behind) == ("archive", True, archive().taken_at, 60)
    assert (dump.method, dump.is_possible) == ("dump", False)
    stream, _, file, _ = compare(world(archive(), source_answers=False))
    assert not stream.is_possible
    assert file.is_possible
    assert "backup-1" in compare(world())[2].why_not[0]


# What arrived


def evidence(**changes: Any) -> FetchEvidence:
    flavor = flavor_for("10.11.19", "mariadb")
    files = {flavor.metadata_files[kind][0]: "x = y\n" for kind in ("last", "info", "binlog")} | {
        flavor.metadata_files["checkpoints"][
            0
        ]: "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 90\nlast_lsn = 91\n"
    }
    copy = {
        "source_status": 0,
        "transport_status": 0,
        "unpack_status": 0,
        "source_log": "",
        "transport_log": "",
        "unpack_log": "",
    }
    of_copy = {name: changes.pop(name) for name in list(changes) if name in copy or name == "target_files"}
    statuses = {"transport": 0, "see": 0, "decompress": 0, "unpack": 0}
    given: dict[str, Any] = {"statuses": statuses, "decompress_log": "", "sum": SUM, **changes}
    return FetchEvidence(copy=CopyEvidence(**{**copy, "target_files": files, **of_copy}), **given)


def test_judge_fetch_accepts_a_complete_backup() -> None:
    assert judge_fetch(flavor_for("10.11.19", "mariadb"), archive(), evidence()).last_lsn == 91


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param(evidence(sum="cd" * 32), "archive.damaged", id="another file"),
        pytest.param(evidence(sum=""), "archive.damaged", id="nothing was added up"),
        pytest.param(
            evidence(
                statuses={"transport": 141, "see": 141, "decompress": 141, "unpack": 1},
                unpack_status=1,
                unpack_log="mbstream: xb_stream_read_chunk(): invalid checksum at offset 0x2a0022c",
                sum="",
            ),
            "archive.damaged",
            id="the unpacker saw it first",
        ),
        pytest.param(
            evidence(
                statuses={"transport": 0, "see": 0, "decompress": 1, "unpack": 0},
                decompress_log="zstd: error 36 : Decoding error (36) : Data corruption detected",
            ),
            "archive.damaged",
            id="zstd saw it first",
        ),
        pytest.param(
            evidence(
                statuses={"transport": 0, "see": 0, "decompress": 1, "unpack": 0},
                decompress_log="zstd: error 11 : Allocation error : not enough memory",
            ),
            "archive.decompress",
            id="zstd could not",
        ),
        pytest.param(
            evidence(
                transport_status=255, statuses={"see": 0}, transport_log="Connection reset by peer", sum="cd" * 32
            ),
            "transport.lost",
            id="the link broke",
        ),
        pytest.param(
            evidence(
                unpack_status=1,
                unpack_log="mbstream: Can't create/write to file 'x' (Errcode: 28 \"No space left on device\")",
            ),
            "stream.disk_full",
            id="the target's disk",
        ),
        pytest.param(evidence(unpack_log="something"), "stream.unpack_complained", id="a word of the unpacker"),
        pytest.param(evidence(target_files={}), "stream.truncated", id="nothing arrived"),
    ],
)
def test_judge_fetch_refuses_a_wrong_arrival(found: FetchEvidence, code: str) -> None:
    with pytest.raises(RemoteFailure) as error:
        judge_fetch(flavor_for("10.11.19", "mariadb"), archive(), found)
    assert error.value.code == code, error.value


# A dump


def dump(**changes: Any) -> Archive:
    return archive(9, method=BackupMethod.DUMP, path="/backups/backup-1-dump-9.sql.gz", **changes)


def test_dump_plan_loads_with_networking_off() -> None:
    plan = build_plan(world(dump()), "dump")
    assert plan.refusals == ()
    assert plan.bytes_to_copy == dump().bytes  # what is sent is the file
    commands = [command.text for step in plan.steps if step.name == "stream" for command in step.commands]
    assert any("mariadb-install-db" in text and "--defaults-file=" in text for text in commands)
    assert any("--skip-networking" in text and "--skip-slave-start" in text for text in commands)
    assert [step.name for step in plan.steps if step.name in ("prepare", "set-ownership")] == []


@pytest.mark.parametrize(
    ("privileges", "severities"),
    [
        (("EVENT", "SELECT", "SHOW VIEW"), {Severity.WARNING}),
        (("ALL PRIVILEGES",), {Severity.OK}),
        (None, set()),
    ],
)
def test_dump_plan_warns_of_an_account_that_leaves_objects_out(
    privileges: tuple[str, ...] | None, severities: set[Severity]
) -> None:
    given = world(dump())
    assert given.source.facts is not None
    facts = replace(given.source.facts, local_privileges=privileges)
    plan = build_plan(replace(given, source=replace(given.source, facts=facts)), "dump")
    assert {finding.severity for finding in plan.findings if finding.code == "dump.account"} == severities
    assert plan.refusals == ()


def test_dump_plan_needs_the_space_of_the_data() -> None:
    plan = build_plan(world(dump(data_bytes=10**15)), "dump")
    assert "target.space" in {finding.code for finding in plan.findings if finding.severity is not Severity.OK}


def test_dump_plan_refuses_a_host_that_cannot_initialize() -> None:
    assert "dump.programs" in refused(build_plan(replace(inputs(), archives=(dump(),)), "dump"))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        pytest.param(evidence(statuses={"see": 0, "decompress": 0, "server": 0}), "", id="whole"),
        pytest.param(
            evidence(statuses={"see": 0, "decompress": 0, "server": 0}, sum="x"), "archive.damaged", id="another"
        ),
        pytest.param(
            evidence(statuses={"see": 0, "decompress": 0, "server": 137}), "dump.server", id="a killed server"
        ),
        pytest.param(
            evidence(
                unpack_status=1, unpack_log="ERROR 1064 (42000) at line 1: You have an error", statuses={"see": 141}
            ),
            "dump.load",
            id="a statement that is refused",
        ),
        pytest.param(
            evidence(transport_status=255, statuses={"see": 0}, sum="x", transport_log="Connection reset by peer"),
            "transport.lost",
            id="the link broke",
        ),
    ],
)
def test_judge_load_refuses_a_wrong_dump(found: FetchEvidence, code: str) -> None:
    if not code:
        judge_load(dump(), found)
        return
    with pytest.raises(RemoteFailure) as error:
        judge_load(dump(), found)
    assert error.value.code == code


def test_retry_of_a_loaded_dump_skips_preparation() -> None:
    checkpoint = {
        "touched": True,
        "loaded": True,
        "new_identity": "1:2",
        "done_before": ["set-ownership", "prepare"],
    }
    ended = EndedRebuild("uid", Status.FAILED, checkpoint, {"stream": StepState.DONE, "start": StepState.FAILED})
    option = resume_option(ended)
    assert option.is_possible
    assert set(option.skips) == {"set-ownership", "prepare"}
    assert remembered(ended)["loaded"]


@pytest.mark.parametrize(
    ("version", "archives", "severity"),
    [
        ("10.11.19", (archive(method=BackupMethod.DUMP),), Severity.OK),
        ("8.0.46", (archive(method=BackupMethod.DUMP),), Severity.WARNING),
        ("8.0.46", (), Severity.REFUSAL),
    ],
)
def test_dump_plan_names_a_program_of_the_other_product(
    version: str, archives: tuple[Archive, ...], severity: Severity
) -> None:
    of = world(*archives)
    assert of.source.facts is not None
    assert of.source.facts.host is not None
    tools = {**of.source.facts.host.tools, "mysqldump": Tool("/usr/bin/mysqldump", version)}
    facts = replace(of.source.facts, host=replace(of.source.facts.host, tools=tools))
    plan = build_plan(replace(of, source=replace(of.source, facts=facts)), "dump")
    assert [item.severity for item in plan.findings if item.code == "dump.program"] == [severity]


@pytest.mark.parametrize(
    ("method", "made_by", "loads"),
    [
        ("dump", BackupMethod.DUMP, True),
        ("archive", BackupMethod.PHYSICAL, False),
        ("xbstream", BackupMethod.DUMP, False),
    ],
)
def test_copy_of_a_dump_loads_statements_also_when_it_is_resumed(
    method: str, made_by: BackupMethod, loads: bool
) -> None:
    plan = build_plan(world(archive(method=made_by)), method)
    assert plan.loads_sql is loads
    checkpoint = {"touched": True, "loaded": True, "new_identity": "1:2", "done_before": ["set-ownership", "prepare"]}
    ended = EndedRebuild("uid", Status.FAILED, checkpoint, {"stream": StepState.DONE, "start": StepState.FAILED})
    assert plan_follow_up(plan, resume_option(ended)).loads_sql is loads
