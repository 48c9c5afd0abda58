"""The command lines of the stream."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.facts.instance import HostFacts, Tool
from dbops.engine.hosts import ssh
from dbops.engine.tuning import transport
from dbops.engine.tuning.transport import (
    COMPRESSED_BYTES_PER_SECOND,
    Compression,
    CompressionCause,
    MeasuredLink,
    choose_ciphers,
    choose_compression,
    cipher_reason,
)
from tests.engine import builders


@pytest.mark.parametrize("seconds", [ssh.PAUSED_DEAD_AFTER_SECONDS, ssh.DEAD_AFTER_SECONDS])
def test_ssh_command_gives_up_after_the_configured_seconds(seconds: int) -> None:
    words = ssh.ssh_command(
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


def test_ssh_timeout_releases_a_paused_source_and_survives_a_short_outage() -> None:
    assert 30 <= ssh.PAUSED_DEAD_AFTER_SECONDS <= 45
    assert ssh.PAUSED_DEAD_AFTER_SECONDS < ssh.DEAD_AFTER_SECONDS


AES128, AES256, CTR, CHACHA = transport.CIPHERS_WITH_AES
HOST = replace(builders.host(12), has_aes=True, ssh_ciphers=transport.CIPHERS_WITH_AES)
WHEN = datetime(2026, 11, 1, tzinfo=UTC)


def chosen(**rates: float) -> list[str]:
    names = {"aes128": AES128, "aes256": AES256, "ctr": CTR, "chacha": CHACHA}
    link = MeasuredLink({names[name]: rate for name, rate in rates.items()}, WHEN)
    return choose_ciphers(HOST, HOST, link).split(",")


def test_ciphers_keep_the_default_order_without_a_measurement() -> None:
    assert choose_ciphers(HOST, HOST).split(",") == list(transport.CIPHERS_WITH_AES)
    slow = replace(HOST, has_aes=False)
    assert choose_ciphers(HOST, slow).split(",")[0] == CHACHA
    found = cipher_reason(choose_ciphers(HOST, slow), HOST, slow, None)
    assert found.startswith(CHACHA)
    assert "MiB/s" not in found


def test_ciphers_start_with_the_fastest_measured() -> None:
    assert chosen(aes128=400, aes256=350, ctr=300, chacha=900) == [CHACHA, AES128, AES256, CTR]


def test_ciphers_keep_the_default_order_within_five_percent() -> None:
    assert chosen(aes128=400, aes256=410, ctr=300, chacha=200)[0] == AES128
    assert chosen(aes128=400, aes256=430, ctr=300, chacha=200)[0] == AES256


def test_ciphers_list_unmeasured_ones_last() -> None:
    assert chosen(chacha=200) == [CHACHA, AES128, AES256, CTR]


def test_ciphers_omit_one_that_a_host_lacks() -> None:
    link = MeasuredLink({CHACHA: 900.0, AES128: 100.0}, WHEN)
    assert CHACHA not in choose_ciphers(HOST, replace(HOST, ssh_ciphers=(AES128, CTR)), link)


@given(st.dictionaries(st.sampled_from([*transport.CIPHERS_WITH_AES, "3des-cbc"]), st.floats(0, 1e10)))
def test_first_cipher_is_within_tolerance_of_the_best(rates: dict[str, float]) -> None:
    first, *rest = choose_ciphers(HOST, HOST, MeasuredLink(rates, WHEN)).split(",")
    assert sorted([first, *rest]) == sorted(transport.CIPHERS_WITH_AES)
    shared = {name: rate for name, rate in rates.items() if name in transport.CIPHERS_WITH_AES}
    if any(shared.values()):
        assert shared.get(first, 0.0) >= transport.SAME_RATE * max(shared.values())


def test_cipher_reason_names_rates_and_date() -> None:
    link = MeasuredLink({AES128: 500 * 1024**2, CHACHA: 200 * 1024**2}, WHEN)
    found = cipher_reason(choose_ciphers(HOST, HOST, link), HOST, HOST, link)
    assert found.startswith(AES128)
    assert all(word in found for word in ("2026-11-01", "500 MiB/s", f"{CHACHA} 200 MiB/s"))


EIGHT = replace(HOST, cpu_count=8, tools={"zstd": Tool("/usr/bin/zstd")})


PIPED = "the tool is not able to"


def compressed(rate: float, source: HostFacts = EIGHT, target: HostFacts = EIGHT, problem: str = PIPED) -> Compression:
    return choose_compression(source, target, MeasuredLink({AES128: rate / 2, CHACHA: rate}, WHEN), problem)


@pytest.mark.parametrize("problem", [PIPED, ""])
def test_only_a_link_slower_than_the_compressor_is_compressed(problem: str) -> None:
    able = 4 * COMPRESSED_BYTES_PER_SECOND
    slower, as_fast = compressed(able - 1, problem=problem), compressed(able, problem=problem)
    assert (slower.threads, slower.by_tool) == (4, not problem)
    assert (as_fast.threads, as_fast.by_tool) == (0, False)
    assert (slower.cause, as_fast.cause) == (CompressionCause.SLOW_LINK, CompressionCause.FAST_LINK)
    assert "800 MiB/s" in as_fast.reason


def test_half_of_the_cores_compress_and_at_most_four() -> None:
    assert [compressed(1, replace(EIGHT, cpu_count=cores)).threads for cores in (1, 2, 4, 64)] == [1, 1, 2, 4]


@pytest.mark.parametrize("problem", [PIPED, ""])
def test_compression_is_off_without_a_measurement(problem: str) -> None:
    for link in (None, MeasuredLink({}, WHEN)):
        found = choose_compression(EIGHT, EIGHT, link, problem)
        assert (found.threads, found.by_tool, found.cause) == (0, False, CompressionCause.UNMEASURED)


def test_compression_names_the_problem_of_the_tool() -> None:
    found = compressed(10 * 1024**2)
    assert (found.threads, found.by_tool) == (4, False)
    assert (found.cause, found.tool_problem) == (CompressionCause.SLOW_LINK, PIPED)
    assert all(word in found.reason for word in ("10 MiB/s", "800 MiB/s", PIPED))


def test_compression_by_tool_needs_no_zstd() -> None:
    bare = replace(EIGHT, tools={})
    found = compressed(10 * 1024**2, bare, bare, problem="")
    assert (found.threads, found.by_tool) == (4, True)
    assert (found.cause, found.lacking, found.tool_problem) == (CompressionCause.SLOW_LINK, (), "")
    assert all(word in found.reason for word in ("10 MiB/s", "800 MiB/s"))


def test_compression_names_a_host_without_zstd() -> None:
    bare = replace(EIGHT, tools={})
    found = compressed(1, EIGHT, bare)
    assert (found.threads, found.by_tool, found.cause) == (0, False, CompressionCause.NO_ZSTD)
    assert (found.lacking, found.tool_problem) == (("target",), PIPED)
    assert PIPED in found.reason
    assert compressed(1, bare, bare).lacking == ("source", "target")
