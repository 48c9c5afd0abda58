"""script/bench capacity: how many schemas a server carries with small and with large caches; --ab: what doublewrite costs here.

Without --ab: one scratch server of MariaDB, copies of a schema of small tables, and the load that rotates over 15 to 1,200 of them; first
with small caches, then with large ones. Without dashboard and lab, but with the scripts, the generator and the statistics of load tests.
"""

import argparse
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from dbops.engine.errors import DbopsError
from dbops.engine.load_tests.comparison import AbComparison, Ratio, compare_pairs, is_enough, speeds
from dbops.engine.load_tests.knee import Knee, StepLatencies, find_knee
from dbops.engine.load_tests.planning import (
    LEAST_AA_PAIRS,
    AbTest,
    Axis,
    make_ab_rounds,
    make_rounds,
    seconds_for_all_schemas,
)
from dbops.engine.load_tests.report import Measured, ReportLimits, make_report, valid_only, valid_repeats
from dbops.engine.load_tests.rounds import Round
from dbops.engine.load_tests.workload import Profile, Workload
from script.lib.bench_capacity_picture import Curve, draw
from script.lib.bench_ground import headline, say, scratch
from script.lib.load_rounds import Bench, Options, ScratchServer, scratch_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "capacity-measurements.md"
PICTURE = ROOT / "docs" / "images" / "capacity.svg"
TABLES, SEED, MOST_FILES = 20, 1, 65_536
SCHEMA, ROWS_OF_TABLE = "tenant", 20
SMALL = (("table_open_cache", "400"), ("table_definition_cache", "400"))
LARGE = (
    *(("table_open_cache", "30000"), ("table_definition_cache", "30000")),
    *(("innodb_open_files", "30000"), ("open_files_limit", str(MOST_FILES))),
)
POOL: Options = (("innodb_buffer_pool_size", "2G"), ("innodb_log_file_size", "512M"))
AB_POOL: Options = (("innodb_buffer_pool_size", "128M"), ("innodb_log_file_size", "128M"))


class Schemas:
    """The curves of one server with several settings."""

    def __init__(self, server: ScratchServer, work: Path, options: argparse.Namespace) -> None:
        reads = tuple(
            f"SELECT b FROM t{table:02} WHERE id = {row}"
            for table in range(TABLES)
            for row in range(1, ROWS_OF_TABLE + 1)
        )
        workload = Workload(
            Profile.ROTATING, schema=SCHEMA, row_share=1.0, seconds_on_schema=options.dwell, statements=reads
        )
        self.server, self.options, self.bench = server, options, Bench(server, work, workload)

    def fill(self) -> None:
        rows = ", ".join(f"({row}, '{'x' * 30}')" for row in range(1, ROWS_OF_TABLE + 1))
        tables = "; ".join(
            f"CREATE TABLE t{table:02} (id INT PRIMARY KEY, b VARCHAR(40)); INSERT INTO t{table:02} VALUES {rows}"
            for table in range(TABLES)
        )
        self.server.ask(f"CREATE DATABASE {SCHEMA}; USE {SCHEMA}; {tables}")
        say(f"copying {max(self.options.schemas)} schemas of {TABLES} tables")
        self.bench.make_copies(max(self.options.schemas))

    def measure(self, settings: dict[str, Options]) -> dict[str, list[Measured]]:
        """Measure all steps under each of the settings, in turn: what else the machine does is then in all of them."""
        steps = self.options.schemas
        # before it is measured, each schema was used: with large caches only the first use opens its tables
        warm_up = seconds_for_all_schemas(max(steps), self.bench.workload, self.options.threads) + 1
        base = Round(
            number=0, step=0, threads=self.options.threads, seconds=self.options.seconds, warm_up_seconds=warm_up
        )
        rounds = make_rounds(
            base, axis=Axis.SCHEMAS, values=steps, repeats=self.options.repeats, seed=SEED, most_seconds=7200
        )
        found: dict[str, list[Measured]] = {title: [] for title in settings}
        for start in range(0, len(rounds), len(steps)):
            for title, caches in settings.items():
                self.server.stop()
                self.server.start((*POOL, *caches))
                for one in rounds[start : start + len(steps)]:
                    found[title].append(_run(self.bench, one, f"{title}, {one.schemas} schemas"))
        return found


def _run(bench: Bench, one: Round, title: str) -> Measured:
    result = bench.run(one)
    line = make_report([(one, result)], ReportLimits())["Total"]
    say(
        f"  {title}: {line['TotalQPS']:,.0f} QPS, P99 {line['Duration']['P99']:.2f} ms, P99.9 {line['Duration']['P999']:.2f} ms"
    )
    return one, result


