"""Read both ends of a failed stream: programs, exit statuses and last output per host."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Plan, PlannedInstance
from dbops.engine.states import StepState
from dbops.models import ExecutedCommand, RebuildStep

#: The step with a stream, and the keys of its commands on the source and on the target.
STREAM, ON_SOURCE, ON_TARGET = "stream", "stream.backup", "stream"


@dataclass(frozen=True, slots=True)
class Process:
    """One program of the stream. ``exit_status`` and ``tail`` are ``None`` if unknown."""

    name: str
    exit_status: int | None
    tail: str | None
    is_transport: bool = False


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """One side of the stream: ``command`` is the command there, empty if unknown."""

    role: str
    party: PlannedInstance
    command: str
    processes: tuple[Process, ...]


def ends_of(plan: Plan | None, steps: Iterable[RebuildStep]) -> tuple[StreamEnd, ...]:
    """Return source and target of a failed stream; empty if none failed or its end was not seen.

    One query for a result, else none.
    """
    stream = next((step for step in steps if step.name == STREAM and step.state == StepState.FAILED), None)
    if plan is None or stream is None or not (stream.result.get("exit_statuses") or stream.result.get("tails")):
        return ()
    ran = dict(
        ExecutedCommand.objects.filter(rebuild=stream.rebuild_id, key__in=(ON_SOURCE, ON_TARGET)).values_list(
            "key", "text"
        )
    )
    result: dict[str, Any] = stream.result
    statuses, tails = result.get("exit_statuses") or {}, result.get("tails") or {}

    def process(name: str, status: str, tail: str, *, is_transport: bool = False) -> Process:
        return Process(name, statuses.get(status), tails[tail].strip("\n") if tail in tails else None, is_transport)

    backup = process("Backup", "source backup", "source")
    ssh = process(phrase("SSH to the source"), "transport", "transport", is_transport=True)
    unpack = process("Unpack", "unpack", "unpack")
    return (
        StreamEnd("Source", plan.source, ran.get(ON_SOURCE, ""), (backup,)),
        StreamEnd("Target", plan.target, ran.get(ON_TARGET, ""), (ssh, unpack)),
    )
