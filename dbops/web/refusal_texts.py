"""Write refusals in messages and above forms, in the language of the page."""

from dbops.engine.errors import DbopsError
from dbops.web.templatetags.phrases import sentence, translated


def cause_of(error: DbopsError) -> str:
    """Return the cause as a sentence."""
    return sentence(error.cause)


def refusal_text(error: DbopsError, *, has_state: bool = False) -> str:
    """Return cause and next step as sentences. ``has_state``: with the current state between them."""
    parts = (error.state, error.next_step) if has_state else (error.next_step,)
    return " ".join([cause_of(error), *map(translated, parts)])
