"""Command line: ``lab up``, ``status``, ``load``, ``break``, ``down``, ``destroy``."""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from lab.breaking import WAYS
from lab.data import DEFAULT_HOURS, DEFAULT_THREADS, DEFAULT_TPS
from lab.errors import LabError
from lab.flavors import FLAVORS
from lab.lab import Lab
from lab.settings import DEFAULT_PARENT, parse_size, read_marker, settings_of
from lab.status import as_table

#: options of ``up`` that are settings of the lab, by name in ``Settings``
UP_SETTINGS = (
    "network",
    "first",
    "replicas",
    "backups",
    "size_bytes",
    "tables",
    "parallel_appliers",
    "flavor",
    "prefix",
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def size(text: str) -> int:
    try:
        return parse_size(text)
    except LabError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("--name", help="name of the lab and of its cluster (default demo)")
    place.add_argument("--folder", type=Path, help=f"folder of the lab (default {DEFAULT_PARENT}/NAME)")
    main_parser = argparse.ArgumentParser(prog="lab", description="A data center on one machine.")
    verbs = main_parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add_up(verbs.add_parser("up", parents=[place], help="build the lab, or start it again"))
    shown = verbs.add_parser("status", parents=[place], help="show hosts, servers and replication")
    shown.add_argument("--json", action="store_true", help="print one JSON object")
    add_load(verbs.add_parser("load", parents=[place], help="start or stop a steady write load"))
    broken = verbs.add_parser("break", parents=[place], help="break a host")
    broken.add_argument("host")
    broken.add_argument("--how", choices=list(WAYS), default="wipe", help="default wipe")
    broken.add_argument("--force", action="store_true", help="also break a primary or a backup")
    verbs.add_parser("down", parents=[place], help="stop everything and keep the data")
    verbs.add_parser("destroy", parents=[place], help="stop everything and remove the folder")
    return main_parser


def add_up(up: argparse.ArgumentParser) -> None:
    # no other defaults here: missing options come from the existing lab
    up.add_argument("--size", dest="size_bytes", type=size, help="data on each host (default 1G)")
    up.add_argument("--replicas", type=int, help="default 1")
    up.add_argument("--backups", type=int, help="default 1")
    up.add_argument("--tables", type=int, help="number of tables (default 4)")
    network = os.environ.get("LAB_NETWORK")
    up.add_argument(
        "--network", default=network, help="first three octets of the addresses (default LAB_NETWORK or 127.0.1)"
    )
    up.add_argument("--first", type=int, help="last octet of the primary's address (default 11)")
    up.add_argument("--parallel-appliers", type=int, help="applier threads of each replica (default 0)")
    up.add_argument("--flavor", choices=list(FLAVORS), help="default mariadb")
    up.add_argument("--prefix", help="prefix of each host's name, for two labs in one fleet")
    up.add_argument("--json", action="store_true", help="print one JSON object at the end")


def add_load(load: argparse.ArgumentParser) -> None:
    load.add_argument("action", choices=["start", "stop"])
    load.add_argument("--tps", type=int, default=DEFAULT_TPS, help=f"transactions per second (default {DEFAULT_TPS})")
    load.add_argument("--threads", type=int, default=DEFAULT_THREADS, help=f"default {DEFAULT_THREADS}")
    load.add_argument(
        "--hours", type=float, default=DEFAULT_HOURS, help=f"stop after this many hours (default {DEFAULT_HOURS:g})"
    )


def folder_of(arguments: argparse.Namespace) -> Path:
    folder: Path | None = arguments.folder
    return (folder or DEFAULT_PARENT / (arguments.name or "demo")).absolute()


def lab_for_up(arguments: argparse.Namespace) -> Lab:
    """Return the existing lab with the given settings applied, or a new one."""
    folder = folder_of(arguments)
    given: dict[str, Any] = {key: value for key in UP_SETTINGS if (value := getattr(arguments, key)) is not None}
    if arguments.name:
        given["name"] = arguments.name
    marker = read_marker(folder)
    if marker is not None:
        stored = settings_of(marker)
        known = {key: getattr(stored, key) for key in ("name", *UP_SETTINGS)}
        changed = [key for key, value in given.items() if known[key] != value]
        if changed:
            said = ", ".join(f"{key} {known[key]}" for key in changed)
            raise LabError(f"the lab in {folder} was built with {said}. Run lab destroy, then lab up")
        given = known
    given["size"] = given.pop("size_bytes", "1G")
    return Lab(folder=folder, say=say, **given)


def up(arguments: argparse.Namespace) -> None:
    began = time.monotonic()
    lab = lab_for_up(arguments)
    lab.up()
    seconds = time.monotonic() - began
    if arguments.json:
        print(json.dumps(as_object(lab) | {"seconds": round(seconds, 1)}, indent=2))
        return
    print(table_of(lab))
    print(f"up after {seconds:.1f} s; fleet file: {lab.fleet_yaml}")


def as_object(lab: Lab) -> dict[str, Any]:
    return {
        "name": lab.settings.name,
        "folder": str(lab.folder),
        "fleet_file": str(lab.fleet_yaml),
        "ssh_key": str(lab.ssh_key),
        "load_pid": lab.write_load.pid(),
        "hosts": [row.as_dict() for row in lab.status()],
    }


def table_of(lab: Lab) -> str:
    pid = lab.write_load.pid()
    return as_table(lab.status(), pid, lab.write_load.last_report() if pid else "")


def act(arguments: argparse.Namespace) -> None:
    if arguments.verb == "up":
        up(arguments)
        return
    lab = Lab.load(folder_of(arguments), say=say)
    if arguments.verb == "status":
        print(json.dumps(as_object(lab), indent=2) if arguments.json else table_of(lab))
    elif arguments.verb == "load" and arguments.action == "start":
        pid = lab.load_start(arguments.tps, arguments.threads, arguments.hours)
        print(f"write load of {arguments.tps} transactions per second: process {pid}")
    elif arguments.verb == "load":
        print("write load stopped" if lab.load_stop() else "no write load was running")
    elif arguments.verb == "break":
        print(lab.break_host(arguments.host, arguments.how, force=arguments.force))
    elif arguments.verb == "down":
        lab.down()
        print("down")
    else:
        lab.destroy()
        print(f"{lab.folder} removed")


def main(argv: list[str] | None = None) -> int:
    """Run one command. Return 1 after an error, which is printed on standard error."""
    arguments = parser().parse_args(argv)
    try:
        act(arguments)
    except LabError as error:
        say(f"lab: {error}")
        return 1
    except KeyboardInterrupt:
        say("lab: interrupted. Run `lab down` to stop everything")
        return 130
    return 0
