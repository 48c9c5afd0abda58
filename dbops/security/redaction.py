"""The one place through which output of hosts goes before it is kept: no secrets, no control characters, no flood."""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

MAXIMUM_CHARACTERS = 20_000
MASK = "********"
#: CSI; the strings (OSC, DCS, SOS, PM, APC) with what they hold; sequences with intermediate bytes (``ESC ( B``); two-byte ones
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\-~])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
#: mariadb-backup prints SHOW GRANTS, with the account's password hash, when a privilege is missing (measured).
HASHES = re.compile(r"(IDENTIFIED\s+(?:BY|VIA|WITH)\b(?:\s+PASSWORD)?)[^;\n]*", re.IGNORECASE)
#: A password that nobody told dbops is known by where it stands: ``--password=x``, ``MASTER_PASSWORD = 'x'``, ``password=x``.
SETTINGS = re.compile(r"""([\w-]*(?:password|passwd)[\w-]*\s*=\s*)('[^'\n]*'|"[^"\n]*"|[^\s,;)]+)""", re.IGNORECASE)
#: and in an address: ``mysql://user:x@host``
ADDRESSES = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+(?=@)", re.IGNORECASE)
SHORTEST_SECRET = 4
#: A spreadsheet reads a cell that begins with one of these as a formula, or drops it and looks at the next character.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def redact(text: str, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> str:
    """Return text that may be stored and shown.

    Args:
        text: what a host or a tool wrote.
        secrets: values that must not appear; shorter than four characters they are left alone.
        limit: characters that are kept, half from each end; ``None`` where the text must stay whole.
    """
    # The longest first: one may begin as another does.
    known = sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)
    text = _masked(text, known).replace("\r\n", "\n")
    text = ESCAPES.sub("", text.replace("\r", "\n")).replace("\a", "")
    # once more: what a terminal's colours had torn apart is whole now
    text = _masked(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), known)
    if limit is not None and len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - limit} characters left out ...]\n{text[-half:]}"
    return text


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = HASHES.sub(rf"\1 {MASK}", text)
    text = SETTINGS.sub(rf"\1{MASK}", text)
    return ADDRESSES.sub(rf"\1{MASK}", text)


def redact_record(value: Any, secrets: Iterable[str] = (), *, limit: int | None = MAXIMUM_CHARACTERS) -> Any:
    """Return plain data with every text in it cleaned: what is kept as JSON is kept as carefully as what is kept as text."""
    known = tuple(secrets)
    return _with_texts(value, lambda text: redact(text, known, limit=limit))


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with every text in it changed, the names of a record's entries left as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(item, change) for item in value]
    return value


class RecordRedactor:
    """Cleans a record that is kept again and again and hardly changes: a text that was in it the last time is not looked through anew.

    Args:
        secrets: as of ``redact``.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)
        self._known: dict[str, str] = {}
        self._seen: dict[str, str] = {}

    def clean(self, record: Any) -> Any:
        """Return what ``redact_record`` returns of it, every text whole."""
        self._seen = {}
        cleaned = _with_texts(record, self._clean)
        self._known = self._seen  # what is not in it any more is forgotten: no text outlives its record
        return cleaned

    def _clean(self, text: str) -> str:
        known = self._known.get(text)
        self._seen[text] = cleaned = redact(text, self._secrets, limit=None) if known is None else known
        return cleaned


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


def cell(value: Any) -> Any:
    """Return a CSV cell that is text and nothing else: text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return "" if value is None else value
