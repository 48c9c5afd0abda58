"""Write refusals in messages and above forms, in the language of the page."""

from django.utils.translation import gettext as _

from dbops.engine.errors import DbopsError
from dbops.web.templatetags.phrases import translated


def cause_of(error: DbopsError) -> str:
    """Return the cause as a sentence."""
    cause = translated(error.cause)
    return _("%(cause)s.") % {"cause": f"{cause[:1].upper()}{cause[1:]}"}


def refusal_text(error: DbopsError, *, has_state: bool = False) -> str:
    """Return cause and next step as sentences. ``has_state``: with the current state between them."""
    parts = (error.state, error.next_step) if has_state else (error.next_step,)
    return " ".join([cause_of(error), *map(translated, parts)])
