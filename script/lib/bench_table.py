"""script/bench table: measure every row of docs/reference/benchmarks.md in one run.

Each group of rows has its own lab; groups run one after the other. A full run writes the page; --only measures and prints
selected rows. A failure is shown in its row; the other rows continue.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pymysql

from lab.errors import LabError
from script.lib import bench_catch_up, bench_ciphers, bench_clone, bench_prepare, bench_rebuild_rows, bench_shared_read
from script.lib.bench_ground import headline, say
from script.lib.bench_rows import GOALS, Group, document, pairs, row_of, rows_without
from script.lib.stage import ROOT
from script.lib.supervisor import Failed

PAGE = ROOT / "docs" / "reference" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are measured together: their keys, and the function that measures the selected ones."""

    title: str
    keys: tuple[str, ...]
    measure: Callable[[argparse.Namespace, set[str]], Group]


def rebuild(options: argparse.Namespace, wanted: set[str]) -> Group:
    return bench_rebuild_rows.group(options.size, options.rounds, wanted)


def ciphers(options: argparse.Namespace, wanted: set[str]) -> Group:
    return bench_ciphers.group(options.cipher_size, options.rounds)


def clone(options: argparse.Namespace, wanted: set[str]) -> Group:
    samples, facts = bench_clone.run(bench_clone.parse(["--size", options.clone_size, "--rounds", "1"]))
    cloned = samples["rebuild until attached"]
    parts = ", ".join(f"{name} {samples[name][0]:.1f} s" for name in ("stream", "start", "catch-up") if name in samples)
    limit = f"the clone took {cloned[0]:.1f} s ({parts}); the ratio grows with --clone-size"
    row = row_of("clone", pairs(samples["dump and restore until attached"], cloned), limit)
    return Group("Clone", (row,), samples, f"{', '.join(facts)}.")


def shared_read(options: argparse.Namespace, wanted: set[str]) -> Group:
    samples = bench_shared_read.measure(options.shared_read_size, options.rounds)
    against_one, in_a_row = (pairs(samples["shared read"], samples[name]) for name in ("one", "in a row"))
    return Group(
        "Shared read", (row_of("shared-read", against_one), row_of("shared-read", in_a_row, number=1)), samples
    )


def prepare(options: argparse.Namespace, wanted: set[str]) -> Group:
    own = bench_prepare.parse(["--size", options.redo, "--redo", options.redo, "--rounds", str(options.rounds)])
    found, choice, redo = bench_prepare.run(own)
    samples = {name: [run.seconds for run in runs] for name, runs in found.items()}
    row = row_of("prepare", pairs(samples[bench_prepare.OURS], samples[bench_prepare.DEFAULT]))
    facts = f"{redo / bench_prepare.MIB:.0f} MiB of redo. {' '.join(choice.reasons)}"
    return Group("Prepare", (row,), samples, facts)


def catch_up(options: argparse.Namespace, wanted: set[str]) -> Group:
    samples, version = bench_catch_up.measure(bench_catch_up.parse(["--rounds", str(options.rounds)]))
    row = row_of("catch-up", pairs(samples["relaxed"], samples["durable"]))
    return Group("Catch-up", (row,), samples, f"Seconds for 1000 transactions, MariaDB {version}.")


PARTS = (
    Part("Rebuild by stream", bench_rebuild_rows.KEYS, rebuild),
    Part("Where SSH is the narrow place", bench_ciphers.KEYS, ciphers),
    Part("Clone", ("clone",), clone),
    Part("Shared read", ("shared-read",), shared_read),
    Part("Prepare", ("prepare",), prepare),
    Part("Catch-up", ("catch-up",), catch_up),
)
KEYS = tuple(GOALS)


def measured(part: Part, options: argparse.Namespace, wanted: set[str]) -> Group:
    """Return the part's group; if the measurement failed, its rows contain the reason."""
    say(f"\n== {part.title}: {', '.join(key for key in part.keys if key in wanted)}")
    try:
        return part.measure(options, wanted)
    except (Failed, LabError, pymysql.MySQLError) as error:
        say(f"Failed: {error}")
        why = str(error).strip().partition("\n")[0][:200]
        return Group(part.title, tuple(row for key in part.keys if key in wanted for row in rows_without(key, why)))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench table", description=__doc__, epilog=f"Rows: {', '.join(KEYS)}.")
    parser.add_argument(
        "--size", default="1G", help="data of the stream's lab before its secondary indexes (default 1G)"
    )
    parser.add_argument(
        "--cipher-size", default="2G", help="data of the cipher lab; must fit into memory twice (default 2G)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all but the dumps (default 3)")
    parser.add_argument("--only", metavar="ROW,ROW", default="", help="measure only these rows and write no page")
    parser.add_argument("--clone-size", default="2G", help="data of the MySQL lab (default 2G)")
    parser.add_argument("--shared-read-size", default="512M", help="data of the shared read's lab (default 512M)")
    parser.add_argument("--redo", default="1G", help="redo to prepare, and size of its data (default 1G)")
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="output file of a full run (default docs/reference/benchmarks.md)"
    )
    options = parser.parse_args(arguments)
    options.wanted = set(filter(None, options.only.split(","))) or set(KEYS)
    if unknown := options.wanted - set(KEYS):
        parser.error(f"unknown row: {', '.join(sorted(unknown))}. Rows: {', '.join(KEYS)}")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    load = os.getloadavg()[0]
    groups = [measured(part, options, options.wanted) for part in PARTS if options.wanted & set(part.keys)]
    line = headline("table", arguments, f"load {load:.1f} before it began")
    page = document(line, groups)
    say(f"\n{page}")
    if not options.only:
        options.page.write_text(page)
    return 0 if all(row.values for group in groups for row in group.rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
