"""Select the benchmark of script/bench; without a name, the rebuild.

Each name has one module, whose ``main`` takes the remaining arguments and returns the exit status.
"""

import sys
from importlib import import_module

#: Benchmark name to module and summary.
BENCHES = {
    "rebuild": ("bench", "a rebuild, the pipeline typed by hand, and dump and restore (the default)"),
    "table": ("bench_table", "every row of docs/reference/benchmarks.md in one run, against its goal"),
    "prepare": ("bench_prepare", "--prepare of one backup: the tool's default against ours"),
    "catch-up": ("bench_catch_up", "how fast a replica applies with relaxed settings"),
    "clone": ("bench_clone", "a MySQL replica by clone against dump and restore"),
    "shared-read": ("bench_shared_read", "three replicas from one read of the source, against one and three in a row"),
    "certify": ("bench_certify", "the certificate of large tables, and of many small ones"),
    "scheduler": ("bench_scheduler", "a decision over a long queue"),
    "live": ("bench_live", "a web process with many open streams"),
    "fleet": ("bench_fleet", "the pages of a thousand clusters"),
    "availability": ("bench_availability", "the gaps of their year"),
    "capacity": ("bench_capacity", "how many schemas a server carries; --ab: what doublewrite costs"),
    "audit": ("bench_audit", "the pages of a million audit entries"),
}


def choose(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the requested benchmark and its arguments."""
    if arguments and arguments[0] in BENCHES:
        return arguments[0], arguments[1:]
    return "rebuild", arguments


def names() -> str:
    """Return all benchmarks, one per line."""
    width = max(map(len, BENCHES))
    return "\n".join(f"  script/bench {name:{width}}  {what}" for name, (_, what) in BENCHES.items())


def main(arguments: list[str]) -> int:
    if arguments in (["--help"], ["-h"]):
        print(
            f"Run a benchmark. Benchmarks assert nothing: machines differ and are noisy. NAME --help lists the options.\n\n{names()}"
        )
        return 0
    name, rest = choose(arguments)
    status: int = import_module(f"script.lib.{BENCHES[name][0]}").main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
