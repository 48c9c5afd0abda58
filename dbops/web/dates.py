"""Write days and times in the language of the page: its names of weekdays and months, in its order."""

from datetime import date

from django.utils.dateformat import format as formatted
from django.utils.translation import pgettext_lazy

#: Formats of ``django.utils.dateformat``. Dates in numbers are ISO dates in every language.
DATES = {
    "day": pgettext_lazy("format of a time", "j M"),
    "weekday": pgettext_lazy("format of a time", "D j"),
    "whole_day": pgettext_lazy("format of a time", "l d F"),
    "month": pgettext_lazy("format of a time", "M Y"),
    "weekday_hour": pgettext_lazy("format of a time", "D H:i"),
    "day_hour": pgettext_lazy("format of a time", "D j M H:i"),
    "padded_day_hour": pgettext_lazy("format of a time", "D d M H:i"),
}


def date_text(value: date, style: str) -> str:
    """Return a day or a time in its own zone. ``style`` is one of ``DATES``."""
    return formatted(value, str(DATES[style]))
