"""Each file that has a weekday runs on that day; tests of faults, attacks and what protects data and hosts run every day."""

import subprocess
import sys
from collections import Counter

from tests.turns import EVERY, ROOT, TURNS, left_out

FILES = Counter(file for files in TURNS for file in files)
#: What is never left out: faults, attacks, refusals, cancel and rollback, the gate, a dashboard that goes away, a confined worker.
EVERY_DAY = (
    *("tests/engine/", "tests/app/", "tests/faults/", "tests/hostile/"),
    *(
        "tests/e2e/test_rebuild.py",
        "tests/e2e/test_refusals.py",
        "tests/e2e/test_cancel.py",
        "tests/e2e/test_going_back.py",
    ),
    *("tests/e2e/test_sudo.py", "tests/situations/test_dashboard_away.py", "tests/deployed/test_confined.py"),
)


def test_files_exist_and_have_one_day_of_the_week() -> None:
    assert len(TURNS) == 7
    assert {file: count for file, count in FILES.items() if count > 1 or not (ROOT / file).is_file()} == {}


def test_files_of_every_day_have_no_weekday() -> None:
    assert [file for file in FILES if file.startswith(EVERY_DAY)] == []


def test_each_file_runs_on_its_day_and_with_all_others() -> None:
    assert left_out(EVERY) == frozenset()
    for number, files in enumerate(TURNS, 1):
        assert left_out(number) == {ROOT / file for file in FILES.keys() - set(files)}


def test_run_of_a_day_collects_no_file_of_another() -> None:
    other, today = "test_interrupted_runs.py", "test_lab.py"
    turn = next(number for number, files in enumerate(TURNS, 1) if f"tests/lab/{other}" not in files)
    words = (sys.executable, "-m", "pytest", "tests/lab", "--collect-only", "-q", "--turn", str(turn))
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert today in found
    assert other not in found
