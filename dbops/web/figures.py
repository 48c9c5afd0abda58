"""Write numbers, sizes, durations and ages in the language of the page. app.js and charts.js write the same words."""

from django.utils.formats import get_format

from dbops.engine.phrases import Phrase, phrase
from dbops.engine.schedule.backup_windows import in_tenths
from dbops.web.templatetags.phrases import translated

UNKNOWN = phrase("Unknown")
NEVER = phrase("never")
#: The age of a time in the future: the clock was set back.
UNKNOWN_AGE = phrase("unknown")
NOW = phrase("now")
MIB = 1024**2
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SECONDS_OF = {"minutes": 60, "hours": 3600, "days": 86400}
#: Durations by their largest unit; the second number of minutes and hours has two digits.
DURATIONS = {
    "seconds": phrase("{seconds} s"),
    "minutes": phrase("{minutes} min {seconds} s"),
    "hours": phrase("{hours} h {minutes} min"),
    "days": phrase("{days} d {hours} h"),
}
#: Durations without a rest in the smaller unit, for scales.
ROUND_DURATIONS = {"minutes": phrase("{minutes} min"), "hours": phrase("{hours} h"), "days": phrase("{days} d")}
#: Ages by their only unit, the largest first; the exact time is in the title.
AGES = {
    "days": phrase("{number} d ago"),
    "hours": phrase("{number} h ago"),
    "minutes": phrase("{number} min ago"),
    "seconds": phrase("{number} s ago"),
}


def localized(number: str) -> str:
    """Return an English number with the signs of the language: ``1,234.5`` as ``1.234,5``."""
    comma, point = str(get_format("THOUSAND_SEPARATOR")), str(get_format("DECIMAL_SEPARATOR"))
    return number if (comma, point) == (",", ".") else number.translate({ord(","): comma, ord("."): point})


def bytes_text(value: float | str | None) -> str:
    """Return ``1.46 TiB``, or ``Unknown``."""
    if value is None or value == "":
        return translated(UNKNOWN)
    size, unit = _in_unit(float(value))
    return f"{localized(_digits(size, unit))} {unit}"


def round_bytes(value: float) -> str:
    """Return bytes without trailing zeros, for scales: ``1.5 TiB``."""
    size, unit = _in_unit(value)
    return f"{localized(f'{float(_digits(size, unit)):g}')} {unit}"


def _in_unit(size: float) -> tuple[float, str]:
    unit = 0
    while abs(size) >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return size, UNITS[unit]


def _digits(size: float, unit: str) -> str:
    digits = 0 if unit == UNITS[0] or size >= 100 else 1 if size >= 10 else 2
    return f"{size:.{digits}f}"


def count(value: int | None) -> str:
    """Return a number with commas, or ``Unknown``."""
    return translated(UNKNOWN) if value is None else localized(f"{value:,}")


def rate(value: float | str | None) -> str:
    """Return bytes a second as ``312 MiB/s``, in the units of ``bytes``, so that one can be divided by the other."""
    if value is None or value == "":
        return translated(UNKNOWN)
    mebibytes = float(value) / MIB
    return f"{localized(f'{mebibytes:.0f}' if mebibytes >= 10 else f'{mebibytes:.1f}')} MiB/s"


def duration(value: float | str | None) -> str:
    """Return seconds as ``4.2 s``, ``42 s``, ``3 min 05 s``, ``1 h 02 min``, ``2 d 3 h``; ``—`` where unknown."""
    if value is None or value == "":
        return "—"
    if tenths := in_tenths(float(value)):
        return translated(DURATIONS["seconds"]).format(seconds=localized(tenths.removesuffix(" s")))
    return translated(duration_phrase(float(value)))


def duration_phrase(value: float) -> Phrase:
    """Return whole seconds as ``duration`` does, for texts that are made before their language is known."""
    seconds = max(0, round(value))
    unit = next((name for name, size in reversed(SECONDS_OF.items()) if seconds >= size), "seconds")
    minutes, hours = seconds // 60, seconds // 3600
    numbers: dict[str, dict[str, object]] = {
        "seconds": {"seconds": seconds},
        "minutes": {"minutes": minutes, "seconds": f"{seconds % 60:02d}"},
        "hours": {"hours": hours, "minutes": f"{minutes % 60:02d}"},
        "days": {"days": seconds // 86400, "hours": hours % 24},
    }
    return phrase(DURATIONS[unit], **numbers[unit])


def round_duration(value: float) -> str:
    """Return seconds without a rest of zero: ``15 min`` for ``15 min 00 s``."""
    return duration(value) if in_tenths(value) else translated(round_duration_phrase(value))


def round_duration_phrase(value: float) -> Phrase:
    """Return whole seconds as ``round_duration`` does."""
    found = duration_phrase(value)
    unit, *rest = found.values
    return (
        phrase(ROUND_DURATIONS[unit], **{unit: found.values[unit]})
        if rest and not int(found.values[rest[0]])
        else found
    )


def seconds_ago(seconds: int) -> str:
    """Return ``12 s ago`` or ``16 h ago``, in the largest unit; ``now`` for no second."""
    if not seconds:
        return translated(NOW)
    unit, size = next(((name, size) for name, size in reversed(SECONDS_OF.items()) if seconds >= size), ("seconds", 1))
    return translated(phrase(AGES[unit], number=seconds // size))
