"""Start options as text."""

from collections.abc import Iterator
from datetime import UTC

from dbops.engine.schedule.backup_windows import TimeEstimate
from dbops.engine.schedule.eligibility import EligibilityState
from dbops.operations.start_options import StartOptions


def start_lines(options: StartOptions) -> Iterator[str]:
    """Yield the eligibility, the blockers and all start options, with times in UTC."""
    answer = options.eligibility
    until = f" {_clock(answer.free)}" if answer.answer == EligibilityState.UNTIL else ""
    yield f"Rebuild status: {answer.answer}{until}"
    for blocker in (*answer.blockers, *answer.warnings):
        yield f"  {blocker.effect:9} {blocker.text} Until: {_clock(blocker.until)}. To unblock: {blocker.clears}."
    yield "Start options (--start KEY; another source: --source NAME):"
    for choice in options.options:
        times = f"start: {_clock(choice.starts)}, end: {_clock(choice.finishes)}"
        yield (
            f"  {choice.key:28} {choice.title}: {times}"
            if choice.is_possible
            else (f"  {'not possible':28} {choice.title}: {choice.reason}")
        )


def _clock(end: TimeEstimate) -> str:
    if end.p50 is None or end.p90 is None:
        return f"no estimate ({end.reason})"
    likely, late = (f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for moment in (end.p50, end.p90))
    return likely if likely == late else f"{likely} (p90: {late})"
