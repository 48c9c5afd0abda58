"""Choose memory and options of a prepare, with reasons. ``flavors.prepare_habits`` describes the tools."""

from dataclasses import dataclass

from dbops.engine.flavors.prepare import MIB, PrepareBehavior
from dbops.engine.phrases import phrase

GIB = 1024 * MIB
#: Share of the target's free memory at plan time. Its own server may run then, and does not run during the prepare.
SHARE_OF_FREE = 0.6
#: Share of the free memory just before the start of the tool: the plan's memory need not fit twice, but other processes must keep
#: theirs.
SHARE_OF_FREE_LIVE = 0.8
#: Below this the tools' own buffers need more than the redo log.
LEAST_BYTES = 256 * MIB
THREADS_DEFAULT, THREADS_MAXIMUM = 4, 16


@dataclass(frozen=True, slots=True)
class PrepareReason:
    """Inputs of the choice.

    ``redo_capacity_bytes`` is the source's: that much may be between its last checkpoint and the start of the copy.
    ``redo_bytes_per_second`` and ``copy_seconds`` give the redo written during the copy; ``None`` if unknown.
    """

    free_bytes: int
    cpu_count: int
    redo_capacity_bytes: int
    redo_bytes_per_second: float | None = None
    copy_seconds: float | None = None

    @property
    def redo_bytes(self) -> int:
        """Return the maximum redo to apply."""
        return self.redo_capacity_bytes + self.written_bytes

    @property
    def written_bytes(self) -> int:
        if self.redo_bytes_per_second is None or self.copy_seconds is None:
            return 0
        return int(self.redo_bytes_per_second * self.copy_seconds)


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """The choice: ``--use-memory``, further words of the command line, and a sentence for each."""

    memory_bytes: int
    options: tuple[str, ...]
    reasons: tuple[str, ...]


def choose(habits: PrepareBehavior, ground: PrepareReason) -> PrepareOptions:
    """Return the options of a prepare on a target. Never less memory than the tool's own default."""
    memory, why = _memory(habits, ground)
    options, reasons = [], [why]
    threads = max(THREADS_DEFAULT, min(THREADS_MAXIMUM, ground.cpu_count)) if habits.threads_apply else THREADS_DEFAULT
    if threads != THREADS_DEFAULT:
        options.append(f"--innodb-read-io-threads={threads}")
        reasons.append(
            phrase(
                "{threads} read threads for {cores} cores: {reason}.",
                threads=threads,
                cores=ground.cpu_count,
                reason=habits.threads_reason,
            )
        )
    else:
        reasons.append(
            phrase(
                "The tool's own {threads} read threads: {why}.",
                threads=THREADS_DEFAULT,
                why=_why_no_more(habits, ground),
            )
        )
    if habits.takes_own_estimate:
        options.append(f"--use-free-memory-pct={SHARE_OF_FREE:.0%}".rstrip("%"))
        reasons.append(
            phrase(
                "Where the source's option file has estimate-memory, the tool's own estimate goes first, within {share} of "
                "the free memory.",
                share=f"{SHARE_OF_FREE:.0%}",
            )
        )
    return PrepareOptions(memory, tuple(options), tuple(reasons))


def _memory(habits: PrepareBehavior, ground: PrepareReason) -> tuple[int, str]:
    wanted = _rounded_up(max(LEAST_BYTES, int(habits.memory_per_redo * ground.redo_bytes)))
    limit = _rounded_down(int(ground.free_bytes * SHARE_OF_FREE))
    log, written = size(ground.redo_capacity_bytes), size(ground.written_bytes)
    redo = (
        phrase("{log} of redo log and {written} written during the copy", log=log, written=written)
        if ground.written_bytes >= MIB
        else phrase("{log} of redo log", log=log)
    )
    needed = phrase(
        "{wanted} for {redo}: {memory_reason}.", wanted=size(wanted), redo=redo, memory_reason=habits.memory_reason
    )
    if wanted <= limit:
        return wanted, needed
    if limit <= habits.default_memory_bytes:
        least = habits.default_memory_bytes
        return (
            least,
            phrase(
                "The tool's own {least}: only {free_bytes} of memory are free on the target.",
                least=size(least),
                free_bytes=size(ground.free_bytes),
            ),
        )
    return limit, phrase(
        "{limit}, the most within {share} of the {free} that are free on the target; best would be {needed}",
        limit=size(limit),
        share=f"{SHARE_OF_FREE:.0%}",
        free=size(ground.free_bytes),
        needed=needed,
    )


def _why_no_more(habits: PrepareBehavior, ground: PrepareReason) -> str:
    return (
        phrase("the target has {cores} cores", cores=ground.cpu_count)
        if habits.threads_apply
        else habits.threads_reason
    )


def within_what_is_free(planned_bytes: int, free_bytes: int) -> int:
    """Return the memory to use now: the plan's, or less if less is free than at plan time.

    Never below the smallest default of any tool, which would use that anyway.
    """
    limit = _rounded_down(int(free_bytes * SHARE_OF_FREE_LIVE))
    return min(planned_bytes, max(limit, 96 * MIB))


def _rounded_up(wanted: int) -> int:
    """Return the next of 1, 1.5, 2, 3, 4, 6 ... MiB: small changes give the same plan."""
    step = MIB
    while step * 1.5 < wanted:
        step *= 2
    return step if step >= wanted else step * 3 // 2


def _rounded_down(limit: int) -> int:
    step = MIB
    while step * 2 <= limit:
        step *= 2
    return step * 3 // 2 if step * 3 // 2 <= limit else step


def size(count: float) -> str:
    """Return bytes as text, in powers of 1024."""
    return f"{count / GIB:.3g} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"
