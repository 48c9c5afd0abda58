"""Rebuild after rebuild, each under a fault drawn at random from the whole matrix, at a random moment of a random step.

Each lab draws from a generator of its own, seeded by the seed and the lab's number: one lab's sequence can be run again.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.kinds import load_all
from tests.faults.matrix import FAULTS, Fault
from tests.faults.outcomes import ROOT, Row, commit
from tests.faults.run import run_fault
from tests.networks import free_network
from tests.stack import Stack, running_stack

RESULT = ROOT / "var" / "soak.json"
EVIDENCE = ROOT / "var" / "soak-evidence"
#: up to how long after the step's begin a fault is injected; half of them at once
LONGEST_DELAY_SECONDS = 1.5
BROKEN_LABS_ALLOWED = 5
COUNTS = {
    "source-stopped": "sources left stopped",
    "wrong-machine": "wrong machines touched",
    "false-success": "false successes",
    "stuck": "stuck jobs",
    "orphan": "orphaned processes, keys or credentials",
    "sent-again": "backups sent or servers started twice",
    "unexpected": "unexpected ends",
    "broken": "runs that could not be judged",
}
#: the fault was not injected: its step was over before it came
MISSED = "missed"


@dataclass(slots=True)
class Soak:
    """What all labs have done so far."""

    seed: int
    until: float
    head: str = field(default_factory=commit)  # the commit, as it is when the soak begins
    rows: list[Row] = field(default_factory=list)
    broken_labs: list[str] = field(default_factory=list)
    starting: threading.Lock = field(default_factory=threading.Lock)

    def kinds_of_violations(self) -> Counter[str]:
        return Counter(text.partition(":")[0] for row in self.rows for text in row.violations)

    def is_clean(self) -> bool:
        return not self.broken_labs and not set(self.kinds_of_violations()) - {MISSED}

    def record(self, minutes: float) -> dict[str, object]:
        kinds = self.kinds_of_violations()
        injected = [row for row in self.rows if not any(text.startswith(MISSED) for text in row.violations)]
        ends = Counter(f"{row.status} ({row.code})" if row.code else row.status for row in self.rows)
        return {
            "minutes": minutes,
            "seed": self.seed,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": self.head,
            "rebuilds": len(self.rows),
            "faults": len(injected),
            "counts": {words: kinds.get(kind, 0) for kind, words in COUNTS.items()}
            | {"labs that broke": len(self.broken_labs)},
            "outcomes": dict(ends.most_common()),
            "rows": [asdict(row) for row in self.rows],
        }


def drawable() -> list[type[Fault]]:
    load_all()
    return [fault for fault in FAULTS.values() if fault.soaks and not fault.only_full and fault.name != "none"]


def work(soak: Soak, number: int) -> None:
    """Draw and play on one lab until the time is over. After a violation the lab is thrown away and another one made."""
    draw = random.Random(f"{soak.seed}-{number}")
    while time.monotonic() < soak.until and len(soak.broken_labs) < BROKEN_LABS_ALLOWED:
        try:
            with ExitStack() as parts:
                with soak.starting:  # one at a time: each takes a free network and free ports
                    stack = parts.enter_context(running_stack(free_network(), size="64M"))
                while time.monotonic() < soak.until and play_one(soak, stack, draw, number):
                    pass
        except Exception:
            soak.broken_labs.append(f"lab {number}: {traceback.format_exc()}")
            print(soak.broken_labs[-1], flush=True)


def play_one(soak: Soak, stack: Stack, draw: random.Random, number: int) -> bool:
    """Play one rebuild. Return whether the lab can be used again."""
    fault = draw.choice(drawable())
    step = draw.choice(fault.steps)
    delay = draw.choice([0.0, draw.uniform(0, LONGEST_DELAY_SECONDS)])
    row, evidence = run_fault(stack, fault, step, delay_seconds=delay)
    soak.rows.append(row)
    print(
        f"{len(soak.rows):4} lab {number}: {row.fault} in {row.step} (+{delay:.1f} s): {row.status} {row.code}".rstrip(),
        *row.violations,
        sep="\n     ",
        flush=True,
    )
    if not evidence or all(text.startswith(MISSED) for text in row.violations):
        return True
    folder = keep_evidence(stack, evidence, len(soak.rows), row)
    print(f"     evidence: {folder}", flush=True)
    return False


def keep_evidence(stack: Stack, text: str, count: int, row: Row) -> Path:
    """Copy what can tell why: the dashboard's tables and logs, and each host's journal of the runs and its logs."""
    folder = EVIDENCE / f"{count:03}-{row.fault}-{row.step}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "row.json").write_text(json.dumps(asdict(row), indent=1))
    (folder / "evidence.txt").write_text(text)
    for path in [*stack.folder.glob("*.log"), *stack.folder.glob("dbops.sqlite3*")]:
        shutil.copy(path, folder / path.name)
    for host in stack.lab.hosts:
        for name in ("log", "dbops"):
            if (kept := host.folder / name).is_dir():
                shutil.copytree(kept, folder / host.name / name, symlinks=True, ignore_dangling_symlinks=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--labs", type=int, default=3, help="how many labs are soaked side by side")
    options = parser.parse_args()
    soak = Soak(options.seed, time.monotonic() + options.minutes * 60)
    print(f"seed {soak.seed}, {options.labs} labs, faults: {', '.join(fault.name for fault in drawable())}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # on SIGTERM it takes its labs down
    with ThreadPoolExecutor(options.labs) as pool:
        labs = [pool.submit(work, soak, number) for number in range(options.labs)]
        try:
            wait(labs)
        except KeyboardInterrupt:
            soak.until = 0.0
            print("Ending: each lab plays its rebuild to the end first.", flush=True)
    record = soak.record(options.minutes)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    for name in ("rebuilds", "faults", "counts", "outcomes"):
        print(f"{name}: {json.dumps(record[name])}")
    return 0 if soak.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