def measure_schemas(options: argparse.Namespace, arguments: list[str]) -> tuple[str, list[Curve]]:
    """Measure both curves. Return the section of the page, and the curves of the picture."""
    with scratch(passable=True) as folder, scratch_server(folder, options=POOL) as server, scratch() as work:
        schemas = Schemas(server, work, options)
        schemas.fill()
        found = schemas.measure({"small caches": SMALL, "large caches": LARGE})
        version, limits = (
            server.ask("SELECT VERSION()"),
            server.ask(f"SELECT {', '.join(f'@@{name}' for name, _ in LARGE)}").split(),
        )
    reports = {title: make_report(measured, ReportLimits()) for title, measured in found.items()}
    lines = [
        headline("capacity", arguments, version, f"load {os.getloadavg()[0]:.1f}"),
        "",
        f"{options.threads} threads read single rows by primary key, {options.dwell:g} s on each schema, {TABLES} tables in each; "
        f"{options.repeats} rounds of {options.seconds} s for each step. Shown are "
        "medians of the rounds, the server's processor time for one statement, and the misses of the table cache in a second.",
        "",
        _table(reports),
        "",
        *(f"* {title}, P99: {describe(knee_of(report))}" for title, report in reports.items()),
        *(f"* {title}, processor time: {describe(knee_of_processor(report))}" for title, report in reports.items()),
        f"* Small caches: {_options(SMALL)}. Large caches: {_options(LARGE)}.",
        f"* What the server made of the large ones here: {_options(tuple(zip(dict(LARGE), limits, strict=True)))}.",
        *_invalid(reports),
    ]
    return "\n".join(lines), [Curve(title, _points(report)) for title, report in reports.items()]


