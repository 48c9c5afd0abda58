"""``dbops``: the commands. Exit status: 0 succeeded, 1 failed, 2 refused, 3 cancelled, 4 no answer."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from dbops_client import __version__, completion
from dbops_client.connection import Dbops, NoAnswer, Refused, misused, read_token
from dbops_client.following import MIB, Bar, follow, plain

EXIT_STATUS = {"succeeded": 0, "failed": 1, "expired": 1, "lost": 1, "cancelled": 3}
REFUSED, NO_ANSWER, INTERRUPTED = 2, 4, 130
SHELLS = ("bash", "zsh", "fish")


class Program:
    """One call of the client: its dbops, and how it prints."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.is_json = given, given.json

    @property
    def dbops(self) -> Dbops:
        return Dbops(self.given.url or os.environ.get("DBOPS_URL", ""), read_token(self.given.token_file))

    def write(self, record: Any, text: str) -> None:
        """Print an object, or its text."""
        print(json.dumps(record) if self.is_json else plain(text), flush=True)

    def table(self, rows: Any, *columns: str) -> int:
        """Print objects as lines of JSON, or as a table."""
        found = list(rows)
        if self.is_json:
            for row in found:
                print(json.dumps(row))
            return 0
        cells = [list(columns), *([_cell(row.get(name)) for name in columns] for row in found)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
        for row in cells:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip())
        return 0


def clusters(program: Program) -> int:
    """List clusters."""
    names = ("name", "can_start", "healthy_replicas", "replicas", "worst_lag_seconds", "primary")
    return program.table(program.dbops.every("/clusters", limit=200), *names)


def instances(program: Program) -> int:
    """List instances."""
    found = program.dbops.every("/instances", cluster=program.given.cluster, limit=200)
    return program.table(found, "name", "cluster", "role", "state", "state_text")


def backups(program: Program) -> int:
    """List backup runs, newest first."""
    given = program.given
    page = program.dbops.get("/backup-runs", cluster=given.cluster, status=given.status, limit=given.limit)
    return program.table(page["items"], "id", "instance", "method", "status", "started_at", "finished_at", "bytes")


def rebuilds(program: Program) -> int:
    """List rebuilds, newest first."""
    given = program.given
    wanted = {name: getattr(given, name) for name in ("cluster", "target", "status", "limit")}
    page = program.dbops.get("/rebuilds", **wanted)
    return program.table(
        page["items"], "id", "status", "target", "source", "requested_by", "requested_at", "waiting_for"
    )


def plan(program: Program) -> int:
    """Print the plan of a rebuild; change nothing."""
    found = _plan(program)
    if program.is_json:
        print(json.dumps(found))
    else:
        _show(found)
    return 0 if found["is_possible"] else REFUSED


def rebuild(program: Program) -> int:
    """Plan a rebuild, and request it once its target is confirmed."""
    given = program.given
    found = _plan(program)
    if given.confirm is None and (program.is_json or not sys.stdin.isatty()):
        raise misused(f"Name the target once more: --confirm {given.instance}.")
    if given.confirm is None:
        _show(found)
    wish = {**_choices(given), "target": given.instance, "source": found["source"], "reason": given.reason}
    wish["fingerprint"] = found["fingerprint"]
    wish["confirm"] = given.confirm if given.confirm is not None else input("Name of the target: ")
    if given.expires_hours is not None:
        wish["expires_hours"] = given.expires_hours
    if given.ticket is not None:
        wish["ticket"] = given.ticket
    if given.rate is not None:
        wish["rate"] = round(given.rate * MIB)
    made = program.dbops.post("/rebuilds", wish)
    if given.follow:
        return _follow(program, made["id"])
    return _result(program, made, f"Rebuild {made['id']} is {made['status']}.")


def follow_rebuild(program: Program) -> int:
    """Print the log of a rebuild until it ends."""
    return _follow(program, program.given.rebuild)


def decide(verb: str) -> Callable[[Program], int]:
    """Return the command that cancels, approves or declines a rebuild."""

    def act(program: Program) -> int:
        given = {} if verb == "cancel" else {"reason": program.given.reason}
        found = program.dbops.post(f"/rebuilds/{program.given.rebuild}/{verb}", given)
        said = found["status"] if verb == "cancel" else found["approval"]["state"]
        text = (
            f"Cancellation of rebuild {found['id']} requested."
            if verb == "cancel"
            else f"Rebuild {found['id']} is {said}."
        )
        return _result(program, found, text)

    return act


def show_completion(program: Program) -> int:
    """Print the completion of a shell."""
    sys.stdout.write(completion.script(program.given.shell, parser()))
    return 0


def _choices(given: argparse.Namespace) -> dict[str, Any]:
    names = ("source", "method", "start")
    found = {name: getattr(given, name) for name in names if getattr(given, name)}
    return {**found, "keep_old_data": given.keep_old_data, "full_certificate": given.full_certificate}


