"""The words of the page's scripts."""

from typing import Any

from django import template
from django.utils.formats import get_format
from django.utils.translation import get_language

from dbops.engine.phrases import phrase
from dbops.web.charts.rebuild import SPREAD
from dbops.web.figures import AGES, DURATIONS, NOW, ROUND_DURATIONS, UNKNOWN_AGE
from dbops.web.templatetags.phrases import translated

register = template.Library()

WORDS = {
    "now": NOW,
    "unknown": UNKNOWN_AGE,
    "spread": SPREAD,
    "copy": phrase("Copy"),
    "copied": phrase("Copied"),
    "not_allowed": phrase("Not allowed"),
    "own_clock": phrase("{time} (this computer's clock)"),
    "live": phrase("Live"),
    "live_lost": phrase("Live connection lost: asking every 5 s"),
    "not_live": phrase("No live connection: asking every 5 s"),
    "connecting": phrase("Connecting"),
    "value_at": phrase("{value} at {time}"),
    "over_time": phrase("{title} over time: {figures}"),
    "log_in_again": phrase("log in again"),
    "status": phrase("status {status}"),
    "log_not_read": phrase("The log could not be read ({reason}). Scroll or choose again to retry."),
    "no_line": phrase("This log has no line {number}."),
    "new_lines": phrase("{number} new"),
    "search_failed": phrase("The search got no answer ({reason})."),
    "match": phrase("{number} of {count}"),
    "no_match": phrase("No match"),
    "will_notify": phrase("This browser will notify you, as long as this page is open."),
    "not_notified": phrase("This browser does not allow it."),
}


@register.simple_tag
def script_words() -> dict[str, Any]:
    """Return the words by their names in the scripts, patterns for numbers, and the language for numbers and times."""
    patterns = {"durations": DURATIONS, "round_durations": ROUND_DURATIONS, "ages": AGES}
    return {
        "language": get_language(),
        "point": get_format("DECIMAL_SEPARATOR"),
        **{name: translated(word) for name, word in WORDS.items()},
        **{kind: {unit: translated(word) for unit, word in named.items()} for kind, named in patterns.items()},
    }