def _table(reports: dict[str, dict[str, Any]]) -> str:
    """Return medians of the repeats: one round beside other work of the machine does not move them."""
    heads = [
        f"{title}: {name}"
        for title in reports
        for name in ("statements a second", "P50", "P99", "P99.9 (ms)", "processor (µs)", "misses")
    ]
    lines = ["| schemas | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for steps in zip(*(report["Steps"] for report in reports.values()), strict=True):
        cells = [cell for step in steps for cell in _cells(step)]
        lines.append(f"| {steps[0]['TargetSchemaCount']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _middle(step: dict[str, Any], name: str) -> float:
    return median(step["Repeats"][name])


def _cells(step: dict[str, Any]) -> list[str]:
    misses = step["Counters"].get("Table_open_cache_misses", 0)
    speed = f"{_middle(step, 'TotalQPS'):,.0f}"
    latencies = (f"{_middle(step, name):.3g}" for name in ("P50", "P99", "P999"))
    return [speed, *latencies, f"{processor_us(step):.0f}", f"{misses / step['ElapsedTime']:,.0f}"]


def processor_us(line: dict[str, Any]) -> float:
    """Return the server's processor time for one statement in microseconds. Other work of the machine hardly changes it."""
    return float(1e6 * (line["ServerCores"] or 0) * line["ElapsedTime"] / max(1, line["QueryCount"]))


def _points(report: dict[str, Any]) -> list[dict[str, float]]:
    return [
        {"schemas": step["TargetSchemaCount"], "QPS": _middle(step, "TotalQPS"), "P99": _middle(step, "P99")}
        for step in report["Steps"]
    ]


def knee_of(report: dict[str, Any], name: str = "P99") -> Knee:
    """Return the knee of a report's steps over their schemas."""
    return find_knee(
        [StepLatencies(step["TargetSchemaCount"], tuple(valid_repeats(step, name))) for step in report["Steps"]],
        seed=SEED,
    )


def knee_of_processor(report: dict[str, Any]) -> Knee:
    """Return the knee of the server's processor time for one statement."""
    found: dict[int, list[float]] = {}
    for line in report["Rounds"]:
        found.setdefault(line["TargetSchemaCount"], []).append(processor_us(line))
    return find_knee([StepLatencies(value, tuple(times)) for value, times in found.items()], seed=SEED)


def describe(knee: Knee) -> str:
    if knee.at is None:
        return f"{knee.kind}{f', {knee.reason}' if knee.reason else ''}"
    where = f"between {knee.after:,.0f} and {knee.at:,.0f} schemas"
    return (
        f"{knee.kind} {where}, {knee.ratio:.1f} times the first step (90 % interval {knee.low:.1f} to {knee.high:.1f})"
    )


def _invalid(reports: dict[str, dict[str, Any]]) -> list[str]:
    """Return one reason for each step that is not valid."""
    return [
        f"* Not valid, {title}, {step['TargetSchemaCount']:,} schemas: {step['Reasons'][0]}"
        for title, report in reports.items()
        for step in report["Steps"]
        if not step["IsValid"]
    ]


def _options(options: Options) -> str:
    return ", ".join(f"`{name}` = {value}" for name, value in options)


def measure_doublewrite(options: argparse.Namespace, arguments: list[str]) -> str:
    """Run the A/B test of doublewrite. Return the section of the page."""
    workload = Workload(Profile.WRITE_ONLY, tables=4, table_rows=options.rows)
    on, off = (("innodb_doublewrite", "ON"),), (("innodb_doublewrite", "OFF"),)
    base = Round(number=0, step=0, threads=options.threads, seconds=options.seconds, warm_up_seconds=3)
    test = AbTest(on, off, pairs=options.pairs, aa_pairs=options.aa_pairs)
    measured: list[Measured] = []
    with scratch(passable=True) as folder, scratch_server(folder, options=AB_POOL) as server, scratch() as work:
        bench = Bench(server, work, workload)
        say(f"filling 4 tables of {options.rows:,} rows")
        bench.fill()
        version = server.ask("SELECT VERSION()")
        for one in make_ab_rounds(base, test, seed=SEED, most_seconds=7200):
            ab, aa = speeds(valid_only(measured, ReportLimits()))
            if is_enough(ab) and len(aa) >= LEAST_AA_PAIRS:
                break
            server.stop()
            server.start((*AB_POOL, *one.options))
            measured.append(_run(bench, one, f"pair {one.pair} {one.arm}"))
    return "\n".join(
        [headline("capacity", arguments, version, f"load {os.getloadavg()[0]:.1f}"), "", *_verdict(measured, options)]
    )


def _verdict(measured: Sequence[Measured], options: argparse.Namespace) -> list[str]:
    ab, aa = speeds(valid_only(measured, ReportLimits()))
    found: AbComparison = compare_pairs(ab, aa)
    pages = {
        arm: _mean([result.counters.get("Innodb_dblwr_pages_written", 0) for one, result in measured if one.arm == arm])
        for arm in "ab"
    }
    return [
        f"sysbench's write-only statements, 4 tables of {options.rows:,} rows, {options.threads} threads, buffer pool and redo log "
        f"{dict(AB_POOL)['innodb_buffer_pool_size']}, rounds of {options.seconds} s, a restart before each.",
        "",
        "| test | pairs | ratio of transactions a second | 95 % interval |",
        "|---|---|---|---|",
        _ratio("doublewrite off / on", found.ab),
        _ratio("on / on (A/A)", found.aa),
        "",
        f"* Verdict on doublewrite off: {found.verdict}.",
        f"* Pages written through the doublewrite buffer in a round: {pages['a']:,.0f} with it on, {pages['b']:,.0f} with it off.",
        f"* Ratios of the pairs: {', '.join(f'{b / a:.2f}' for a, b in ab)}; A/A: {', '.join(f'{b / a:.2f}' for a, b in aa) or 'none'}.",
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _ratio(title: str, ratio: Ratio) -> str:
    interval = f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio.low and ratio.high else "unknown"
    return f"| {title} | {ratio.pairs} | {f'{ratio.ratio:.2f}' if ratio.ratio else 'unknown'} | {interval} |"


def write_section(page: Path, name: str, text: str) -> None:
    """Put a section between its markers in the page.

    Raises:
        ValueError: the page does not have them.
    """
    begin, end = f"<!-- script/bench capacity: {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{page} has no markers of {name}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/bench capacity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ab", action="store_true", help="the A/B test of doublewrite instead")
    parser.add_argument(
        "--schemas", type=int, nargs="+", default=[15, 75, 150, 300, 600, 1200], help="steps (default 15 to 1200)"
    )
    parser.add_argument("--seconds", type=int, help="of a round (default 6; with --ab 20)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each step (default 3)")
    parser.add_argument("--threads", type=int, default=8, help="connections of the generator (default 8)")
    parser.add_argument("--dwell", type=float, default=0.04, help="seconds of a thread on one schema (default 0.04)")
    parser.add_argument("--pairs", type=int, default=8, help="most A/B pairs (default 8)")
    parser.add_argument("--aa-pairs", type=int, default=4, help="A/A pairs (default 4)")
    parser.add_argument("--rows", type=int, default=500_000, help="of each table with --ab (default 500,000)")
    parser.add_argument("--page", type=Path, help=f"write the result into this page (as {PAGE.relative_to(ROOT)})")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (20 if options.ab else 6)
    return options


def _raise_limit_of_files() -> None:
    """Let servers, which inherit it, open as many files as this machine allows: 1,200 schemas of 20 tables are 24,000 files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for wanted in (MOST_FILES, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
        except ValueError:
            continue
        return


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    _raise_limit_of_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and files are removed on the way out
    shown = [word for word in arguments if word != "--page" and word != str(options.page)]
    try:
        if options.ab:
            text = measure_doublewrite(options, shown)
        else:
            text, curves = measure_schemas(options, shown)
            if options.page:
                PICTURE.write_text(draw(curves))
    except (DbopsError, RuntimeError) as error:
        say(str(error))
        return 1
    say(f"\n{text}")
    if options.page:
        write_section(options.page, "doublewrite" if options.ab else "schemas", text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
