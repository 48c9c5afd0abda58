"""script/bench clone: compare rebuilding a MySQL replica by clone with dump and restore on the same hosts.

Uses a lab of MySQL servers, a worker and beat. The restore does what a person does: create an empty server, load the dump through
its socket, attach it to the primary and wait until it has caught up. The rebuild is timed from its start until the replica
replicates from the primary; the following verification, which only waits, is reported separately.
"""

import argparse
import shlex
import subprocess
import sys
import time
from statistics import median

import pymysql

from lab.unpacked import why_no_mysql
from script.lib.bench import REPLICA, SOURCE, Bench, stage
from script.lib.bench_ground import option_file, report, say, timed
from script.lib.bench_memory import settle
from script.lib.bench_rows import Samples, table
from script.lib.supervisor import Failed

DUMP = "--single-transaction --set-gtid-purged=ON --source-data=2 --triggers --routines --events --databases sbtest"


class CloneBench(Bench):
    """The same bench with MySQL servers."""

    def clone(self) -> dict[str, float]:
        return self.rebuild("clone")

    def dump_and_restore(self) -> dict[str, float]:
        """Dump the source and restore the replica from the dump. Return seconds by part and in total."""
        source, target, owner = self.lab.host(SOURCE), self.lab.host(REPLICA), self.lab.accounts["owner"]
        programs, file = self.lab.flavor.programs, self.folder / "dump.sql.gz"
        settle()
        with option_file(None, owner.user, owner.password) as credentials:
            command = f"{programs['mysqldump']} --defaults-file={credentials} --socket={source.socket} {DUMP}"
            dumped = timed(f"{command} | gzip > {shlex.quote(str(file))}")
        began = time.monotonic()
        target.stop_server()
        # keep the server's identity: dbops refuses to rebuild a server that was replaced
        identity = target.data_dir / "auto.cnf"
        uuid = identity.read_text()
        target.make_data_dir()
        self.lab.flavor.initialise(target.plan())
        identity.write_text(uuid)
        target.start_server()
        client = shlex.join(self.lab.flavor.superuser_client(target.plan()))
        timed(
            f"{client} -e 'SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF; RESET BINARY LOGS AND GTIDS'"
        )
        timed(f"zcat {shlex.quote(str(file))} | {client}")
        statements = [
            "SET sql_log_bin = 0",
            *self.lab.flavor.account_statements(self.lab.accounts),
            "SET GLOBAL read_only = ON",
        ]
        subprocess.run(
            shlex.split(client), input=";\n".join(statements) + ";\n", text=True, check=True, capture_output=True
        )
        restored = time.monotonic() - began
        self._attach()
        attached = time.monotonic() - began - restored
        file.unlink()
        return {
            "dump and gzip": dumped,
            "restore the dump": restored,
            "attach it": attached,
            "dump and restore until attached": dumped + restored + attached,
        }

    def _attach(self) -> None:
        primary, account = self.lab.primary, self.lab.accounts["replication"]
        with self.lab.connect(primary.name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed AS goal")
            goal = (cursor.fetchone() or {})["goal"]
        with self.lab.connect(REPLICA) as connection, connection.cursor() as cursor:
            for sql, values in self.lab.flavor.replicate_statements(primary.address, primary.port, account):
                cursor.execute(sql, values)
            cursor.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 600) AS reached", (goal,))
            if (cursor.fetchone() or {})["reached"] != 0:
                raise Failed("the restored replica does not catch up")


def measure(bench: CloneBench, rounds: int) -> Samples:
    samples: Samples = {}
    for number in range(1, rounds + 1):
        for what in (bench.dump_and_restore, bench.clone):
            say(f"round {number} of {rounds}: {what.__name__.replace('_', ' ')}")
            for name, seconds in what().items():
                samples.setdefault(name, []).append(seconds)
    return samples


def ratios(samples: Samples) -> list[str]:
    restored = samples["dump and restore until attached"]
    lines = ["| dump and restore against | median (min to max) |", "|---|---|"]
    for name in ("rebuild until attached", "whole rebuild", "stream"):
        values = [left / right for left, right in zip(restored, samples[name], strict=True)]
        lines.append(f"| {name} | {median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")
    return lines


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench clone", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="rounds of both (default 1)")
    parser.add_argument("--size", default="2G", help="data of the lab (default 2G)")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        samples, facts = run(options)
    except (Failed, pymysql.MySQLError) as error:
        say(str(error))
        return 1
    record = {"samples": samples} if options.json else None
    report("clone", arguments, facts, [*table(samples), "", *ratios(samples)], record)
    return 0


def run(options: argparse.Namespace) -> tuple[Samples, list[str]]:
    """Return the samples and their description. Raises ``Failed``, also without MySQL."""
    if why := why_no_mysql():
        raise Failed(why)
    with stage(options.size, "127.0.53", make=CloneBench, flavor="mysql", say=say) as bench:
        samples = measure(bench, options.rounds)
        with bench.lab.connect(SOURCE) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION() AS version")
            version = str((cursor.fetchone() or {})["version"])
        return samples, [f"MySQL {version}", f"{bench.bytes / 1024**2:.0f} MiB cloned"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
