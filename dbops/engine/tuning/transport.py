"""Build the command lines of a streamed rebuild, for the plan and the steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dbops.engine.facts.instance import HostFacts
from dbops.engine.phrases import Phrase, phrase

#: Measured on loopback: aes128-gcm is 1.4x to 1.7x as fast as chacha20-poly1305 with AES instructions.
CIPHERS_WITH_AES = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "chacha20-poly1305@openssh.com")
CIPHERS_WITHOUT_AES = ("chacha20-poly1305@openssh.com", "aes128-gcm@openssh.com", "aes128-ctr")

#: Compression of one core with ``zstd -1``. Measured: 380 MiB per second of processor time, to 1/2.8, of a stream of sysbench
#: tables (zstd 1.5, 2026-11-23); half of that, as the source's cores copy and serve as well.
COMPRESSED_BYTES_PER_SECOND = 200 * 1024**2
#: The source also serves clients.
COMPRESS_THREADS_MAXIMUM = 4
#: Rates of two seconds vary by this much: within it the known order counts.
SAME_RATE = 0.95


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """Measured rates of the stream between two hosts: bytes a second by cipher, and the time of the measurement."""

    rates: Mapping[str, float]
    measured_at: datetime

    @property
    def best(self) -> str:
        return max(self.rates, key=lambda name: self.rates[name])


def choose_ciphers(source: HostFacts, target: HostFacts, link: MeasuredLink | None = None) -> str:
    """Return the ciphers for the stream that both ends know, fastest first; ssh takes the first that the source's sshd allows.

    Args:
        link: measured rates between the two hosts, or ``None``. Unmeasured and refused ciphers come last.
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
    """Return the reason for the first of ``ciphers``, as a sentence."""
    first = ciphers.partition(",")[0]
    if link and first in link.rates:
        others = [f"{name} {_rate(link.rates[name])}" for name in ciphers.split(",")[1:] if name in link.rates]
        of = {"cipher": first, "day": f"{link.measured_at:%Y-%m-%d}", "rate": _rate(link.rates[first])}
        return (
            phrase("{cipher}: measured between these hosts on {day}, {rate}; {others}.", **of, others=", ".join(others))
            if others
            else phrase("{cipher}: measured between these hosts on {day}, {rate}.", **of)
        )
    if source.has_aes and target.has_aes:
        return phrase(
            "{cipher}: both processors have AES instructions; the link between these hosts was not measured yet.",
            cipher=first,
        )
    return phrase(
        "{cipher}: not both processors have AES instructions; the link between these hosts was not measured yet.",
        cipher=first,
    )


class CompressionCause(StrEnum):
    """Reason why the stream is compressed or not."""

    UNMEASURED = "unmeasured"
    FAST_LINK = "fast-link"
    SLOW_LINK = "slow-link"
    NO_ZSTD = "no-zstd"


@dataclass(frozen=True, slots=True)
class Compression:
    """Compression of the stream: zstd threads on the source (0 for none), whether the backup tool compresses, and the reason.

    ``lacking``: the ends (``source``, ``target``) without zstd, if that is the cause. ``tool_problem``: why the backup tool does
    not compress.
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
    """Return how the stream is compressed on the source, and the reason as a sentence.

    Compression helps only if the link is slower than the compressor; otherwise the compressor is the bottleneck and takes the
    source's cores. The backup tool's own compression needs no program on either host and no further stage. It is assumed to be as
    fast as ``zstd -1`` in the pipe, the same library at the same level: not measured.

    Args:
        link: measured rates between the two hosts, or ``None``.
        tool_problem: why the backup tool cannot compress (``Flavor.compress_problem``), or empty.
    """
    threads = max(1, min(COMPRESS_THREADS_MAXIMUM, source.cpu_count // 2))
    able = threads * COMPRESSED_BYTES_PER_SECOND
    if link is None or not link.rates:
        return _none(
            phrase("Not compressed: the link between these hosts was not measured yet."), CompressionCause.UNMEASURED
        )
    rate = link.rates[link.best]
    if rate >= able:
        return _none(
            phrase(
                "Not compressed: the link carries {rate}, about {rate_2} can be compressed with {threads} of the "
                "cores.",
                rate=_rate(rate),
                rate_2=_rate(able),
                threads=threads,
            ),
            CompressionCause.FAST_LINK,
        )
    lacking = [name for name, host in (("source", source), ("target", target)) if "zstd" not in host.tools]
    if tool_problem and lacking:
        reason = _without_zstd(lacking, _rate(rate), tool_problem)
        return _none(reason, CompressionCause.NO_ZSTD, tuple(lacking), tool_problem)
    reason = _compressed(threads, _rate(rate), _rate(able), tool_problem)
    return Compression(threads, not tool_problem, reason, CompressionCause.SLOW_LINK, tool_problem=tool_problem)


def _without_zstd(lacking: list[str], rate: str, tool_problem: str) -> Phrase:
    if len(lacking) > 1:
        return phrase(
            "Not compressed, though the link carries only {rate}: no zstd on the source and the target's host. Nor by the "
            "backup tool: {tool_problem}.",
            rate=rate,
            tool_problem=tool_problem,
        )
    if lacking == ["source"]:
        return phrase(
            "Not compressed, though the link carries only {rate}: no zstd on the source's host. Nor by the backup tool: "
            "{tool_problem}.",
            rate=rate,
            tool_problem=tool_problem,
        )
    return phrase(
        "Not compressed, though the link carries only {rate}: no zstd on the target's host. Nor by the backup tool: "
        "{tool_problem}.",
        rate=rate,
        tool_problem=tool_problem,
    )


def _compressed(threads: int, rate: str, able: str, tool_problem: str) -> Phrase:
    if tool_problem:
        return phrase(
            "Compressed by zstd in the pipe with {threads} of the cores: the link carries {rate}, less than the {able} that "
            "these compress. Not by the backup tool: {tool_problem}.",
            threads=threads,
            rate=rate,
            able=able,
            tool_problem=tool_problem,
        )
    return phrase(
        "Compressed by the backup tool's zstd with {threads} of the cores: the link carries {rate}, less than the {able} "
        "that these compress. The unpacking tool expands it on the way.",
        threads=threads,
        rate=rate,
        able=able,
    )


def _none(reason: str, cause: CompressionCause, lacking: tuple[str, ...] = (), tool_problem: str = "") -> Compression:
    return Compression(0, by_tool=False, reason=reason, cause=cause, lacking=lacking, tool_problem=tool_problem)


#: Shown with each streamed plan, as the likely next question.
NO_RESUME = phrase(
    "A stream that breaks cannot be resumed: neither tool can begin in the middle. Trying again costs "
    "the copy alone: the target's server is stopped and its old data moved aside already."
)


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1024**2:.0f} MiB/s"
