"""Whether a copy is whole: every lie that exit statuses tell is found, and the first real cause is named."""

import re
from dataclasses import replace

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.tool_output import decode_files
from dbops.engine.rebuilds.copy_check import CopyEvidence, judge_copy

#: What ssh and a tool wrote, and no rule of the flavor knows.
MAC = "Corrupted MAC on input"
UNKNOWN = "something never seen before"
FLAVOR = flavor_for("10.11.19", "mariadb")
INFO = """uuid = 5dd06d32-e535-11f1-8e2d-02fc00000001
tool_command = --defaults-file=/run/backup.cnf --backup
tool_version = 10.11.19-MariaDB
server_version = 10.11.19-MariaDB-0+deb12u1-log
start_time = 2026-11-20 22:54:37
binlog_pos = filename 'binlog.000001', position '730', GTID of the last change '0-61011-2'
innodb_to_lsn = 66051469
"""
CHECKPOINTS = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 66051469\nlast_lsn = 66058295\n"
FILES = {
    "xtrabackup_info": INFO,
    "xtrabackup_checkpoints": CHECKPOINTS,
    "xtrabackup_binlog_info": "binlog.000001\t730\t0-61011-2\n",
}
WHOLE = CopyEvidence(
    source_status=0,
    transport_status=0,
    unpack_status=0,
    source_log="[00] 2026-11-20 22:54:39 All tables unlocked\n[00] 2026-11-20 22:54:39 completed OK!\n",
    transport_log="[00] 2026-11-20 22:54:39 completed OK!\n",
    unpack_log="",
    source_files=FILES,
    target_files=FILES,
)


def without(*names: str) -> dict[str, str]:
    return {name: text for name, text in FILES.items() if name not in names}


def changed(name: str, old: str, new: str) -> dict[str, str]:
    return {**FILES, name: FILES[name].replace(old, new)}


def test_judge_copy_accepts_a_complete_copy() -> None:
    info, checkpoints = judge_copy(FLAVOR, WHOLE)
    assert info.uuid.startswith("5dd06d32")
    assert checkpoints.last_lsn == 66058295


LIES = {
    "empty stream, both statuses 0": ({"target_files": {}}, "stream.truncated"),
    "cut at a chunk boundary: the last file is missing": (
        {"target_files": without("xtrabackup_info")},
        "stream.truncated",
    ),
    "no position arrived": ({"target_files": without("xtrabackup_binlog_info")}, "stream.truncated"),
    "completed OK! is missing": ({"source_log": "[00] Streaming ./a.ibd\n"}, "stream.not_completed"),
    "completed OK! is not the last line": (
        {"source_log": WHOLE.source_log + "mariadb-backup: Error writing file\n"},
        "stream.not_completed",
    ),
    "the source said nothing": ({"source_log": ""}, "stream.not_completed"),
    "the unpacker could not create a file and returned 0": (
        {"unpack_log": "mbstream: failed to create file.\n"},
        "stream.unpack_complained",
    ),
    "another run's log sequence number": (
        {"target_files": changed("xtrabackup_checkpoints", "66058295", "66058296")},
        "stream.other_run",
    ),
    "another run's start": (
        {"target_files": changed("xtrabackup_info", "22:54:37", "21:54:37")},
        "stream.other_run",
    ),
    "the source kept nothing to compare with": ({"source_files": {}}, "stream.unverified"),
    "another server's data directory": (
        {"source_log": "[00] option 'datadir' has different values:\n" + WHOLE.source_log},
        "backup.other_datadir",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_judge_copy_refuses_every_incomplete_copy(lie: str) -> None:
    changes, code = LIES[lie]
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, replace(WHOLE, **changes))
    assert raised.value.code == code


def test_judge_copy_names_a_full_target_disk_before_the_broken_pipe() -> None:
    evidence = replace(
        WHOLE,
        source_status=1,
        transport_status=1,
        unpack_status=1,
        unpack_log="mbstream: Error writing file './sbtest/sbtest1.ibd' (Errcode: 28 \"No space left on device\")\n",
        source_log="mariadb-backup: Error writing file 'UNKNOWN' (errno: 32 \"Broken pipe\")\n",
    )
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert "disk" in raised.value.code or "space" in raised.value.code
    assert re.findall(r"\b1\b", raised.value.cause)[:3] == ["1", "1", "1"]


def test_judge_copy_names_a_lost_link_before_the_short_stream() -> None:
    evidence = replace(
        WHOLE,
        source_status=1,
        transport_status=255,
        unpack_status=1,
        unpack_log="xb_stream_read_chunk(): my_read() failed.\n",
        source_log="mariadb-backup: Error writing file 'UNKNOWN' (errno: 32 \"Broken pipe\")\n",
        transport_log="Timeout, server 10.0.0.2 not responding.\n",
    )
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "transport.lost"
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, replace(evidence, transport_log="", transport_status=1))
    assert raised.value.code == "stream.truncated"


