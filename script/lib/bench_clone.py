"""script/bench clone: rebuilding a MySQL replica by clone against dumping the source and restoring that, on the same hosts.

A lab of MySQL servers and the product's worker and beat over it. Restoring is what a person does: an empty server is made, the dump
read in over its socket, and it is attached to the primary until it has caught up. The rebuild is timed from its start to the moment at
which the replica replicates from the primary; the gate after that, in which it only waits, is told beside it.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pymysql

from lab.lab import Lab
from lab.pytest_plugin import start_lab
from lab.unpacked import why_no_mysql
from script.lib import supervisor
from script.lib.bench import REPLICA, SOURCE, Bench, Samples, option_file, say, table, timed
from script.lib.supervisor import Failed

#: What is done before the old data is touched, and what only waits or clears up.
NOT_THE_WORK = ("verify", "clean-up")
DUMP = "--single-transaction --set-gtid-purged=ON --source-data=2 --triggers --routines --events --databases sbtest"


class CloneBench(Bench):
    """The same lab with MySQL's servers."""

    def wait_for_plan(self) -> None:
        def possible() -> bool:
            try:
                plan = json.loads(self.manage("rebuild", REPLICA, "--method", "clone", "--plan", "--json"))
            except (Failed, ValueError):
                return False
            return bool(plan["is_possible"])

        supervisor.wait_until(possible, "a plan by clone that is possible", 120, self.processes, self.stop)

    def rebuild(self) -> dict[str, float]:
        """Return seconds by step, and until the replica replicates from the primary."""
        self.wait_for_plan()
        words = ("rebuild", REPLICA, "--method", "clone", "--reason", "benchmark", "--follow", "--json")
        result = json.loads(self.manage(*words).splitlines()[-1])
        steps = {step["name"]: float(step["seconds"]) for step in result["steps"]}
        self.bytes = next(step["bytes"] for step in result["steps"] if step["name"] == "stream")
        whole = float(result["seconds"])
        waits = sum(steps[name] for name in NOT_THE_WORK)
        return {**steps, "whole rebuild": whole, "rebuild until attached": whole - waits}

    def dump_and_restore(self) -> dict[str, float]:
        """Dump the source, and make the replica anew from that. Return seconds by part, and in sum."""
        source, target, owner = self.lab.host(SOURCE), self.lab.host(REPLICA), self.lab.accounts["owner"]
        programs, file = self.lab.flavor.programs, self.folder / "dump.sql.gz"
        with option_file(None, owner.user, owner.password) as credentials:
            command = f"{programs['mysqldump']} --defaults-file={credentials} --socket={source.socket} {DUMP}"
            dumped = timed(f"{command} | gzip > {shlex.quote(str(file))}")
        began = time.monotonic()
        target.stop_server()
        target.make_data_dir()
        self.lab.flavor.initialise(target.plan())
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
        for what in (bench.dump_and_restore, bench.rebuild):
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
    if why := why_no_mysql():
        say(why)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="dbops-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    state = folder / "state"
    state.mkdir(mode=0o700)
    try:
        with start_lab(folder / "lab", "127.0.53", size=options.size, flavor="mysql", say=say) as lab:
            samples, size, version = run(state, lab, options.rounds)
    except (Failed, pymysql.MySQLError) as error:
        say(str(error))
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, MySQL {version}, {size / 1024**2:.0f} MiB cloned"
    say(f"\n{datetime.now(UTC):%Y-%m-%d}, {machine}: script/bench clone {shlex.join(arguments)}\n")
    say("\n".join([*table(samples), "", *ratios(samples)]))
    if options.json:
        say(json.dumps({"samples": samples}))
    return 0


def run(state: Path, lab: Lab, rounds: int) -> tuple[Samples, int, str]:
    bench = CloneBench(state, lab, supervisor.StopFlag())
    try:
        bench.start()
        samples = measure(bench, rounds)
        with lab.connect(SOURCE) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION() AS version")
            version = str((cursor.fetchone() or {})["version"])
        return samples, bench.bytes, version
    finally:
        bench.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
