"""A stream that XtraBackup compresses itself: when it is planned, the words of both ends, and what is read of it afterwards.

XtraBackup is not run here: what it prints and does is from ``tests/engine/recorded``, its release notes and its source.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.facts.instance import HostFacts, Tool, from_record, to_record
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.compression import xtrabackup_compress_problem
from dbops.engine.planning.inputs import KnownInstance
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.rebuilds.copy_check import CopyEvidence, judge_copy
from dbops.engine.rebuilds.plan import Plan
from dbops.engine.rebuilds.steps.commands import expand_words, sent_command, unpack_command
from dbops.engine.rebuilds.steps.copy.stream import Stream
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.tuning.transport import MeasuredLink
from tests.engine import builders
from tests.engine.by_name import build_plan, why_not_shared
from tests.engine.runs import RecordedJournal, make_run
from tests.fakes import FakeClock, FakeDatabase, FakeJobs

MIB = 1024**2
GTID = "90b38aa6-e51e-11f1-9a6c-02fc00000001:1-19"
UNPACK = "/usr/bin/xbstream -x -C /var/lib/mysql --parallel=4"
SLOW = MeasuredLink({"aes128-gcm@openssh.com": 10.0 * MIB}, datetime(2026, 11, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("tool", "unpacker", "problem"),
    [
        ("8.0.35-34", "8.0.35-34", ()),
        ("8.0.34-29", "8.0.35-35", ()),
        ("8.0.36-40", "8.0.36-40", ()),
        ("8.4.0-1", "8.4.0-4", ()),
        ("8.4.0-5", "8.4.0-5", ()),
        ("8.0.35-34", "8.4.0-5", ()),
        ("8.0.33-28", "8.0.35-34", ("xtrabackup 8.0.33-28", "source", "8.0.34-29")),
        ("8.0.30-23", "8.0.35-34", ("xtrabackup 8.0.30-23", "source", "8.0.34-29")),
        ("8.0.35-34", "8.0.35-30", ("xbstream 8.0.35-30", "target", "8.0.35-34", "PXB-3470")),
        ("8.4.0-5", "8.4.0-3", ("xbstream 8.4.0-3", "target", "8.4.0-4", "PXB-3470")),
        ("8.0.35-34", "8.0.35", ("xbstream 8.0.35 ", "target", "8.0.35-34", "PXB-3470")),
        ("2.4.29", "2.4.29", ("xtrabackup 2.4.29", "source")),
        ("9.1.0-1", "9.1.0-1", ("xtrabackup 9.1.0-1",)),
        ("8.4.0-5", "9.1.0-1", ("xbstream 9.1.0-1",)),
        (None, "8.4.0-5", ("xtrabackup", "source")),
        ("8.4.0-5", None, ("xbstream", "target")),
        ("", "", ("xtrabackup", "source")),
    ],
)
def test_compress_problem_needs_one_pass_releases_at_both_ends(
    tool: str | None, unpacker: str | None, problem: tuple[str, ...]
) -> None:
    found = xtrabackup_compress_problem(tool, unpacker)
    assert bool(found) is bool(problem)
    assert all(word in found for word in problem), found


def mysql(name: str, role: str, number: int, tool: str, *, zstd: bool = True, **server: Any) -> KnownInstance:
    tools = {program: Tool(f"/usr/bin/{program}", "8.4.10") for program in (*builders.PROGRAMS[:6], "mysql", "mysqld")}
    tools |= {program: Tool(f"/usr/bin/{program}", tool) for program in ("xtrabackup", "xbstream")}
    tools |= {"zstd": Tool("/usr/bin/zstd")} if zstd else {}
    known: dict[str, Any] = {"flavor": "mysql", "version": "8.4.10", "version_comment": "", **server}
    known |= {"gtid_executed": GTID, "gtid_binlog": "", "server_uuid": f"uuid-{number}"}
    host: HostFacts = builders.host(number, tools=tools)
    return builders.member(
        name, role, number, facts=builders.facts(number, host=host, server=builders.server(number, **known))
    )


def plan_with(
    tool: str = "8.4.0-5", unpacker: str = "8.4.0-5", *, link: MeasuredLink | None = SLOW, zstd: bool = True
) -> Plan:
    primary = mysql("primary-1", "primary", 11, tool, read_only=False, replication=())
    source = mysql("backup-1", "backup", 12, tool, zstd=zstd)
    target = mysql("replica-1", "replica", 13, unpacker, zstd=zstd)
    return build_plan(builders.inputs(primary=primary, source=source, target=target, link=link))


def commands(plan: Plan) -> list[str]:
    return [command.text for step in plan.steps if step.name == "stream" for command in step.commands]


@pytest.mark.parametrize("zstd", [True, False])
def test_over_a_slow_link_the_tool_compresses_and_the_unpacker_expands(zstd: bool) -> None:
    plan = plan_with(zstd=zstd)
    flavor = flavor_for("8.4.10")
    assert (plan.compress_threads, plan.compresses_itself, plan.pipe_threads) == (4, True, 0)
    sent, received = commands(plan)
    assert " --parallel=4 --compress=zstd --compress-threads=4 --compress-zstd-level=1 " in sent
    assert received.endswith(f" backup | {UNPACK} --decompress")
    assert "|" not in sent
    assert received.count("|") == 1
    assert sent_command(plan, flavor, "RUN")[0] == "/usr/bin/xtrabackup", (
        "no shell around it: its own exit status counts"
    )
    assert expand_words(plan) == []
    assert " 10 MiB/s" in " ".join(plan.stream_reasons)


def test_plan_compresses_in_the_pipe_when_a_tool_is_unsuitable() -> None:
    plan = plan_with(unpacker="8.4.0-1")
    flavor = flavor_for("8.4.10")
    assert (plan.compress_threads, plan.compresses_itself, plan.pipe_threads) == (4, False, 4)
    sent, received = commands(plan)
    assert "--compress" not in sent
    assert sent.endswith(" | /usr/bin/zstd -q -1 -c -T4")
    assert received.endswith(f" | /usr/bin/zstd -q -d -c | {UNPACK}")
    assert sent_command(plan, flavor, "RUN")[:2] == ["bash", "-c"]
    assert "xbstream 8.4.0-1" in " ".join(plan.stream_reasons)


def test_plan_compresses_nothing_without_tool_and_zstd() -> None:
    plan = plan_with(unpacker="8.4.0-1", zstd=False)
    assert (plan.compress_threads, plan.compresses_itself) == (0, False)
    assert "xbstream 8.4.0-1" in " ".join(plan.stream_reasons)


@pytest.mark.parametrize("link", [None, replace(SLOW, rates={"aes128-gcm@openssh.com": 2000.0 * MIB})])
def test_plan_compresses_nothing_on_a_fast_or_unknown_link(link: MeasuredLink | None) -> None:
    plan = plan_with(link=link)
    assert (plan.compress_threads, plan.compresses_itself) == (0, False)
    assert "compress" not in " ".join(commands(plan))


def test_mariadb_has_the_pipe() -> None:
    base = builders.inputs()
    both = [
        replace(
            one,
            facts=replace(one.facts, host=replace(one.facts.host, tools={**one.facts.host.tools, "zstd": Tool("/z")})),
        )
        for one in (base.source, base.target)
        if one.facts and one.facts.host
    ]
    plan = build_plan(replace(base, source=both[0], target=both[1], link=SLOW))
    assert (plan.compress_threads, plan.compresses_itself) == (4, False)
    assert "mbstream" in " ".join(plan.stream_reasons)


def test_stored_plan_without_tool_compression_uses_the_pipe() -> None:
    record = to_record(plan_with(unpacker="8.4.0-1"))
    del record["compresses_itself"]
    assert from_record(Plan, record).pipe_threads == 4
    assert "--decompress" not in unpack_command(from_record(Plan, record), flavor_for("8.4.10"))


BY_TOOL, IN_PIPE, PLAIN = "compressed by the backup tool", "compressed by zstd in the pipe", "not compressed"


@pytest.mark.parametrize(
    ("plan", "leader"),
    [
        (plan_with(unpacker="8.4.0-5"), plan_with(unpacker="8.4.0-4")),
        (plan_with(unpacker="8.4.0-1"), plan_with(unpacker="8.4.0-2")),
        (plan_with(unpacker="8.4.0-5", link=None), plan_with(unpacker="8.4.0-1", link=None)),
    ],
    ids=[BY_TOOL, IN_PIPE, PLAIN],
)
def test_shared_read_expands_the_same_compression_on_each_target(plan: Plan, leader: Plan) -> None:
    flavor = flavor_for("8.4.10")
    assert why_not_shared(plan, leader, ["python3"]) == ""
    assert sent_command(plan, flavor, "RUN") == sent_command(leader, flavor, "RUN")
    for one in (plan, leader):
        assert ("--decompress" in unpack_command(one, flavor)) == (
            "--compress=zstd" in sent_command(one, flavor, "RUN")
        )
        assert bool(expand_words(one)) == (sent_command(one, flavor, "RUN")[0] == "bash")


@pytest.mark.parametrize(
    ("one", "its", "other", "others"),
    [
        (plan_with(), BY_TOOL, plan_with(link=None), PLAIN),
        (plan_with(unpacker="8.4.0-1"), IN_PIPE, plan_with(link=None), PLAIN),
        (plan_with(), BY_TOOL, plan_with(unpacker="8.4.0-1"), IN_PIPE),
    ],
    ids=["by the tool or not at all", "in the pipe or not at all", "by the tool or in the pipe"],
)
def test_shared_read_refuses_a_target_with_another_compression(one: Plan, its: str, other: Plan, others: str) -> None:
    told = "the streams differ: this one is"
    assert why_not_shared(one, other, ["python3"]) == f"{told} {its}, the other is {others}"
    assert why_not_shared(other, one, ["python3"]) == f"{told} {others}, the other is {its}"


def test_another_number_of_threads_is_another_way_to_read() -> None:
    plan = plan_with(unpacker="8.4.0-1")
    assert "different options" in why_not_shared(replace(plan, compress_threads=2), plan, ["python3"])


def running(plan: Plan) -> tuple[Run, RecordedJournal]:
    journal = RecordedJournal()
    nothing: Any = {"source": FakeDatabase(), "target": FakeDatabase(), "journal": journal, "clock": FakeClock()}
    return make_run(plan, FakeJobs(), **nothing, **{"stream.began": 0.0}), journal


COUNTERS = {
    "transport.read_bytes": 110 * MIB,
    "transport.write_bytes": 100 * MIB,
    "unpack.read_bytes": 100 * MIB,
    "unpack.write_bytes": 300 * MIB,
}


def state(unpack_log: str = "") -> JobState:
    return JobState(JobStatus.RUNNING, counters=COUNTERS, tails={"unpack": unpack_log})


@pytest.mark.parametrize(("unpacker", "unpacked"), [("8.4.0-5", 300 * MIB), ("8.4.0-1", 100 * MIB)])
def test_stream_counts_unpacked_bytes_and_the_rate_of_the_link(unpacker: str, unpacked: int) -> None:
    """Where the pipe expands, the unpacker reads what is expanded already."""
    run, journal = running(plan_with(unpacker=unpacker))
    Stream().count(run, state())
    assert run.checkpoint["stream.bytes"] == unpacked
    assert journal.figures.bytes == unpacked
    assert [count for _, count in run.checkpoint["stream.link"]] == [100 * MIB]


FULL = "xbstream: Error writing file './lab/t1.ibd' (OS errno 28 - No space left on device)\n"


def test_stream_fails_at_once_when_the_disk_is_full() -> None:
    run, _ = running(plan_with())
    with pytest.raises(RemoteFailure) as raised:
        Stream().follow(run, state(FULL))
    assert raised.value.code == "stream.disk_full"
    assert "t1.ibd" in raised.value.cause


SENT = {
    "xtrabackup_info": "uuid = a\ninnodb_to_lsn = 107889581\nformat = xbstream\ncompressed = compressed\nencrypted = N\n",
    "xtrabackup_checkpoints": "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 107889581\nlast_lsn = 107891695\n",
    "xtrabackup_binlog_info": "binlog.000003\t197\n",
}
WHOLE = CopyEvidence(
    source_status=0,
    transport_status=0,
    unpack_status=0,
    source_log="2026-11-20T20:16:31.871402-00:00 0 [Note] [MY-011825] [Xtrabackup] completed OK!\n",
    transport_log="",
    unpack_log="",
    source_files=SENT,
    target_files={**SENT, "xtrabackup_tablespaces": "{}"},
)


def test_judge_copy_accepts_expanded_files() -> None:
    info, checkpoints = judge_copy(flavor_for("8.4.10"), WHOLE)
    assert (info.uuid, checkpoints.last_lsn) == ("a", 107891695)


@pytest.mark.parametrize("name", ["xtrabackup_info", "xtrabackup_tablespaces", "xtrabackup_binlog_info"])
def test_judge_copy_refuses_a_file_still_compressed(name: str) -> None:
    arrived = {(f"{key}.zst" if key == name else key): text for key, text in WHOLE.target_files.items()}
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(flavor_for("8.4.10"), replace(WHOLE, target_files=arrived))
    assert raised.value.code == "stream.truncated"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (FULL, "stream.disk_full"),
        ("decompress: unprocessed data left in the buffer for file ./lab/t1.ibd.\n", "stream.unpack_complained"),
    ],
)
def test_judge_copy_uses_the_log_of_the_unpacker_despite_exit_zero(said: str, code: str) -> None:
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(flavor_for("8.4.10"), replace(WHOLE, unpack_log=said))
    assert raised.value.code == code
