"""The one place through which output of hosts goes before it is kept: no secrets, no control characters, no flood."""

import re
from collections.abc import Iterable

MAXIMUM_CHARACTERS = 20_000
MASK = "********"
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
#: mariadb-backup prints SHOW GRANTS, with the account's password hash, when a privilege is missing (measured).
HASHES = re.compile(r"(IDENTIFIED\s+(?:BY|VIA|WITH)\b(?:\s+PASSWORD)?)[^;\n]*", re.IGNORECASE)
SHORTEST_SECRET = 4


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """Return text that may be stored and shown.

    Args:
        text: what a host or a tool wrote.
        secrets: values that must not appear; shorter than four characters they are left alone.
    """
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    text = HASHES.sub(rf"\1 {MASK}", text.replace("\r\n", "\n"))
    text = ESCAPES.sub("", text.replace("\r", "\n")).replace("\a", "")
    text = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) > MAXIMUM_CHARACTERS:
        half = MAXIMUM_CHARACTERS // 2
        text = f"{text[:half]}\n[... {len(text) - MAXIMUM_CHARACTERS} characters left out ...]\n{text[-half:]}"
    return text
