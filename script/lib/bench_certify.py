"""script/bench certify: what the certificate costs a rebuild, of large tables and of many small ones.

Rebuilds a replica of one lab with the default certificate and with all rows, and a replica of another lab with many tables.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from script.lib.bench import REPLICA, SOURCE, Bench, stage
from script.lib.bench_ground import report, say
from script.lib.bench_rows import Samples, table
from script.lib.supervisor import Failed, wait_until

SCHEMA = "bench_many"
CREATING = 4
#: The steps around the certificate.
TIMED = ("certify", "verify", "clean-up")
#: MySQL and MariaDB list tables of this schema without opening them.
COUNT = "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"


def large(bench: Bench, rounds: int, samples: Samples) -> None:
    for number in range(rounds):
        say(f"large tables: round {number + 1} of {rounds}")
        for name, words in (("certificate by default", ()), ("certificate of all rows", ("--full-certificate",))):
            samples.setdefault(name, []).append(bench.rebuild(words=words)["certify"])


def make_tables(bench: Bench, tables: int, columns: int) -> None:
    """Make small tables on the primary, each with a row, and wait until both replicas have them."""
    say(f"making {tables} tables")
    more = "".join(f", c{number} VARCHAR(20) DEFAULT 'x'" for number in range(columns - 1))

    def make(first: int) -> None:
        with bench.lab.connect(bench.lab.primary.name) as connection, connection.cursor() as cursor:
            for number in range(first, tables, CREATING):
                cursor.execute(f"CREATE TABLE {SCHEMA}.t{number} (id INT PRIMARY KEY{more})")
                cursor.execute(f"INSERT INTO {SCHEMA}.t{number} (id) VALUES ({number})")

    with bench.lab.connect(bench.lab.primary.name) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
    with ThreadPoolExecutor(CREATING) as pool:
        list(pool.map(make, range(CREATING)))

    def are_there() -> bool:
        return all(_count(bench, name) == tables for name in (SOURCE, REPLICA))

    wait_until(are_there, "the tables on both replicas", 1800, bench.processes, bench.stop)


def _count(bench: Bench, name: str) -> int:
    with bench.lab.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute(COUNT, (SCHEMA,))
        return int((cursor.fetchone() or {})["n"])


def many(bench: Bench, rounds: int, samples: Samples) -> None:
    for number in range(rounds):
        say(f"many tables: round {number + 1} of {rounds}")
        found = bench.rebuild()
        for name in TIMED:
            samples.setdefault(f"many tables: {name}", []).append(found[name])
        samples.setdefault("many tables: together", []).append(sum(found[name] for name in TIMED))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench certify", description=__doc__)
    parser.add_argument("--size", default="4G", help="data in large tables (default 4G; 0 leaves them out)")
    parser.add_argument("--tables", type=int, default=10_000, help="small tables (default 10000; 0 leaves them out)")
    parser.add_argument("--columns", type=int, default=2, help="columns of each small table (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="rebuilds of each kind (default 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    options = parser.parse_args(arguments)
    samples: Samples = {}
    facts = []
    try:
        if options.size != "0":
            with stage(options.size, "127.0.53", make=Bench) as bench:
                large(bench, options.rounds, samples)
            facts.append(f"{bench.bytes / 1024**2:.0f} MiB streamed")
        if options.tables:
            with stage("32M", "127.0.53", make=Bench) as bench:
                make_tables(bench, options.tables, options.columns)
                many(bench, options.rounds, samples)
            facts.append(f"{options.tables} tables of {options.columns} columns")
    except Failed as error:
        say(f"Failed: {error}")
        return 1
    report("certify", arguments, facts, table(samples), {"samples": samples} if options.json else None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