def _plan(program: Program) -> Any:
    return program.dbops.post(f"/instances/{program.given.instance}/plan", _choices(program.given))


def _show(found: dict[str, Any]) -> None:
    print(f"Rebuild {found['target']} from {found['source']}.")
    for text in found["destroys"]:
        print(f"  destroys: {plain(text)}")
    for one in found["findings"]:
        if one["severity"] != "ok":
            print(f"  {one['severity']:8} {plain(' '.join((one['title'] + ':', one['seen'], one['advice'])))}".rstrip())
    for step in found["steps"]:
        print(f"  {plain(step['title'])}")
    for one in found["start"]["blockers"]:
        print(f"  waits: {plain(one['text'])}")


def _result(program: Program, found: dict[str, Any], text: str) -> int:
    program.write({"rebuild": found["id"], "status": found["status"], "approval": found["approval"]["state"]}, text)
    return 0


def _follow(program: Program, number: int) -> int:
    bar = Bar()

    def line(found: dict[str, Any]) -> None:
        bar.hide()
        program.write(found, f"{found['at'][11:19]} {found['step']:12} {found['text']}")
        bar.show()

    last = follow(program.dbops, number, line=line, state=bar.update)
    bar.hide()
    program.write({"rebuild": last["id"], **last}, f"{last['status']}: {last['outcome']}")
    return EXIT_STATUS.get(last["status"], 1)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else plain(str(value))


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    found = argparse.ArgumentParser("dbops", description="Rebuild replicas with dbops.", allow_abbrev=False)
    found.add_argument("--version", action="version", version=__version__)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--url", default="", help="address of dbops (default: DBOPS_URL)")
    common.add_argument("--token-file", default="", help="file with the token (default: DBOPS_TOKEN_FILE)")
    common.add_argument(
        "--json", action="store_true", help="print one JSON object per line; the last one is the result"
    )
    verbs = found.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def command(name: str, act: Callable[[Program], int], text: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, parents=[common], help=text, description=text, allow_abbrev=False)
        one.set_defaults(act=act)
        return one

    command("clusters", clusters, "list clusters")
    command("instances", instances, "list instances").add_argument("--cluster")
    for name, act in (("backups", backups), ("rebuilds", rebuilds)):
        one = command(name, act, f"list {name}, newest first")
        one.add_argument("--cluster")
        one.add_argument("--status")
        one.add_argument("--limit", type=int, default=50)
    one.add_argument("--target")
    _add_choices(command("plan", plan, "print the plan of a rebuild; change nothing"))
    one = command("rebuild", rebuild, "rebuild an instance")
    _add_choices(one)
    one.add_argument("--reason", required=True, help="recorded in the audit log")
    one.add_argument("--ticket", help="number of the change ticket, where the cluster requires one")
    one.add_argument("--confirm", metavar="INSTANCE", help="the target once more, instead of a question")
    one.add_argument("--expires-hours", type=int, help="expire if it has not started after this many hours (1 to 168)")
    one.add_argument("--rate", type=float, metavar="MIB", help="limit the stream to this many MiB/s")
    one.add_argument("--follow", action="store_true", help="print the log until the rebuild ends")
    command("follow", follow_rebuild, "print the log of a rebuild until it ends").add_argument("rebuild", type=int)
    for verb in ("cancel", "approve", "decline"):
        one = command(verb, decide(verb), f"{verb} a rebuild")
        one.add_argument("rebuild", type=int)
        if verb != "cancel":
            one.add_argument("--reason", default="")
    command("completion", show_completion, "print the completion of a shell").add_argument("shell", choices=SHELLS)
    return found


def _add_choices(one: argparse.ArgumentParser) -> None:
    one.add_argument("instance", help="instance to rebuild")
    one.add_argument("--source", help="instance to read (default: the best)")
    one.add_argument("--method", help="default: xbstream")
    one.add_argument("--start", help="key of a start option of the plan (default: as soon as possible)")
    one.add_argument("--keep-old-data", action="store_true", help="keep the old data directory after verification")
    one.add_argument("--full-certificate", action="store_true", help="compare all rows of the copy")


def run(words: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    program = Program(parser().parse_args(words))
    try:
        status: int = program.given.act(program)
    except Refused as refused:
        program.write({"status": "refused", "error": refused.error}, f"Refused: {refused}")
        return REFUSED
    except NoAnswer as error:
        program.write({"status": "unknown", "error": {"detail": str(error)}}, f"dbops did not answer: {error}")
        return NO_ANSWER
    except (KeyboardInterrupt, EOFError):
        print("Interrupted. A rebuild that was requested continues.", file=sys.stderr)
        return INTERRUPTED
    return status


def main() -> NoReturn:
    """Run the command line and exit."""
    sys.exit(run())
