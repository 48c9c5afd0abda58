"""The way from the target to the source, open for one run: its key, the forced command, and the guard that watches over it."""

from collections.abc import Sequence

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.jobs import IN_BASH, pairs
from dbops.engine.hosts.scripts import load
from dbops.engine.rebuilds.steps.commands import from_addresses, known_hosts_line, sent_command
from dbops.engine.rebuilds.steps.run import Run
from dbops.engine.rebuilds.steps.source.release import start_guard
from dbops.engine.states import Level

#: How often the guard on the source hears of us. It bears 45 s of silence while replication is paused.
BEAT_SECONDS = 5.0
#: A source that did not answer is asked again after this: the attempt itself may have taken ten seconds.
SILENT_SECONDS = 20.0


def make_key(run: Run) -> str:
    """Make the run's key on the target, or find it made; return its public half. Raises as ``Run.act``."""
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
    """Write the forced command and its credentials on the source, and let the run's key in. Raises as ``Run.act``.

    Args:
        public_key: one line, as ``make_key`` returns it.
        key: of the command's row.
    """
    source, account = run.source.party, run.accounts.backup
    command = sent_command(run.plan, run.flavor, run.source.jobs.run_directory)
    credentials = run.flavor.credentials_file(account.user, account.password, include=source.defaults_file)
    serve(run, public_key, key, command, script=load("pipes", "serve"), credentials=credentials)


def let_in_to_read(run: Run, archive: Archive, public_key: str, key: str) -> None:
    """Let the run's key in to read one file, and nothing else. Raises as ``Run.act``."""
    serve(run, public_key, key, file_words(archive), script=load("common", "pipes", "serve_file"), credentials="")


def file_words(archive: Archive) -> list[str]:
    """Return what the forced command is told of the file: its path, and that of which backup it is the record."""
    return [archive.path, str(archive.bytes), archive.uid, archive.sha256]


def serve(run: Run, public_key: str, key: str, command: Sequence[str], *, script: str, credentials: str) -> None:
    """Write a forced command on the source, and let the run's key in. Raises as ``Run.act``.

    Args:
        public_key: one line, as ``make_key`` returns it.
        key: of the command's row.
        command: words that the script finds in ``backup.argv``.
        script: the forced command.
        credentials: an option file for it; ``""`` where it needs none.
    """
    source = run.source.party
    result = run.act(
        run.source,
        key,
        "write the forced command and its credentials (0600), and authorize the run's key",
        load("release", "open_source"),
        run.run_id,
        public_key,
        from_addresses(run.target),
        str(run.settings.key_lifetime_seconds),
        run.source.authorized_keys_file,
        source.ssh_user,
        "1" if run.source.sudo else "0",
        *command,
        stdin=f"{credentials.rstrip()}\n----\n{script}".encode(),
    )
    run.checkpoint["let_in"] = True
    run.journal.say(f"The run's key is authorized; it {result.stdout.strip().replace('=', ' ')}.", host=source.host)


def is_open(run: Run) -> bool:
    """Tell whether there is something on the source that its guard watches over; a finished backup that is read needs none."""
    return (
        bool(run.checkpoint.get("source_opened"))
        and not run.checkpoint.get("source_closed")
        and run.plan.archive is None
    )


def keep_open(run: Run, *, at_once: bool = False) -> None:
    """Beat for the guard while the source is open, from whatever step; arm a new guard where the last one is gone.

    A source that does not answer is borne: its guard acts by itself, and the step that needs the source will say so.

    Args:
        at_once: ask now, however short ago it was asked. Only then ``Unreachable`` is raised.
    """
    now = run.clock.now()
    if not is_open(run) or (not at_once and now < run.checkpoint.get("source.beat_at", 0.0)):
        return
    run.checkpoint["source.beat_at"] = now + BEAT_SECONDS
    try:
        told = pairs(run.source.jobs.act(IN_BASH, load("release", "beat_guard")).stdout)
        given_back = told.get("given_back", "")
        # A backup that the guard has ended is not begun again: there is nothing to guard, and its reason is the first cause.
        is_copying = run.checkpoint.get("stream.began") and not run.checkpoint.get("checkpoints")
        if not told.get("guard") and not (given_back and is_copying):
            rearm(run, given_back)
    except Unreachable:
        run.checkpoint["source.beat_at"] = run.clock.now() + SILENT_SECONDS
        if at_once:
            raise


def have_guard(run: Run) -> None:
    """See that a guard lives on the source, which may be open already or not. Raises as ``start_guard``."""
    if is_open(run):
        keep_open(run, at_once=True)
        return
    run.checkpoint["guards"] = run.checkpoint.get("guards", 1) + 1
    start_guard(run, f"guard-{run.checkpoint['guards']}")


def rearm(run: Run, given_back: str) -> None:
    """Start another guard: the last one was killed, or (``given_back``, its reason) gave the source back while we were away."""
    number = run.checkpoint["guards"] = run.checkpoint.get("guards", 1) + 1
    try:
        start_guard(run, f"guard-{number}")
    except RemoteFailure as error:
        if error.code != "host.busy":
            raise
        return  # a guard has its lock: one that is just beginning or just ending; the next beat looks again
    why = given_back or "killed, or host restarted"
    run.journal.say(
        f"The guard on the source had ended ({why}). A new one is armed.",
        level=Level.WARNING,
        host=run.source.party.host,
    )
    if given_back and run.checkpoint.get("let_in") and not run.checkpoint.get("stream.began"):
        let_in(run, make_key(run), f"open.source.{number}")
