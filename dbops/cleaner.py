"""The one place through which output of hosts goes before it is kept: no secrets, no control characters, no flood."""

import logging
import re
from collections.abc import Iterable
from typing import Any

MAXIMUM_CHARACTERS = 20_000
MASK = "********"
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
#: mariadb-backup prints SHOW GRANTS, with the account's password hash, when a privilege is missing (measured).
HASHES = re.compile(r"(IDENTIFIED\s+(?:BY|VIA|WITH)\b(?:\s+PASSWORD)?)[^;\n]*", re.IGNORECASE)
SHORTEST_SECRET = 4


def clean(text: str, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> str:
    """Return text that may be stored and shown.

    Args:
        text: what a host or a tool wrote.
        secrets: values that must not appear; shorter than four characters they are left alone.
        limit: characters that are kept, half from each end; ``None`` where the text must stay whole.
    """
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    text = HASHES.sub(rf"\1 {MASK}", text.replace("\r\n", "\n"))
    text = ESCAPES.sub("", text.replace("\r", "\n")).replace("\a", "")
    text = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    if limit is not None and len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - limit} characters left out ...]\n{text[-half:]}"
    return text


def clean_record(value: Any, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> Any:
    """Return plain data with every text in it cleaned: what is kept as JSON is kept as carefully as what is kept as text."""
    known = tuple(secrets)
    if isinstance(value, str):
        return clean(value, known, limit=limit)
    if isinstance(value, dict):
        return {key: clean_record(item, known, limit=limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_record(item, known, limit=limit) for item in value]
    return value


def without_nul(value: Any) -> Any:
    """Return plain data that PostgreSQL can store, and else as it is: facts are compared, so they are not made pretty."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    return value


TOKEN = re.compile(r"(?<=[?&]token=)[^&\s\"]+")


class WithoutTokens(logging.Filter):
    """Takes access tokens out of the addresses that the web server writes into its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(TOKEN.sub("...", item) if isinstance(item, str) else item for item in record.args)
        return True
