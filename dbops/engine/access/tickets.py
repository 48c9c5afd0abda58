"""Change tickets: the pattern of their numbers, and the address of their page."""

import re
from urllib.parse import quote, urlsplit

from dbops.engine.phrases import phrase

MOST_PATTERN, MOST_TICKET, MOST_URL = 100, 64, 500
#: Each quantifier without a fixed number multiplies the time of a comparison by the length of the ticket.
MOST_QUANTIFIERS = 3
LARGEST_REPEAT = MOST_TICKET
PLACE = "{ticket}"
#: A sign, an escaped sign, or a class of signs. No groups: without nesting no pattern takes exponential time.
ATOM = re.compile(r"[A-Za-z0-9 _#/:-]|\\[d.+*?|()\[\]{}^$\\-]|\[(?:[A-Za-z0-9 _#/:.-]|\\[d-])+\]")
QUANTIFIER = re.compile(r"[+*?]|\{([0-9]{1,2})(,([0-9]{1,2})?)?\}")
#: What a ticket can be where no pattern is set.
ANY_TICKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._#/:-]{0,63}")


def pattern_problem(pattern: str) -> str:
    """Return why a pattern is not accepted; ``""`` if it is."""
    if len(pattern) > MOST_PATTERN:
        return phrase("the pattern has more than {most} characters", most=MOST_PATTERN)
    position, quantifiers, can_end = 0, 0, False
    while position < len(pattern):
        if pattern[position] == "|" and can_end:
            position, can_end = position + 1, False
            continue
        atom = ATOM.match(pattern, position)
        if atom is None:
            return phrase(
                "the pattern can have letters, digits, classes such as [0-9] and alternatives with |, not {found}",
                found=repr(pattern[position]),
            )
        position, can_end = atom.end(), True
        if quantifier := QUANTIFIER.match(pattern, position):
            position = quantifier.end()
            quantifiers += not quantifier[0].startswith("{") or bool(quantifier[2])
            if any(int(number) > LARGEST_REPEAT for number in (quantifier[1], quantifier[3]) if number):
                return phrase("a repetition is larger than {most}", most=LARGEST_REPEAT)
    if pattern and not can_end:
        return phrase("the pattern ends with |")
    if quantifiers > MOST_QUANTIFIERS:
        return phrase("the pattern has more than {most} repetitions of no fixed number", most=MOST_QUANTIFIERS)
    return _unreadable(pattern)


def _unreadable(pattern: str) -> str:
    try:
        is_empty = re.compile(pattern, re.ASCII).fullmatch("") is not None
    except (re.error, OverflowError) as error:
        return phrase("the pattern cannot be read: {error}", error=error)
    return phrase("the pattern accepts an empty ticket") if pattern and is_empty else ""


def url_problem(template: str) -> str:
    """Return why an address of tickets is not accepted; ``""`` if it is."""
    if not template:
        return ""
    if len(template) > MOST_URL or not template.isascii() or not template.isprintable() or " " in template:
        return phrase("the address has more than {most} characters, or one that no address has", most=MOST_URL)
    try:
        parts = urlsplit(template.replace(PLACE, "1"))
        host = urlsplit(template).hostname
    except ValueError:
        return phrase("the address cannot be read")
    if parts.scheme != "https" or not host or parts.username is not None:
        return phrase("the address must begin with https:// and the name of a host, without a user")
    head = template.split("://", 1)[1].split("/", 1)
    if template.count(PLACE) != 1 or PLACE in head[0]:
        return phrase("the address must have {place} once, after the host", place=PLACE)
    return "" if "{" not in template.replace(PLACE, "") else phrase("the address can have {place} only", place=PLACE)


def ticket_problem(ticket: str, pattern: str) -> str:
    """Return why a ticket does not do; ``""`` if it does. An empty one does where no pattern is set."""
    if not ticket:
        return phrase("this cluster needs the number of a change ticket") if pattern else ""
    if len(ticket) > MOST_TICKET:
        return phrase("the ticket has more than {most} characters", most=MOST_TICKET)
    wanted = re.compile(pattern, re.ASCII) if pattern else ANY_TICKET
    if wanted.fullmatch(ticket):
        return ""
    return phrase("the ticket does not match {pattern}", pattern=pattern or phrase("letters, digits and . _ # / : -"))


def ticket_url(ticket: str, template: str) -> str:
    """Return the address of a ticket; ``""`` without one."""
    return template.replace(PLACE, quote(ticket, safe="")) if ticket and template and not url_problem(template) else ""
