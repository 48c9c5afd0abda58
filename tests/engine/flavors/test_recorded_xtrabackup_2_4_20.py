"""XtraBackup 2.4.20 with MySQL 5.7.29 by whole logs of real runs (``tests/engine/recorded/xtrabackup-2.4.20``)."""

from pathlib import Path

import pytest

from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.failures import known_failure
from dbops.engine.flavors.logs import SET_CHARACTERS, whole_positions
from dbops.engine.flavors.prepare_progress import PrepareProgress, prepare_progress
from tests.engine.flavors.test_recorded_xtrabackup import CODES

RECORDED = Path(__file__).parents[1] / "recorded" / "xtrabackup-2.4.20"
FLAVOR = flavor_for("5.7.29")
MIB = 1024**2
#: Of ``prepare.log``: where the tool began and ended, and what it could use.
BEGIN, END, MEMORY = 79191141, 79546246, 256 * MIB
UUIDS = [f"{letter * 8}-e8a3-11f1-bbc5-02fc00000001" for letter in "abc"]
FAILURES = sorted((RECORDED / "failures").glob("*.log"))


def lines(name: str) -> list[str]:
    return (RECORDED / name).read_text().splitlines()


def test_parse_backup_line_reads_a_good_log() -> None:
    parsed = [FLAVOR.parse_backup_line(line) for line in lines("backup.log")]
    assert [line.text for line in parsed if line.kind == "error"] == []
    assert parsed[-1].kind == "completed"
    files = [line.path for line in parsed if line.kind == "file"]
    assert "./performance_schema/replication_group_members.frm" in files
    assert "./lab/my.MYD" in files


def test_parse_backup_line_shows_no_wait_where_there_is_none() -> None:
    announced = [line for line in lines("backup.log") if "Waiting 600 seconds" in line]
    assert [FLAVOR.parse_backup_line(line).kind for line in announced] == ["other"]
    waits = [line for line in lines("failures/lock-wait.log") if "Waiting for query" in line]
    assert waits
    assert {FLAVOR.parse_backup_line(line).kind for line in waits} == {"milestone"}


def test_known_failure_finds_a_full_disk_at_any_file() -> None:
    line = "Error writing file './performance_schema/replication_group_members.frm' (Errcode: 28 - No space left on device)"
    found = known_failure([line])
    assert found is not None
    assert found.code == "stream.disk_full"


@pytest.mark.parametrize("file", FAILURES, ids=[file.stem for file in FAILURES])
def test_known_failure_finds_the_code(file: Path) -> None:
    name = "privilege" if file.stem.startswith("privilege-") else file.stem
    found = known_failure(file.read_text().splitlines())
    assert found is not None
    assert found.code == CODES[name]


def test_prepare_begins_where_the_copied_log_begins() -> None:
    log = lines("prepare.log")
    begun = next(number for number, line in enumerate(log) if "start_lsn" in line)
    assert prepare_progress(FLAVOR, log[: begun + 1]).begin_lsn == BEGIN


def follow(log: list[str], *, last_lsn: int, memory_bytes: int, at_once: int = 40) -> list[float | None]:
    """Return the percentages that are shown, with a look after every line at no more than the log's end."""
    progress, shown = PrepareProgress(), []
    for number in range(1, len(log) + 1):
        seen = log[max(0, number - at_once) : number]
        progress = prepare_progress(FLAVOR, seen, progress, last_lsn=last_lsn, memory_bytes=memory_bytes)
        shown.append(progress.percent)
    return shown


def test_prepare_progress_of_one_batch_follows_its_percentages() -> None:
    shown = follow(lines("prepare.log"), last_lsn=END, memory_bytes=MEMORY)
    batch = next(number for number, line in enumerate(lines("prepare.log")) if "Progress in percent" in line)
    assert set(shown[:batch]) == {None}
    assert set(shown[batch:]) == {99.0}


@pytest.mark.parametrize("at_once", [3, 40])
def test_prepare_progress_of_many_batches_never_goes_back_and_is_never_early(at_once: int) -> None:
    log = lines("prepare-batches.log")
    shown = follow(log, last_lsn=28052689, memory_bytes=10 * MIB, at_once=at_once)
    known = [percent for percent in shown if percent is not None]
    assert known == sorted(known)
    batches = [percent for line, percent in zip(log, shown, strict=True) if "Apply batch completed" in line]
    assert len(batches) == 9
    assert [round(percent or 0.0) for percent in batches[:2]] == [8, 30]
    assert (batches[-2] or 0.0) < 96.0
    assert max(known) < 100.0


def test_position_with_a_set_of_several_lines_is_one_line() -> None:
    [said] = [line for line in lines("backup.log") if "binlog position" in line]
    whole = [*lines("backup.log")[:5], *said.replace("'01e9", f"'{UUIDS[0]}:1-8,\n{UUIDS[1]}:1,\n01e9").split("\n")]
    joined, count = whole_positions([*whole, "261125 07:46:59 completed OK!"])
    assert count == len(whole) + 1
    parsed = [FLAVOR.parse_backup_line(line) for line in joined]
    assert parsed[-2].kind == "milestone"
    assert f"{UUIDS[0]}:1-8,{UUIDS[1]}:1,01e99e0d" in parsed[-2].text
    assert parsed[-2].text.endswith(":1-598'")
    assert parsed[-1].kind == "completed"


def test_position_whose_end_is_not_logged_yet_waits_for_it() -> None:
    begun = f"MySQL binlog position: filename 'b.1', position '4', GTID of the last change '{UUIDS[0]}:1,"
    assert whole_positions(["a", begun, f"{UUIDS[1]}:1,"]) == (["a"], 1)
    endless = [begun, *[f"{UUIDS[1]}:1,"] * (SET_CHARACTERS // 30)]
    assert whole_positions(endless)[1] > 1
