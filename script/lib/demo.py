"""script/demo: run dbops on this machine with a lab of real database servers. See `--help`."""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import IO, Any

from script.lib import supervisor
from script.lib.once import REPLICA, Report, rebuild_once
from script.lib.options import parse
from script.lib.stage import FOLDER, ROOT, Stage, read_settings
from script.lib.supervisor import Failed, StopFlag, Stopped

RUNNING_FILE = FOLDER / "running.json"


def say(text: str) -> None:
    """Print and flush. Ignore a closed terminal, so that the cleanup still runs."""
    try:
        print(text, flush=True)
    except OSError:
        pass


def begin(options: argparse.Namespace, stop: StopFlag) -> Stage:
    if options.port and not supervisor.is_free(options.port):
        raise Failed(f"port {options.port} is in use; omit --port to use the first free one")
    if ended := supervisor.end_leftovers(FOLDER):
        say(f"Stopped processes of an earlier demonstration: {', '.join(ended)}")
    if options.fresh:
        for file in FOLDER.glob("dbops.sqlite3*"):
            file.unlink()
    return Stage(stop, say, options.port, read_settings(options.settings) if options.settings else {})


def raise_curtain(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    """Start the lab, Redis and the database; return the lab's status."""
    with stage.step("lab: hosts with sshd and a database server each"):
        lab = stage.start_lab(options.size, fresh=options.fresh)
    with stage.step("Redis"):
        stage.start_processes("redis")
        stage.wait_for_redis()
    with stage.step("database with the lab's fleet"):
        stage.prepare_database(lab["fleet_file"])
    return lab


def show(stage: Stage, options: argparse.Namespace) -> None:
    """Start everything and wait for Ctrl-C. Raises ``Failed`` if a process does not keep running."""
    raise_curtain(stage, options)
    with stage.step("accounts"):
        people = stage.make_people()
    if not options.no_sample:
        with stage.step("sample: a fleet with generated history, in its own database"):
            stage.start_sample(people)
    with stage.step("web, worker and beat"):
        stage.start_processes("worker", "beat", "web")
        stage.wait_for_web()
    with stage.step("a write load on the primary"):
        stage.start_load()
    stage.write_command_line()
    RUNNING_FILE.write_text(json.dumps({"address": stage.address}))
    say(f"\n  dbops is at   {stage.address}")
    if stage.sample_port:
        say(f"  the sample at {stage.sample_address}  (eight weeks of generated history, no real servers)")
    say("")
    for name, password in people.items():
        say(f"    log in as   {name:9} password  {password}")
    say(
        f"\n  Break a replica:  script/lab break replica-1\n  Command line:     {stage.command_line.relative_to(ROOT)}\n"
        f"  Logs:             {FOLDER / 'log'}\n  Ctrl-C stops everything.\n"
    )
    while True:
        stage.keep_running()
        time.sleep(0.5)


def once(stage: Stage, options: argparse.Namespace, report: Report) -> None:
    lab = raise_curtain(stage, options)
    report.data_bytes = next(host["data_bytes"] for host in lab["hosts"] if host["name"] == REPLICA)
    with stage.step("worker and beat"):
        stage.start_processes("worker", "beat")
    with stage.step("a write load on the primary"):
        stage.start_load()
    rebuild_once(stage, Path(lab["fleet_file"]), report)
    report.ok = True


def perform(options: argparse.Namespace, report: Report) -> int:
    """Return the exit status: 0 done or stopped by the user, 1 failed, 130 if `--once` was interrupted."""
    stop = StopFlag()
    began = time.monotonic()
    stage = None
    try:
        stage = begin(options, stop)
        (once(stage, options, report) if options.once else show(stage, options))
        status = 0
    except Failed as error:
        report.error = str(error)
        say(f"\nFailed: {error}")
        status = 1
    except Stopped:
        report.error = "stopped"
        status = 130 if options.once else 0
    finally:
        stop.begin_ending()
        RUNNING_FILE.unlink(missing_ok=True)
        if stage is not None:
            say("Stopping all processes.")
            stage.end(keep_lab=options.keep)
            report.preparation = [{"title": title, "seconds": round(took, 3)} for title, took in stage.durations]
        report.seconds = round(time.monotonic() - began, 3)
    return status


def already_running() -> str:
    try:
        return f"The demonstration already runs at {json.loads(RUNNING_FILE.read_text())['address']}"
    except (OSError, ValueError, KeyError):
        return "A demonstration already runs from this checkout"


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    held: IO[str] | None = supervisor.lock(FOLDER / "lock")
    if held is None:
        say(f"{already_running()}. Stop it with Ctrl-C first.")
        return 1
    report = Report()
    with held:
        status = perform(options, report)
    if options.once:
        say(f"{'OK' if report.ok else 'NOT OK'}: {report.replica} after {report.seconds:.1f} s")
    if options.json:
        say(json.dumps(dataclasses.asdict(report)))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
