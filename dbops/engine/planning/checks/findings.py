"""Helpers to write findings."""

from dbops.engine.phrases import phrase
from dbops.engine.rebuilds.plan import Finding
from dbops.engine.states import Severity


def ok(code: str, title: str, seen: str) -> Finding:
    return Finding(code, Severity.OK, title, seen)


def warning(code: str, title: str, seen: str, advice: str) -> Finding:
    return Finding(code, Severity.WARNING, title, seen, advice)


def refusal(code: str, title: str, seen: str, advice: str) -> Finding:
    return Finding(code, Severity.REFUSAL, title, seen, advice)


def unknown(code: str, title: str, of: str) -> Finding:
    """Return a refusal for a check that lacks data: dbops does not guess."""
    return Finding(
        code,
        Severity.REFUSAL,
        title,
        phrase("Unknown: {of}.", of=of),
        phrase("Wait for a successful probe, or fix the cause."),
    )


def grants_advice(instance: str) -> str:
    return phrase(
        "Grant the missing privileges. On the dashboard's machine, `manage.py grants {instance}` prints all statements.",
        instance=instance,
    )


def gib(size: float) -> str:
    """Return bytes as text: ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return phrase("{size} bytes", size=f"{size:.0f}") if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    """Return seconds as text: ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return phrase("{seconds} min", seconds=f"{seconds / 60:.0f}")
    return phrase(
        "{seconds} h {seconds_2} min", seconds=f"{seconds // 3600:.0f}", seconds_2=f"{seconds % 3600 / 60:.0f}"
    )