@pytest.mark.parametrize(("unpack_status", "unpack_log"), [(0, ""), (1, "xb_stream_read_chunk(): my_read() failed.\n")])
def test_judge_copy_names_a_lost_link_by_the_status_of_ssh(unpack_status: int, unpack_log: str) -> None:
    evidence = replace(
        WHOLE,
        source_status=1,
        transport_status=255,
        unpack_status=unpack_status,
        unpack_log=unpack_log,
        source_log="mariadb-backup: Error writing file 'UNKNOWN' (errno: 32 \"Broken pipe\")\n",
        transport_log=f"{MAC}.\n",
    )
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "transport.lost"
    assert MAC in raised.value.cause


def test_judge_copy_names_no_lost_link_when_the_target_stopped_reading() -> None:
    evidence = replace(WHOLE, source_status=1, transport_status=255, unpack_status=1, unpack_log="something new\n")
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "stream.failed"


def test_judge_copy_shows_an_unknown_failure_with_both_statuses() -> None:
    evidence = replace(WHOLE, source_status=1, transport_status=1, source_log=f"{UNKNOWN}\n")
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "stream.failed"
    assert UNKNOWN in raised.value.cause


@pytest.mark.parametrize("transport_status", [0, 255])
def test_judge_copy_refuses_a_missing_exit_status(transport_status: int) -> None:
    """If the tool is killed, ssh ends with 255, as it does when a link breaks."""
    evidence = replace(WHOLE, source_status=None, transport_status=transport_status)
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "stream.unverified"


def test_judge_copy_names_a_full_disk_before_a_missing_exit_status() -> None:
    evidence = replace(
        WHOLE, source_status=None, unpack_status=1, unpack_log="Error writing: No space left on device\n"
    )
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code != "stream.unverified"


def test_files_come_back_as_they_were_sent() -> None:
    assert decode_files("a aGVsbG8K\n\nb \n") == {"a": "hello\n", "b": ""}


@pytest.mark.parametrize(("transport_status", "transport_log"), [(137, ""), (143, ""), (255, "Killed by signal 15.\n")])
@pytest.mark.parametrize("source_status", [None, 1, 137])
def test_judge_copy_names_a_killed_ssh_before_the_network(
    source_status: int | None, transport_status: int, transport_log: str
) -> None:
    evidence = replace(
        WHOLE,
        source_status=source_status,
        transport_status=transport_status,
        unpack_status=1,
        unpack_log="xb_stream_read_chunk(): my_read() failed.\n",
        source_log="mariadb-backup: Error writing file 'UNKNOWN' (errno: 32 \"Broken pipe\")\n",
        transport_log=transport_log,
    )
    with pytest.raises(RemoteFailure) as raised:
        judge_copy(FLAVOR, evidence)
    assert raised.value.code == "stream.killed"
    assert "ssh" in raised.value.cause
