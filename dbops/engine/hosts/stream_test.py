"""Run a stream test: send zeros from the source's host to the target's host like a rebuild.

Key, forced command, guard and cipher list are a rebuild's; only the data differs, and the receiver discards it. No data
directory, server or hold is affected. The guard works without dbops: a dead worker leaves no key behind.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from dbops.engine.errors import DbopsError, RemoteFailure
from dbops.engine.hosts.access import HostAccess, remove_run
from dbops.engine.hosts.scripts import load
from dbops.engine.hosts.ssh import show
from dbops.engine.phrases import phrase
from dbops.engine.ports import JobState, JobStatus

#: Seconds per cipher: enough for TCP to reach its rate.
SECONDS = 2
ZEROS = ("timeout", str(SECONDS), "cat", "/dev/zero")
#: Exit status of timeout(1) after it ended the command, as intended.
TIMED_OUT = 124
#: Limit for login and sending; then the receiving host ends it, with or without dbops.
RECEIVE_SECONDS = 15
FOLLOW_SECONDS = RECEIVE_SECONDS + 4
#: The guard removes the key after this time without a heartbeat.
GUARD_SECONDS = 60
KEY_SECONDS = 120
GUARD_JOB, RECEIVE_JOB = "guard", "zeros"
CIPHER = re.compile(r"cipher: (\S+) MAC: (\S+)")

#: Reports a command before it runs: place, text.
Say = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class MeasuredStream:
    """The result: bytes, seconds from the first to the last byte, and the negotiated cipher."""

    byte_count: int
    seconds: float
    cipher: str
    mac: str

    @property
    def bytes_per_second(self) -> float:
        return self.byte_count / self.seconds


def pull_zeros(way: HostAccess, *, ciphers: str, say: Say) -> MeasuredStream:
    """Open access, measure, and always close access again.

    Args:
        ciphers: as in the plan of a rebuild.
        say: called with each command before it runs.

    Raises:
        RemoteFailure: nothing arrived (``test.no_stream``); as ``Jobs.act`` and ``Jobs.start``.
        Unreachable: a host does not answer. The guard closes access on the source.
    """
    try:
        open_access(way, say=say)
        return receive(way, ciphers=ciphers, say=say)
    finally:
        close_access(way)


def open_access(way: HostAccess, *, say: Say) -> None:
    """Create the key, start the guard, and authorize the key, in this order: the guard runs before the key works."""
    source = way.source
    say(way.target.name, "ssh-keygen -q -t ed25519 -f key")
    public_key = way.make_key()
    say(source.name, "guard: takes the key away when the test is over or silent")
    source.jobs.start(
        GUARD_JOB,
        load("release", "guard"),
        way.run_id,
        *source.keys,
        *("", "", ""),  # no server: replication is not affected
        *(str(GUARD_SECONDS), str(GUARD_SECONDS)),
        lock="guard",
    )
    say(source.name, f"let the key in for {KEY_SECONDS} s and one command: {show(ZEROS)}")
    way.let_in(public_key, ZEROS, load("common", "pipes", "tool_account", "serve"), key_seconds=KEY_SECONDS)


def receive(way: HostAccess, *, ciphers: str, say: Say) -> MeasuredStream:
    """Pull until the source ends the stream, and return the measurement. Raises as ``pull_zeros``."""
    pull = way.pull(ciphers, log_level="DEBUG1")  # the only level at which ssh logs the cipher
    say(way.target.name, f"{show([*pull, 'backup'])} | wc -c")
    way.target.jobs.start(RECEIVE_JOB, load("discard_stream"), str(RECEIVE_SECONDS), *pull, "backup")
    return judge(way.target.jobs.follow(RECEIVE_JOB, wait_seconds=FOLLOW_SECONDS))


def judge(state: JobState) -> MeasuredStream:
    """Return the measurement. Raises ``RemoteFailure`` (``test.no_stream``) unless exit statuses and bytes are both right."""
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
        phrase("Pulling zeros from the source's host"),
        cause=phrase(
            "{count} bytes arrived; ssh ended with status {status}: {said}",
            count=count,
            status=phrase("unknown") if status is None else status,
            said=said or phrase("no words"),
        ),
    )


def close_access(way: HostAccess) -> None:
    """Remove the key and end running work. Never raises: the guard, the key's expiry and the job's own end remain."""
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
