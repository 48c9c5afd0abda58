"""The pure parts of script/bench: names, ratios, rows, the page, what a session costs. No test asserts a time."""

import os
import re
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from script.lib import bench_ciphers, benches
from script.lib.bench_cpu import Cost, Programs, cost_between, cost_of
from script.lib.bench_prepare import redo_file
from script.lib.bench_rebuild_rows import KEYS, first_birth, rows_of
from script.lib.bench_rows import GOALS, Goal, Group, Row, against_median, document, pairs, row_of, rows_without, table
from script.lib.bench_table import PARTS, parse
from script.lib.supervisor import Failed

ROOT = Path(__file__).parents[1]


def test_bench_names_have_modules_and_exclude_rebuild() -> None:
    for name, (module, what) in benches.BENCHES.items():
        assert find_spec(f"script.lib.{module}") is not None, name
        assert what
    assert benches.choose([]) == ("rebuild", [])
    assert benches.choose(["--size", "1G"]) == ("rebuild", ["--size", "1G"])
    assert benches.choose(["clone", "--rounds", "2"]) == ("clone", ["--rounds", "2"])


def test_install_functions_exist() -> None:
    shell = {
        file: file.read_text() for file in (ROOT / "script").rglob("*") if file.suffix in ("", ".sh") and file.is_file()
    }
    there = {name for text in shell.values() for name in re.findall(r"^(need\w*)\(\)", text, re.MULTILINE)}
    called = {
        name for text in shell.values() for name in re.findall(r"(?:^|[;)]) *(need\w*)\b(?!\()", text, re.MULTILINE)
    }
    assert called - there == set()
    assert {"need", "need_mysql"} <= called


def test_bench_modules_with_a_main_have_a_name() -> None:
    modules = {path.stem for path in (ROOT / "script/lib").glob("bench*.py") if "\ndef main(" in path.read_text()}
    modules -= {
        "benches",
        "bench_fleet_server",
        "bench_live_writer",
    }  # the list itself, and processes that a bench starts
    assert modules == {module for module, _ in benches.BENCHES.values()}


def test_ratios_are_made_within_a_round() -> None:
    assert pairs([2.0, 9.0], [1.0, 3.0, 5.0]) == (2.0, 3.0)
    assert against_median([2.0, 4.0], [1.0, 2.0, 9.0]) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("goal", "value", "met", "text"),
    [
        (Goal(1.03), 1.03, True, "at most 1.03"),
        (Goal(1.03), 1.04, False, "at most 1.03"),
        (Goal(24, at_least=True), 24.0, True, "at least 24"),
        (Goal(24, at_least=True), 23.9, False, "at least 24"),
        (Goal(3, unit=" s"), 2.0, True, "at most 3 s"),
    ],
)
def test_goal_limits_one_side(goal: Goal, value: float, met: bool, text: str) -> None:
    assert (goal.is_met(value), goal.describe()) == (met, text)


def cells(row: Row) -> list[str]:
    return [cell.strip() for cell in row.line().strip("|").split("|")]


def test_row_has_a_note_only_when_the_goal_is_missed() -> None:
    reached, missed = row_of("stream", [1.01, 1.00, 1.2], "the disk"), row_of("stream", [1.1, 1.2, 1.3], "the disk")
    assert cells(reached)[2:] == ["1.01", *cells(reached)[3:4], "3", "yes"]
    assert re.findall(r"[\d.]+", cells(reached)[3]) == ["1.00", "1.20"]
    assert cells(missed)[2:] == ["1.20", *cells(missed)[3:4], "3", "**no**"]
    assert re.findall(r"[\d.]+", cells(missed)[3]) == ["1.10", "1.30"]
    assert (reached.note, missed.note) == ("", "the disk")


def test_row_with_a_unit_shows_it() -> None:
    row = row_of("around", [2.5])
    assert row.goal.unit == " s"
    assert cells(row)[2] == "2.50 s"
    assert cells(row)[4:] == ["1", "yes"]


