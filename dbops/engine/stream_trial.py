"""A test of the stream: zeros from the source's host to the target's, on the way that a rebuild's data would take.

The same key, forced command, guard and cipher list as a rebuild's; only what is sent differs, and the receiver throws it away. No data
directory, server or hold is touched. The guard needs nobody alive: a worker that dies leaves no key behind.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from dbops.engine.errors import DbopsError, RemoteFailure
from dbops.engine.pipeline import allowed_from, known_host, show, ssh_command
from dbops.engine.ports import Jobs, JobState, JobStatus
from dbops.engine.scripts import load
from dbops.engine.steps.run import IN_BASH

#: With each cipher: enough for TCP to find its rate.
SECONDS = 2
ZEROS = ("timeout", str(SECONDS), "cat", "/dev/zero")
#: timeout(1) tells so that it has ended the command: what was wanted.
TIMED_OUT = 124
#: Logging in and sending; then the receiving host ends it, whoever lives.
RECEIVE_SECONDS = 15
FOLLOW_SECONDS = RECEIVE_SECONDS + 4
#: The guard takes the key away when it has heard nothing for so long.
GUARD_SECONDS = 60
KEY_SECONDS = 120
GUARD_JOB, RECEIVE_JOB = "guard", "zeros"
CIPHER = re.compile(r"cipher: (\S+) MAC: (\S+)")

#: Tells a command before it runs: place, text.
Say = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class End:
    """One host of the test: where it is, and its jobs."""

    name: str
    ssh_address: str
    ssh_port: int
    ssh_user: str
    stream_address: str
    local_address: str
    host_key: str
    authorized_keys_file: str
    sudo: bool
    jobs: Jobs = field(repr=False)


@dataclass(frozen=True, slots=True)
class Measured:
    """What arrived: bytes, seconds from the first to the last byte, and the cipher that both ends agreed upon."""

    byte_count: int
    seconds: float
    cipher: str
    mac: str

    @property
    def bytes_per_second(self) -> float:
        return self.byte_count / self.seconds


def pull_zeros(run_id: str, *, source: End, target: End, ciphers: str, say: Say) -> Measured:
    """Open the way, measure, and close it again, whatever happened in between.

    Args:
        run_id: names the run on both hosts.
        ciphers: as the plan of a rebuild would choose them.
        say: called with each command before it runs.

    Raises:
        RemoteFailure: nothing arrived (``test.no_stream``); as ``Jobs.act`` and ``Jobs.start``.
        Unreachable: a host does not answer. What is open on the source is closed by its guard.
    """
    try:
        open_way(run_id, source=source, target=target, say=say)
        return receive(run_id, source=source, target=target, ciphers=ciphers, say=say)
    finally:
        close_way(run_id, source=source, target=target)


def open_way(run_id: str, *, source: End, target: End, say: Say) -> None:
    """Make the key, arm the guard, and let the key in: in this order, so that the guard knows before there is a key."""
    say(target.name, "ssh-keygen -q -t ed25519 -f key")
    line = known_host(source.stream_address, source.ssh_port, source.host_key)
    public_key = _act(target, "Making the test's key", load("make_key"), run_id, line).strip()
    keys = (source.authorized_keys_file, source.ssh_user)
    say(source.name, "guard: takes the key away when the test is over or silent")
    source.jobs.start(
        GUARD_JOB,
        load("release", "guard"),
        run_id,
        *keys,
        *("", "", ""),  # no server: replication is not touched
        *(str(GUARD_SECONDS), str(GUARD_SECONDS)),
        lock="guard",
    )
    say(source.name, f"let the key in for {KEY_SECONDS} s and one command: {show(ZEROS)}")
    _act(
        source,
        "Letting the test's key in",
        load("release", "open_source"),
        run_id,
        public_key,
        allowed_from(target.local_address, target.ssh_address),
        str(KEY_SECONDS),
        *keys,
        "1" if source.sudo else "0",
        *ZEROS,
        stdin=f"\n----\n{load('serve')}".encode(),
    )


def receive(run_id: str, *, source: End, target: End, ciphers: str, say: Say) -> Measured:
    """Pull until the source ends it, and return what was measured. Raises as ``pull_zeros``."""
    pull = ssh_command(
        address=source.stream_address,
        port=source.ssh_port,
        user=source.ssh_user,
        bind_address=target.local_address,
        ciphers=ciphers,
        directory=target.jobs.run_directory,
        log_level="DEBUG1",  # the only level at which ssh names the cipher
    )
    say(target.name, f"{show([*pull, 'backup'])} | wc -c")
    target.jobs.start(RECEIVE_JOB, load("receive_zeros"), str(RECEIVE_SECONDS), *pull, "backup")
    return judge(target.jobs.follow(RECEIVE_JOB, wait_seconds=FOLLOW_SECONDS))


def judge(state: JobState) -> Measured:
    """Return what was measured. Raises ``RemoteFailure`` (``test.no_stream``): exit statuses and bytes must both be right."""
    counts = state.tails.get("measured", "").split()
    count, nanoseconds = (int(item) for item in counts) if len(counts) == 2 else (0, 0)
    status = state.stages.get("transport")
    agreed = CIPHER.search(state.tails.get("cipher", ""))
    if count > 0 and nanoseconds > 0 and status in (0, TIMED_OUT):
        cipher, mac = agreed.groups() if agreed else ("", "")
        return Measured(count, nanoseconds / 1e9, cipher, mac)
    said = state.tails.get("transport", "").strip()[-800:]
    raise RemoteFailure(
        "test.no_stream",
        "Pulling zeros from the source's host",
        found=f"{count} bytes arrived; ssh ended with status {'not known' if status is None else status}: {said or 'no words'}",
        left="Nothing was changed; the test's key is taken away again.",
        next_step="Can the target's host reach the SSH of the source's host? Look at the address for streams, and at firewalls.",
    )


def close_way(run_id: str, *, source: End, target: End) -> None:
    """Take the key away and end what still runs. Never raises: the guard, the key's expiry and the job's own end remain."""
    for part in (_end_receiver, _close_source):
        try:
            part(run_id, source, target)
        except DbopsError:
            pass


def _end_receiver(run_id: str, source: End, target: End) -> None:
    if target.jobs.stop(RECEIVE_JOB).status is not JobStatus.RUNNING:
        _remove_run(target)


def _close_source(run_id: str, source: End, target: End) -> None:
    keys = (source.authorized_keys_file, source.ssh_user)
    _act(source, "Closing the source", load("release", "close_source"), run_id, *keys, "", "", "")
    if source.jobs.follow(GUARD_JOB, wait_seconds=3).status in (JobStatus.ENDED, JobStatus.ABSENT):
        _remove_run(source)


def _remove_run(end: End) -> None:
    _act(end, "Removing the test's directory", 'cd / && rm -rf -- "$DBOPS_RUN_DIR"')


def _act(end: End, doing: str, script: str, *arguments: str, stdin: bytes = b"") -> str:
    result = end.jobs.act(IN_BASH, script, *arguments, stdin=stdin)
    if result.exit_status != 0:
        said = f"{result.stdout}{result.stderr}".strip()[-500:]
        raise RemoteFailure(
            "host.script", f"{doing} on {end.name}", found=f"status {result.exit_status}: {said or 'no words'}"
        )
    return result.stdout
