"""Run a stream test: send zeros from the source's host to the target's host like a rebuild.

The same key, forced command, guard and cipher list as a rebuild's; only what is sent differs, and the receiver throws it away. No data
directory, server or hold is touched. The guard needs nobody alive: a worker that dies leaves no key behind.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from dbops.engine.errors import DbopsError, RemoteFailure
from dbops.engine.hosts.access import HostAccess, remove_run
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.ports import JobState, JobStatus

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
class MeasuredStream:
    """What arrived: bytes, seconds from the first to the last byte, and the cipher that both ends agreed upon."""

    byte_count: int
    seconds: float
    cipher: str
    mac: str

    @property
    def bytes_per_second(self) -> float:
        return self.byte_count / self.seconds


def pull_zeros(way: HostAccess, *, ciphers: str, say: Say) -> MeasuredStream:
    """Open the way, measure, and close it again, whatever happened in between.

    Args:
        ciphers: as the plan of a rebuild would choose them.
        say: called with each command before it runs.

    Raises:
        RemoteFailure: nothing arrived (``test.no_stream``); as ``Jobs.act`` and ``Jobs.start``.
        Unreachable: a host does not answer. What is open on the source is closed by its guard.
    """
    try:
        open_access(way, say=say)
        return receive(way, ciphers=ciphers, say=say)
    finally:
        close_access(way)


def open_access(way: HostAccess, *, say: Say) -> None:
    """Make the key, arm the guard, and let the key in: in this order, so that the guard knows before there is a key."""
    source = way.source
    say(way.target.name, "ssh-keygen -q -t ed25519 -f key")
    public_key = way.make_key()
    say(source.name, "guard: takes the key away when the test is over or silent")
    source.jobs.start(
        GUARD_JOB,
        load("release", "guard"),
        way.run_id,
        *source.keys,
        *("", "", ""),  # no server: replication is not touched
        *(str(GUARD_SECONDS), str(GUARD_SECONDS)),
        lock="guard",
    )
    say(source.name, f"let the key in for {KEY_SECONDS} s and one command: {show(ZEROS)}")
    way.let_in(public_key, ZEROS, load("pipes", "serve"), key_seconds=KEY_SECONDS)


def receive(way: HostAccess, *, ciphers: str, say: Say) -> MeasuredStream:
    """Pull until the source ends it, and return what was measured. Raises as ``pull_zeros``."""
    pull = way.pull(ciphers, log_level="DEBUG1")  # the only level at which ssh names the cipher
    say(way.target.name, f"{show([*pull, 'backup'])} | wc -c")
    way.target.jobs.start(RECEIVE_JOB, load("discard_stream"), str(RECEIVE_SECONDS), *pull, "backup")
    return judge(way.target.jobs.follow(RECEIVE_JOB, wait_seconds=FOLLOW_SECONDS))


def judge(state: JobState) -> MeasuredStream:
    """Return what was measured. Raises ``RemoteFailure`` (``test.no_stream``): exit statuses and bytes must both be right."""
    counts = state.tails.get("measured", "").split()
    count, nanoseconds = (int(item) for item in counts) if len(counts) == 2 else (0, 0)
    status = state.stages.get("transport")
    agreed = CIPHER.search(state.tails.get("cipher", ""))
    if count > 0 and nanoseconds > 0 and status in (0, TIMED_OUT):
        cipher, mac = agreed.groups() if agreed else ("", "")
        return MeasuredStream(count, nanoseconds / 1e9, cipher, mac)
    said = state.tails.get("transport", "").strip()[-800:]
    raise RemoteFailure(
        "test.no_stream",
        "Pulling zeros from the source's host",
        cause=f"{count} bytes arrived; ssh ended with status {'not known' if status is None else status}: {said or 'no words'}",
    )


def close_access(way: HostAccess) -> None:
    """Take the key away and end what still runs. Never raises: the guard, the key's expiry and the job's own end remain."""
    for part in (_end_receiver, _close_source):
        try:
            part(way)
        except DbopsError:
            pass


def _end_receiver(way: HostAccess) -> None:
    if way.target.jobs.stop(RECEIVE_JOB).status is not JobStatus.RUNNING:
        remove_run(way.target)


def _close_source(way: HostAccess) -> None:
    way.close()
    if way.source.jobs.follow(GUARD_JOB, wait_seconds=3).status in (JobStatus.ENDED, JobStatus.ABSENT):
        remove_run(way.source)
