"""What a test of the stream concludes from what the hosts say, and that it always closes the way again."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from dbops.engine.errors import RemoteFailure, Unreachable
from dbops.engine.hosts.access import Endpoint, HostAccess
from dbops.engine.hosts.stream_test import judge, pull_zeros
from dbops.engine.ports import CommandResult, JobState, JobStatus

CIPHER = "debug1: kex: server->client cipher: aes128-gcm@openssh.com MAC: <implicit> compression: none\n"


def ended(transport: int = 124, measured: str = "5000000000 5000000000", **tails: str) -> JobState:
    return JobState(JobStatus.ENDED, 0, {"transport": transport}, {}, {"measured": measured, "cipher": CIPHER, **tails})


@dataclass
class Played:
    """Jobs of one host that write down what was asked. ``state`` is what following tells, ``error`` what acting meets."""

    state: JobState = field(default_factory=ended)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)
    run_directory: str = "/var/lib/dbops/rebuilds/abc"

    def act(self, script: str, *arguments: str, **_: Any) -> CommandResult:
        self.asked.append(arguments[0])
        if self.error:
            raise self.error
        return CommandResult(0, "ssh-ed25519 AAAA dbops-abc\n", "")

    def start(self, name: str, script: str, *arguments: str, **_: Any) -> JobState:
        self.asked.append(f"start {name}")
        return JobState(JobStatus.RUNNING)

    def follow(self, name: str, wait_seconds: float = 0.0, tail_lines: int = 20) -> JobState:
        return self.state

    def stop(self, name: str, patience_seconds: float = 2.0) -> JobState:
        self.asked.append(f"stop {name}")
        return self.state


def end(name: str, jobs: Played) -> Endpoint:
    return Endpoint(
        name, f"{name}.example", 22, "root", f"{name}.example", "10.0.0.9", "ssh-ed25519 AAAA", "", False, jobs
    )  # type: ignore[arg-type]


def way(source: Played, target: Played) -> HostAccess:
    return HostAccess("abc", source=end("one", source), target=end("two", target))


def test_stream_rate_counts_from_first_to_last_byte() -> None:
    found = judge(ended())
    assert (found.bytes_per_second, found.cipher) == (1e9, "aes128-gcm@openssh.com")


@pytest.mark.parametrize(
    "state",
    [
        ended(measured="0 12"),
        ended(transport=255),
        ended(measured=""),
        JobState(JobStatus.RUNNING),
        JobState(JobStatus.VANISHED),
    ],
)
def test_stream_test_fails_with_the_words_of_ssh_when_incomplete(state: JobState) -> None:
    with pytest.raises(RemoteFailure) as raised:
        judge(state)
    assert raised.value.code == "test.no_stream"


def test_stream_test_shows_the_error_of_ssh() -> None:
    tails = {"measured": "0 0", "transport": "root@x: Permission denied (publickey).\n"}
    with pytest.raises(RemoteFailure) as raised:
        judge(JobState(JobStatus.ENDED, 0, {"transport": 255}, {}, tails))
    assert "(publickey)" in raised.value.cause


def test_stream_test_always_closes_the_connection() -> None:
    said: list[tuple[str, str]] = []
    source, target = Played(), Played(state=ended(255, "0 0"))
    with pytest.raises(RemoteFailure):
        pull_zeros(way(source, target), ciphers="aes128-ctr", say=lambda *command: said.append(command))
    assert any("revoke_key" in script for script in source.asked[-2:])
    assert 'rm -rf -- "$DBOPS_RUN_DIR"' in source.asked[-1]
    assert 'rm -rf -- "$DBOPS_RUN_DIR"' in target.asked[-1]
    assert any("cat /dev/zero" in text for _, text in said)


def test_stream_test_cleans_the_target_when_the_source_is_silent() -> None:
    source = Played(error=Unreachable("ssh.timeout", "Waiting", cause="no answer"))
    target = Played()
    with pytest.raises(Unreachable):
        pull_zeros(way(source, target), ciphers="aes128-ctr", say=lambda *_: None)
    assert "stop zeros" in target.asked
    assert "start guard" in source.asked  # before the key is let in: it removes the key in the end