def test_unmeasured_row_has_a_note_and_no_values() -> None:
    rows = rows_without("shared-read", "no shared read here")
    assert [row.values for row in rows] == [(), ()]
    assert all("shared read" in row.note for row in rows)
    assert all(cells(row)[2:5] == ["–", "–", "0"] for row in rows)


def test_page_has_every_row_note_and_duration() -> None:
    group = Group(
        "Stream",
        (row_of("stream", [2.0], "the disk"), *rows_without("clone", "no MySQL")),
        {"stream": [4.0, 2.0]},
        "A lab.",
    )
    headline = "2026-11-23, 2 cores"
    page = document(headline, [group])
    assert page.startswith("# Benchmarks\n")
    assert f"\n{headline}\n" in page
    assert f"\n* {GOALS['stream'][0][0]}: the disk\n" in page
    assert all(f"\n* {row.title}: {row.note}\n" in page for row in group.rows)
    assert page.index("## Stream") < page.index("A lab.") < page.index("| stream | 3.00 | 2.00 | 4.00 | 2 |")


def test_page_has_no_notes_when_every_goal_is_met() -> None:
    page = document("now", [Group("Stream", (row_of("stream", [1.0], "some limit"),))])
    assert not [line for line in page.splitlines() if line.startswith(f"* {GOALS['stream'][0][0]}:")]
    assert "some limit" not in page


def test_row_belongs_to_one_part() -> None:
    keys = [key for part in PARTS for key in part.keys]
    assert sorted(keys) == sorted(GOALS)
    assert parse(["--only", "stream,clone"]).wanted == {"stream", "clone"}
    assert parse([]).wanted == set(GOALS)
    with pytest.raises(SystemExit):
        parse(["--only", "strem"])


def test_table_has_median_and_spread() -> None:
    assert table({"a": [3.0, 1.0, 2.0]})[-1] == "| a | 2.00 | 1.00 | 3.00 | 3 |"


SAMPLES = {
    **{
        name: [0.1, 0.1]
        for name in ("preflight", "open-access", "swap-datadir", "release", "set-ownership", "start", "repoint")
    },
    "stream": [10.0, 12.0],
    "rebuild until attached": [20.0, 20.0],
    "around": [2.0, 4.0],
    "worker, % of a core": [1.0, 3.0],
    "worker, MB": [110.0, 111.0],
    "by hand, best cipher": [10.0, 10.0],
    "by hand, default cipher": [20.0, 16.0],
    "restore the dump (three indexes)": [400.0],
    "dump and gzip (one index)": [160.0],
    "bytes (one index)": [100.0],
    "physical backup and zstd (one index)": [10.0, 10.0],
    "bytes of it (one index)": [120.0, 120.0],
    "rebuild by archive until attached": [40.0, 25.0],
    "archive's stream": [30.0, 20.0],
    "archive, processor s of sshd": [2.0, 4.0],
    "archive, processor s of zstd": [9.0, 11.0],
}


def values(rows: tuple[Row, ...]) -> list[tuple[str, tuple[float, ...]]]:
    return [(row.key, tuple(round(value, 3) for value in row.values)) for row in rows]


def test_stream_rows_use_their_own_seconds() -> None:
    rows = rows_of(SAMPLES)
    assert values(rows) == [
        ("stream", (1.0, 1.2)),
        ("restore", (20.0,)),
        ("archive", (0.5, 0.8)),
        ("backup", (16.0,)),
        ("backup", (1.2, 1.2)),
        ("around", (2.0, 4.0)),
        ("worker", (1.0, 3.0)),
        ("worker", (110.0, 111.0)),
    ]
    assert "400 s" in next(row.note for row in rows if row.key == "restore")
    assert "zstd 10.0 s, sshd 3.0 s" in next(row.note for row in rows if row.key == "archive")
    assert values((bench_ciphers.row(SAMPLES),)) == [("default-cipher", (0.5, 0.75))]
    slower = SAMPLES | {"stream": [18.0, 15.0]}
    assert "0.56" in bench_ciphers.row(slower).note


