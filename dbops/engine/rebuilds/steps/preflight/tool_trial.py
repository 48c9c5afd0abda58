"""Try the backup tool with the run's own option file and account before anything is stopped."""

import re

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.failures import KnownFailure, known_failure
from dbops.engine.flavors.recognized import ignored_options
from dbops.engine.hosts.jobs import IN_BASH, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.steps.commands import backup_command
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.states import Level

KEY, TRIAL_SECONDS = "open.tool", 60
#: Status of a program that ``timeout`` killed.
KILLED = 137
OPERATION = phrase("Trying the backup tool on the source")
LEFT = phrase("Nothing was changed on the target.")
#: Both tools log it once they are logged in.
LOGGED_IN = re.compile(r"Using server version (\S+)")


def try_tool(run: Run) -> None:
    """Log in with the backup tool, its option file and its account, and check which server it reaches. It copies nothing.

    Raises:
        RemoteFailure: a known failure of the tool, ``backup.trial`` for another one, ``backup.option`` if the tool ignores an option,
            ``backup.other_server`` if the option file leads to another server than the plan's.
    """
    source = run.source
    command = backup_command(run.plan, run.flavor, source.jobs.run_directory)
    run.journal.check()
    run.journal.command(KEY, source.party.host, show([*command, "--print-param"]))
    result = source.jobs.act(
        IN_BASH,
        load("common", "tool_account", "try_tool"),
        run.plan.programs["source.client"],
        source.party.socket,
        str(TRIAL_SECONDS),
        *command,
        timeout_seconds=TRIAL_SECONDS + 15,
    )
    head, _, text = result.stdout.partition("\nlog=\n")
    # the tool lists an account's grants with the hash of its password
    log = "\n".join(line for line in text.splitlines() if "GRANT " not in line)
    found = pairs(head)
    status = int(found["status"]) if found.get("status", "").isdigit() else result.exit_status
    run.journal.finished(KEY, status, log or result.stderr)
    _must_have_ended_well(status, log or result.stderr)
    _must_know_its_options(run.flavor, command, log)
    planned = f"{source.party.server_id} {source.party.datadir_identity}"
    if found.get("server", planned) != planned:
        raise RemoteFailure(
            "backup.other_server",
            OPERATION,
            cause=phrase(
                "server id and data directory are {found}, but those of the plan are {planned}",
                found=found["server"],
                planned=planned,
            ),
            state=LEFT,
        )
    if LOGGED_IN.search(log):
        run.journal.say(phrase("The backup tool can log in to the source's server."), host=source.party.host)
    else:
        text = phrase(
            "This backup tool prints its parameters without a login: its account is tried only by the copy itself."
        )
        run.journal.say(text, level=Level.WARNING, host=source.party.host)


def _must_have_ended_well(status: int | None, log: str) -> None:
    """Raise the tool's failure. Old versions of XtraBackup end well before they log in (its source)."""
    if status == 0:
        return
    said = " ".join(log.split())[-500:] or phrase("(nothing)")
    if status == KILLED:
        cause = phrase("it did not end within {seconds} s, or was killed", seconds=TRIAL_SECONDS)
        raise RemoteFailure("backup.trial", OPERATION, cause=cause, state=LEFT)
    if known := known_failure(log.splitlines()):
        raise _known(known, said)
    raise RemoteFailure(
        "backup.trial",
        OPERATION,
        cause=phrase("exit status {status}; it wrote: {said}", status=status, said=said),
        state=LEFT,
    )


def _must_know_its_options(flavor: Flavor, command: list[str], log: str) -> None:
    """Raise where a tool that takes unknown options in silence would copy for hours without one of them."""
    ignored = ignored_options(command, log.splitlines()) if flavor.tool_ignores_unknown_options else []
    if ignored:
        raise RemoteFailure(
            "backup.option", OPERATION, cause=phrase("it ignores {options}", options=", ".join(ignored)), state=LEFT
        )


def _known(known: KnownFailure, said: str) -> RemoteFailure:
    return RemoteFailure(
        known.code,
        OPERATION,
        cause=phrase("{sentence} It wrote: {said}", sentence=known.sentence, said=said),
        state=LEFT,
    )
