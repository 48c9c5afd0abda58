"""The command lines of the stream."""

import re

import pytest

from dbops.engine import pipeline


@pytest.mark.parametrize("seconds", [pipeline.PAUSED_DEAD_AFTER_SECONDS, pipeline.DEAD_AFTER_SECONDS])
def test_ssh_gives_a_silent_peer_up_after_as_long_as_said(seconds: int) -> None:
    words = pipeline.ssh_command(
        address="10.0.0.2",
        port=22,
        user="dbops",
        bind_address="",
        ciphers="aes128-ctr",
        directory="/run",
        dead_after_seconds=seconds,
    )
    found = re.search(r"ServerAliveInterval=(\d+) .*ServerAliveCountMax=(\d+) ", " ".join(words))
    assert found
    # ssh asks that many times, and gives up when the next one would be due
    assert int(found[1]) * (int(found[2]) + 1) == seconds


def test_a_paused_source_is_given_back_in_time_and_a_short_cut_is_borne() -> None:
    assert 30 <= pipeline.PAUSED_DEAD_AFTER_SECONDS <= 45
    assert pipeline.PAUSED_DEAD_AFTER_SECONDS < pipeline.DEAD_AFTER_SECONDS