def test_unrequested_rows_need_no_samples() -> None:
    names = ("by hand", "restore", "dump", "bytes", "physical", "rebuild by archive")
    rows = rows_of({name: found for name, found in SAMPLES.items() if not name.startswith(names)})
    assert {row.key for row in rows} == {"around", "worker"} < set(KEYS)


def test_session_cost_is_the_sum_of_its_processes(tmp_path: Path) -> None:
    def process(pid: int, session: int, own: int, ended: int, pages: int) -> None:
        (tmp_path / str(pid)).mkdir()
        fields = [
            "S",
            "1",
            str(session),
            str(session),
            *["0"] * 7,
            str(own),
            "0",
            str(ended),
            "0",
            *["0"] * 6,
            str(pages),
        ]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a worker) of (7)) {' '.join(fields)}\n")

    process(50, 50, own=100, ended=30, pages=10)
    process(51, 50, own=200, ended=7, pages=20)  # what 51 saw end has been counted nowhere else: it is no leader
    process(52, 99, own=5000, ended=0, pages=9000)
    (tmp_path / "53").mkdir()  # it has just ended
    cost = cost_of(50, tmp_path)
    assert cost.cpu_seconds == 330 / os.sysconf("SC_CLK_TCK")
    assert cost.resident_bytes == 20 * os.sysconf("SC_PAGE_SIZE")


def test_programs_are_summed_by_name_since_the_block_began(tmp_path: Path) -> None:
    def process(pid: int, name: str, born: int, ticks: int) -> None:
        fields = [0] * 50
        fields[11], fields[12], fields[19] = ticks, 1, born
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")

    hertz = os.sysconf("SC_CLK_TCK")
    process(50, "sshd", born=1, ticks=1000)  # it was there before
    process(51, "worker", born=2, ticks=5000)
    with Programs("sshd", "zstd", proc=tmp_path) as programs:
        process(50, "sshd", born=1, ticks=1000 + hertz)
        process(52, "zstd", born=3, ticks=2 * hertz - 1)
        assert wait_until_true(lambda: len(programs.now) == 2 and sum(programs.now.values()) > 1000 + hertz)
        process(52, "zstd", born=4, ticks=hertz - 1)  # another one, with the same number
        assert wait_until_true(lambda: len(programs.now) == 3)
    assert programs.seconds() == {"sshd": 1.0, "zstd": 3.0}


def wait_until_true(condition: Callable[[], bool]) -> bool:
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_cost_between_uses_the_nearest_samples() -> None:
    costs = [
        Cost(1.0, 0.1, 5_000_000),
        Cost(2.0, 0.3, 9_000_000),
        Cost(3.0, 0.6, 7_000_000),
        Cost(4.0, 9.0, 99_000_000),
    ]
    cpu, megabytes = cost_between(costs, 1.1, 3.2)
    assert (round(cpu, 6), megabytes) == (0.5, 9.0)
    with pytest.raises(Failed):
        cost_between([], 1.0, 2.0)


def test_first_byte_is_the_oldest_file_except_the_mark(tmp_path: Path) -> None:
    (tmp_path / ".dbops-1").touch()
    marked = float(
        subprocess.run(["stat", "-c", "%.W", tmp_path / ".dbops-1"], capture_output=True, text=True, check=True).stdout
    )
    if marked <= 0:
        pytest.skip("this file system does not tell when a file was made")
    (tmp_path / "sbtest").mkdir()
    (tmp_path / "sbtest" / "a.ibd").touch()
    found = first_birth(tmp_path)
    (tmp_path / "b.ibd").touch()
    assert found >= marked
    assert first_birth(tmp_path) == found


def test_first_byte_is_none_in_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(Failed):
        first_birth(tmp_path)


def test_redo_of_a_backup_is_found_by_either_name(tmp_path: Path) -> None:
    assert redo_file(tmp_path).name == "ib_logfile0"
    (tmp_path / "xtrabackup_logfile").touch()
    assert redo_file(tmp_path) == tmp_path / "xtrabackup_logfile"
