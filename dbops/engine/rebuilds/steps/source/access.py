"""Access from the target to the source for one run: its key, the forced command, and the guard."""

import re
from collections.abc import Sequence

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.flavors.tool_options import NO_TOOL, script_arguments
from dbops.engine.hosts.jobs import IN_BASH, pairs
from dbops.engine.hosts.local_login import local_login
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.steps.commands import from_addresses, known_hosts_line, sent_command
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.release import start_guard
from dbops.engine.states import Level

#: A moment as OpenSSH reads it: year, month, day, hour, minute, second.
_EXPIRY = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)\d\d")
#: The interval of heartbeats to the guard on the source. It tolerates 45 s of silence while replication is paused.
BEAT_SECONDS = 5.0
#: The time before a retry of a source that did not answer: the attempt itself may have taken ten seconds.
SILENT_SECONDS = 20.0


def make_key(run: Run) -> str:
    """Create the run's key on the target, or find it; return its public half. Raises as ``Run.act``."""
    result = run.act(
        run.target,
        "open.key",
        "ssh-keygen -q -t ed25519 -f key",
        load("make_key"),
        run.run_id,
        known_hosts_line(run.source),
    )
    return result.stdout.strip()


def let_in(run: Run, public_key: str, key: str) -> None:
    """Write the forced command and its credentials on the source, and authorize the run's key. Raises as ``Run.act``.

    Args:
        public_key: one line, as ``make_key`` returns it.
        key: of the command's row.
    """
    source, account = run.source.party, run.accounts.backup
    command = sent_command(run.plan, run.flavor, run.source.jobs.run_directory)
    credentials = local_login(run.flavor, account, run.source.jobs.run_directory, socket=source.socket)
    options = script_arguments(run.flavor, source.defaults_file)
    serve(
        run,
        public_key,
        key,
        command,
        script=load("common", "pipes", "tool_account", "serve"),
        credentials=credentials,
        options=options,
    )


def let_in_to_read(run: Run, archive: Archive, public_key: str, key: str) -> None:
    """Authorize the run's key to read one file only. Raises as ``Run.act``."""
    serve(run, public_key, key, file_words(archive), script=load("common", "pipes", "serve_file"), credentials="")


def file_words(archive: Archive) -> list[str]:
    """Return the forced command's arguments for the file: its path, and which backup's record belongs to it."""
    return [archive.path, str(archive.bytes), archive.uid, archive.sha256]


def serve(
    run: Run,
    public_key: str,
    key: str,
    command: Sequence[str],
    *,
    script: str,
    credentials: str,
    options: Sequence[str] = NO_TOOL,
) -> None:
    """Write a forced command on the source, and authorize the run's key. Raises as ``Run.act``.

    Args:
        public_key: one line, as ``make_key`` returns it.
        key: of the command's row.
        command: words that the script finds in ``backup.argv``.
        script: the forced command.
        credentials: an option file for it; ``""`` if it needs none.
        options: what the host adds to that file, of ``tool_options.script_arguments``.
    """
    source = run.source.party
    result = run.act(
        run.source,
        key,
        "write the forced command and its credentials (0600), and authorize the run's key",
        load("common", "tool_options", "tool_account", "release", "open_source"),
        run.run_id,
        public_key,
        from_addresses(run.target),
        str(run.settings.key_lifetime_seconds),
        run.source.authorized_keys_file,
        source.ssh_user,
        "1" if run.source.sudo else "0",
        source.datadir,
        *options,
        *command,
        stdin=f"{credentials.rstrip()}\n----\n{script}".encode(),
    )
    run.checkpoint["let_in"] = True
    until = _EXPIRY.sub(r"\1-\2-\3 \4:\5 of the host's clock", pairs(result.stdout).get("expires", ""))
    run.journal.say(
        phrase("The run's key is authorized{until}.", until=until and phrase(" until {until}", until=until)),
        host=source.host,
    )


def may_be_open(run: Run) -> bool:
    """Return whether the source may need a guard: one was requested, and nothing was released. A finished backup needs none."""
    return (
        bool(run.checkpoint.get("source_opened"))
        and not run.checkpoint.get("source_closed")
        and run.plan.archive is None
    )


def is_open(run: Run) -> bool:
    """Return whether this run's guard has started. While it waits for the guard of an earlier run, it may not arm a second one."""
    return may_be_open(run) and bool(run.checkpoint.get("guard_started"))


def keep_open(run: Run, *, at_once: bool = False) -> None:
    """Send a heartbeat to the guard while the source is open, in any step; start a new guard if the last one is gone.

    A source that does not answer is tolerated: its guard acts on its own, and the step that needs the source reports it.


    Args:
        at_once: send it now, however recent the last one. Only then ``Unreachable`` is raised.
    """
    now = run.clock.now()
    is_due = at_once or now >= run.checkpoint.get("source.beat_at", 0.0)
    if not is_due or not (may_be_open(run) if at_once else is_open(run)):
        return
    run.checkpoint["source.beat_at"] = now + BEAT_SECONDS
    try:
        found = pairs(run.source.jobs.act(IN_BASH, load("release", "beat_guard")).stdout)
        given_back = found.get("given_back", "")
        # A backup that the guard has ended is not repeated: nothing is left to guard, and the guard's reason is the first cause.
        is_copying = run.checkpoint.get("stream.began") and not run.checkpoint.get("checkpoints")
        if not found.get("guard") and not (given_back and is_copying):
            rearm(run, given_back)
    except Unreachable:
        run.checkpoint["source.beat_at"] = run.clock.now() + SILENT_SECONDS
        if at_once:
            raise


def have_guard(run: Run) -> None:
    """Make sure that a guard lives on the source, which may already be open. Raises as ``start_guard``."""
    if may_be_open(run):
        keep_open(run, at_once=True)
        return
    run.checkpoint["guards"] = run.checkpoint.get("guards", 1) + 1
    start_guard(run, f"guard-{run.checkpoint['guards']}")


def rearm(run: Run, given_back: str) -> None:
    """Start another guard: the last one was killed, or (``given_back``, its reason) released the source during our silence."""
    number = run.checkpoint["guards"] = run.checkpoint.get("guards", 1) + 1
    try:
        start_guard(run, f"guard-{number}")
    except RemoteFailure as error:
        if error.code != "host.busy":
            raise
        return  # a guard that is just beginning or ending has the lock; the next heartbeat tries again
    why = given_back or phrase("killed, or host restarted")
    run.journal.say(
        phrase("The guard on the source had ended ({why}). A new one is armed.", why=why),
        level=Level.WARNING,
        host=run.source.party.host,
    )
    if given_back and run.checkpoint.get("let_in") and not run.checkpoint.get("stream.began"):
        let_in(run, make_key(run), f"open.source.{number}")
