"""Build the command lines of a streamed rebuild, for the plan and the steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.facts.instance import HostFacts

#: Measured on loopback: aes128-gcm is 1.4x to 1.7x as fast as chacha20-poly1305 where AES instructions exist.
CIPHERS_WITH_AES = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "chacha20-poly1305@openssh.com")
CIPHERS_WITHOUT_AES = ("chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com", "aes128-ctr")

#: What a core compresses with ``zstd -1``. Measured: 380 MiB for a second of processor time, to 1/2.8, of a stream of sysbench tables (zstd
#: 1.5, 2026-11-23); half of that, as the source's cores copy and serve as well.
COMPRESSED_BYTES_PER_SECOND = 200 * 1024**2
#: The source serves as well.
COMPRESS_THREADS_MAXIMUM = 4
#: Rates of two seconds differ by that much from one time to the next: within it the known order counts.
SAME_RATE = 0.95


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """What the stream between two hosts was measured to carry: bytes a second by cipher, and when that was."""

    rates: Mapping[str, float]
    measured_at: datetime

    @property
    def best(self) -> str:
        return max(self.rates, key=lambda name: self.rates[name])


def choose_ciphers(source: HostFacts, target: HostFacts, link: MeasuredLink | None = None) -> str:
    """Return the ciphers for the stream, fastest first, that both ends know; ssh takes the first that the source's sshd allows.

    Args:
        link: what was measured between the two hosts, ``None`` where nothing was. What was not measured, or was refused, comes last.
    """
    preferred = CIPHERS_WITH_AES if source.has_aes and target.has_aes else CIPHERS_WITHOUT_AES
    shared = [name for name in preferred if name in source.ssh_ciphers and name in target.ssh_ciphers]
    if link and link.rates:
        shared.sort(key=lambda name: -link.rates.get(name, 0.0))
        fastest = link.rates.get(shared[0], 0.0) if shared else 0.0
        as_fast = [
            name for name in preferred if name in shared and link.rates.get(name, 0.0) >= SAME_RATE * fastest > 0
        ]
        shared = [*as_fast, *(name for name in shared if name not in as_fast)]
    return ",".join(shared or preferred)


def cipher_reason(ciphers: str, source: HostFacts, target: HostFacts, link: MeasuredLink | None) -> str:
    """Return why the stream uses the first of ``ciphers``, as a sentence."""
    first = ciphers.partition(",")[0]
    if link and first in link.rates:
        others = [f"{name} {_rate(link.rates[name])}" for name in ciphers.split(",")[1:] if name in link.rates]
        told = f"; {', '.join(others)}" if others else ""
        return (
            f"{first}: measured between these hosts on {link.measured_at:%Y-%m-%d}, {_rate(link.rates[first])}{told}."
        )
    if source.has_aes and target.has_aes:
        return f"{first}: both processors have AES instructions; the link between these hosts was not measured yet."
    return f"{first}: not both processors have AES instructions; the link between these hosts was not measured yet."


class CompressionCause(StrEnum):
    """Why the stream is compressed, or is not."""

    UNMEASURED = "unmeasured"
    FAST_LINK = "fast-link"
    SLOW_LINK = "slow-link"
    NO_ZSTD = "no-zstd"


@dataclass(frozen=True, slots=True)
class Compression:
    """With how many threads zstd compresses the stream on the source, 0 for not at all; whether the backup tool does it; and why.

    ``lacking``: the ends (``source``, ``target``) without zstd, where that is the cause. ``tool_problem``: why the backup tool does not.
    """

    threads: int
    by_tool: bool
    reason: str
    cause: CompressionCause
    lacking: tuple[str, ...] = ()
    tool_problem: str = ""


def choose_compression(
    source: HostFacts, target: HostFacts, link: MeasuredLink | None, tool_problem: str
) -> Compression:
    """Return how the stream is compressed on the source, and why, as a sentence.

    It pays only where the link is slower than the compressor: else the compressor is the narrow place, and takes the source's cores for it.
    The backup tool's own needs no program on either host and no stage more. It is taken to be as fast as ``zstd -1`` in the pipe, the same
    library at the same level: not measured.

    Args:
        link: what was measured between the two hosts, ``None`` where nothing was.
        tool_problem: why the backup tool must not do it (``Flavor.compress_problem``), empty where it may.
    """
    threads = max(1, min(COMPRESS_THREADS_MAXIMUM, source.cpu_count // 2))
    able = threads * COMPRESSED_BYTES_PER_SECOND
    if link is None or not link.rates:
        return _none("Not compressed: the link between these hosts was not measured yet.", CompressionCause.UNMEASURED)
    rate = link.rates[link.best]
    if rate >= able:
        return _none(
            f"Not compressed: the link carries {_rate(rate)}, about {_rate(able)} can be compressed with {threads} of the cores.",
            CompressionCause.FAST_LINK,
        )
    lacking = [name for name, host in (("source", source), ("target", target)) if "zstd" not in host.tools]
    if tool_problem and lacking:
        return _none(
            f"Not compressed, though the link carries only {_rate(rate)}: no zstd on the {' and the '.join(lacking)}'s host. "
            f"Nor by the backup tool: {tool_problem}.",
            CompressionCause.NO_ZSTD,
            tuple(lacking),
            tool_problem,
        )
    by = (
        f"zstd in the pipe with {threads} of the cores"
        if tool_problem
        else f"the backup tool's zstd with {threads} of the cores"
    )
    why = f" Not by the backup tool: {tool_problem}." if tool_problem else " The unpacking tool expands it on the way."
    return Compression(
        threads,
        not tool_problem,
        f"Compressed by {by}: the link carries {_rate(rate)}, less than the {_rate(able)} that these compress.{why}",
        CompressionCause.SLOW_LINK,
        tool_problem=tool_problem,
    )


def _none(reason: str, cause: CompressionCause, lacking: tuple[str, ...] = (), tool_problem: str = "") -> Compression:
    return Compression(0, by_tool=False, reason=reason, cause=cause, lacking=lacking, tool_problem=tool_problem)


#: Told with each plan by stream: what a person would ask next.
NO_RESUME = (
    "A stream that breaks cannot be resumed: neither tool can begin in the middle. Trying again costs the copy alone: the target's "
    "server is stopped and its old data moved aside already."
)


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1024**2:.0f} MiB/s"
