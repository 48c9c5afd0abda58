"""Clean output of hosts before it is stored: remove secrets and control characters, and limit the length.

Hosts and holders of tokens choose these texts. So each pattern takes time in proportion to the length of its text.
"""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from dbops.engine.phrases import changed

MAXIMUM_CHARACTERS = 20_000
MASK = "********"
#: CSI; strings (OSC, DCS, SOS, PM, APC) with content; sequences with intermediate bytes (``ESC ( B``); two-byte sequences
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\-~])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
#: mariadb-backup prints SHOW GRANTS, with the account's password hash, if a privilege is missing (measured).
HASHES = re.compile(r"(IDENTIFIED\s+(?:BY|VIA|WITH)\b(?:\s+PASSWORD)?)[^;\n]*", re.IGNORECASE)
#: Unknown passwords are recognized by context: ``--password=x``, ``MASTER_PASSWORD = 'x'``, ``password=x``.
SETTINGS = re.compile(
    r"""(?<![\w-])(?=[\w-]*(?:password|passwd))([\w-]++\s*+=\s*+)('[^'\n]*'|"[^"\n]*"|[^\s,;)]+)""", re.IGNORECASE
)
#: and in a URL: ``mysql://user:x@host``
ADDRESSES = re.compile(r"(://[^\s:/@]*+:)[^\s/@]++(?=@)")
SHORTEST_SECRET = 4
#: Spreadsheets treat a cell that starts with one of these as a formula, or skip the character and check the next one.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def redact(text: str, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> str:
    """Return text that is safe to store and show.

    Args:
        text: output of a host or tool.
        secrets: values to remove; values shorter than four characters are ignored.
        limit: characters to keep, half from each end; ``None``: no limit.
    """
    # Longest first: one secret can be a prefix of another.
    known = sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)
    return changed(text, lambda part: _redacted(part, known, limit))


def _redacted(text: str, known: Iterable[str], limit: int | None) -> str:
    text = _masked(text, known).replace("\r\n", "\n")
    text = ESCAPES.sub("", text.replace("\r", "\n")).replace("\a", "")
    # again: secrets that terminal colors had split are now contiguous
    text = _masked(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), known)
    if limit is not None and len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - limit} characters omitted ...]\n{text[-half:]}"
    return text


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = HASHES.sub(rf"\1 {MASK}", text)
    text = SETTINGS.sub(rf"\1{MASK}", text)
    return ADDRESSES.sub(rf"\1{MASK}", text)


def redact_record(value: Any, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> Any:
    """Return plain data with every text cleaned, for storage as JSON."""
    known = tuple(secrets)
    return _with_texts(value, lambda text: redact(text, known, limit=limit))


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with a function applied to every text except keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(item, change) for item in value]
    return value


class RecordRedactor:
    """Clean a record that is stored repeatedly and rarely changes; texts of the last call are not cleaned again.

    Args:
        secrets: see ``redact``.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)
        self._known: dict[str, str] = {}
        self._seen: dict[str, str] = {}

    def clean(self, record: Any) -> Any:
        """Return the result of ``redact_record`` without a length limit."""
        self._seen = {}
        cleaned = _with_texts(record, self._clean)
        self._known = self._seen  # forget removed texts: no text outlives its record
        return cleaned

    def _clean(self, text: str) -> str:
        known = self._known.get(text)
        self._seen[text] = cleaned = redact(text, self._secrets, limit=None) if known is None else known
        return cleaned


def without_nul(value: Any) -> Any:
    """Return plain data that PostgreSQL can store, otherwise unchanged, because facts are compared."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    return value


TOKEN = re.compile(r"(?<=[?&]token=)[^&\s\"]+")


class WithoutTokens(logging.Filter):
    """Log filter that removes access tokens from URLs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(TOKEN.sub("...", item) if isinstance(item, str) else item for item in record.args)
        return True


def cell(value: Any) -> Any:
    """Return a CSV cell that is only text: prefix text that looks like a formula with an apostrophe."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return "" if value is None else value
