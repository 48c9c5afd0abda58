"""script/bench audit: time the first page of each filter of a large audit log, and the verification of the log.

The log, with valid hashes, is in a temporary SQLite database. Asserts nothing.
"""

import argparse
import os
import sys
import time
from importlib import import_module
from statistics import median

from script.lib.bench_ground import headline, own_django

GOAL_MS, TEXT_GOAL_MS = 300, 1000
#: Title to query string. The text is in the oldest entry only, or in every hundredth entry.
PAGES = {
    "no filter": "",
    "person, frequent": "actor=person-3",
    "person, rare": "actor=rare",
    "person, part of many names": "actor=person",
    "person, unknown": "actor=ghost",
    "action": "action=login.failed",
    "subject": "subject=replica-77",
    "instance": "instance=replica-1234",
    "instance, part of many names": "instance=replica",
    "cluster": "cluster=cluster-42",
    "outcome": "outcome=failed",
    "time, a day long ago": "from=2026-02-01&to=2026-02-01",
    "text, frequent": "text=upgrade",
    "text, in the oldest entry alone": "text=needle",
    "text, in none": "text=haystack",
    "text and person": "text=needle&actor=person-3",
    "frequent text and rare person": "text=upgrade&actor=rare",
    "rare text and frequent outcome": "text=needle&outcome=done",
    "rare text in a month": "text=haystack&from=2026-02-01&to=2026-02-28",
    "person and outcome": "actor=person-3&outcome=failed",
    "person, cluster, outcome and time": "actor=person-3&cluster=cluster-42&outcome=failed&from=2026-02-01&to=2026-06-01",
    "rare person and an outcome that they never had": "actor=rare&outcome=failed",
    "view: overrides": "view=overrides",
    "view: failed logins": "view=failed-logins",
    "view: data movement": "view=data-movement",
    "the 5,000th page": "before=750000",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench audit", description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000, help="entries of the log (default 1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is made (default 5)")
    parser.add_argument("--verify", action="store_true", help="verify the whole log, too")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with own_django():
        # models can be imported only after Django's setup
        bench_audit_log = import_module("script.lib.bench_audit_log")
        print(f"making {options.entries:,} entries", flush=True)
        bench_audit_log.make(options.entries)
        print(f"\n{headline('audit', arguments, f'load {os.getloadavg()[0]:.1f}')}\n")
        print(
            f"| first page of | median ms | most ms | queries | goal {GOAL_MS} ms, with a text {TEXT_GOAL_MS} |\n|---|---|---|---|---|"
        )
        for title, query in PAGES.items():
            walls, queries = bench_audit_log.measure(query, options.rounds)
            goal = TEXT_GOAL_MS if "text=" in query else GOAL_MS
            met = "met" if median(walls) <= goal else "MISSED"
            print(f"| {title} | {median(walls):,.0f} | {max(walls):,.0f} | {queries} | {met} |", flush=True)
        if options.verify:
            began = time.perf_counter()
            findings = bench_audit_log.verify()
            print(f"\nverified in {time.perf_counter() - began:,.0f} s: {findings} findings")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
