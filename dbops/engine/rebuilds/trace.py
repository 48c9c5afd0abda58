"""A finished rebuild as a trace: its time in the queue and its steps as spans, as OpenTelemetry has them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

TRACE_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a rebuild with its beginning and end.

    Attributes:
        key, parent: 16 hexadecimal digits each. The whole rebuild has no parent.
        error: code of the error that ended it; empty if none did.
    """

    key: str
    parent: str
    name: str
    started_at: datetime
    finished_at: datetime
    attributes: dict[str, str | int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one rebuild. ``key``: its run id, with zeros in front to 32 hexadecimal digits."""

    key: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class TracedStep:
    """What a trace takes from a step. A step without a beginning did not run."""

    name: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class TracedRebuild:
    """What a trace takes from a finished rebuild. ``started_at`` is ``None`` if it never left the queue."""

    uid: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime
    attributes: dict[str, str | int]
    steps: tuple[TracedStep, ...]
    error: str = ""


def trace_of(rebuild: TracedRebuild) -> Trace:
    """Return the trace of a finished rebuild. It has no free text: what people and tools write can contain secrets."""
    root = _key(rebuild.uid, "")
    whole = Span(
        root,
        "",
        "rebuild",
        rebuild.requested_at,
        max(rebuild.finished_at, rebuild.requested_at),
        rebuild.attributes,
        rebuild.error,
    )
    queue = Span(
        _key(rebuild.uid, "queue"),
        root,
        "queue",
        rebuild.requested_at,
        max(rebuild.started_at or rebuild.finished_at, rebuild.requested_at),
    )
    return Trace(rebuild.uid.zfill(TRACE_DIGITS), (whole, queue, *_steps(rebuild, root)))


def _steps(rebuild: TracedRebuild, root: str) -> Iterator[Span]:
    for step in rebuild.steps:
        if step.started_at is None:
            continue
        yield Span(
            _key(rebuild.uid, step.name),
            root,
            step.name,
            step.started_at,
            # a clock that was set back between the two
            max(step.finished_at or rebuild.finished_at, step.started_at),
            {"dbops.step.state": step.state},
            rebuild.error if step.has_failed else "",
        )


def _key(uid: str, name: str) -> str:
    return hashlib.sha256(f"{uid} {name}".encode()).hexdigest()[:16]
