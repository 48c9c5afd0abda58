"""Measure the stream where SSH is the bottleneck: the data is too small to wait for the disk."""

from script.lib.bench import Bench, stage, streams
from script.lib.bench_ground import say
from script.lib.bench_rows import Group, Row, Samples, median_of_pairs, pairs, row_of

KEYS = ("default-cipher",)


def row(samples: Samples) -> Row:
    """Return the row of these samples."""
    stream, best, default = (samples[name] for name in ("stream", "by hand, best cipher", "by hand, default cipher"))
    limit = (
        f"by hand the best cipher takes {median_of_pairs(best, default):.2f} of the default one's time: the rest is the backup tool, "
        "the unpacker and their pipes on the same two cores"
    )
    return row_of("default-cipher", pairs(stream, default), limit)


def group(size: str, rounds: int) -> Group:
    """Measure. Raises ``Failed`` or ``LabError``."""
    samples: Samples = {}
    with stage(size, "127.0.51", make=Bench, say=say) as bench:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for name, seconds in streams(bench, number, bench.rebuild).items():
                samples.setdefault(name, []).append(seconds)
        streamed = bench.bytes / 1024**2
    names = ("stream", "by hand, best cipher", "by hand, default cipher")
    facts = f"MariaDB, {streamed:.0f} MiB streamed: what is written stays in memory while it is timed, so that SSH is the narrow place."
    return Group("Where SSH is the narrow place", (row(samples),), {name: samples[name] for name in names}, facts)
