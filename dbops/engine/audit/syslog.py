"""Write audit entries as syslog messages: RFC 5424 with structured data, framed by octet counting (RFC 6587)."""

import json
import unicodedata

from dbops.engine.audit.chain import ChainEntry, covered, moment

#: Facility "log audit"; a failed or refused act is a warning, any other a notice.
FACILITY, WARNING, NOTICE = 13, 4, 5
#: Outcomes that are a warning.
BAD = frozenset({"failed", "refused", "lost", "missed", "unknown"})
#: Longest message in bytes, without the frame: rsyslog's default. Structured data is far shorter.
MOST_BYTES = 8192
#: Longest value of structured data in bytes. Numbers and hashes are shorter.
MOST_VALUE_BYTES = 500
HOST_CHARACTERS, ID_CHARACTERS = 255, 32
#: 32473 is the enterprise number for examples (RFC 5612): dbops has none of its own.
STRUCTURE = "dbops@32473"
#: Names of structured data. The number and the hashes are first, so that a receiver that cuts keeps them.
PARTS = ("hash", "previous", "action", "subject", "instance", "cluster", "outcome", "actor", "address")
#: Fields of the text that are left out one after the other while the message is too long.
LEFT_OUT = ("detail", "reason")


def framed(message: bytes) -> bytes:
    """Return a message with its length in front, as TCP needs it."""
    return b"%d %s" % (len(message), message)


def message_of(entry: ChainEntry, host: str) -> bytes:
    """Return an entry as one message without control characters, at most ``MOST_BYTES`` long.

    The text is the entry as JSON in export format. Of an entry that is too long, ``detail`` and then ``reason`` are
    left out and named in ``left_out``; the hash still covers them.

    Args:
        host: name of dbops's machine.
    """
    severity = WARNING if entry.outcome in BAD else NOTICE
    header = (
        f"<{FACILITY * 8 + severity}>1 {moment(entry.at)} {_printable(host, HOST_CHARACTERS)} dbops -"
        f" {_printable(entry.action, ID_CHARACTERS)} "
    )
    values = " ".join(f'{name}="{_quoted(getattr(entry, name))}"' for name in PARTS)
    start = f'{header}[{STRUCTURE} sequence="{entry.sequence}" {values}]'.encode()
    text = {**covered(entry), "hash": entry.hash}
    for count in range(len(LEFT_OUT) + 1):
        without = LEFT_OUT[:count]
        kept = {name: value for name, value in text.items() if name not in without}
        message = start + b" " + _json(kept | ({"left_out": list(without)} if without else {}))
        if len(message) <= MOST_BYTES:
            return message
    return start


def json_body(entries: list[ChainEntry]) -> bytes:
    """Return entries as one JSON list, each in export format."""
    return b"[" + b",\n".join(_json({**covered(entry), "hash": entry.hash}) for entry in entries) + b"]\n"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _printable(text: str, most: int) -> str:
    """Return a header field: visible ASCII, ``-`` if there is none."""
    return "".join(sign if "!" <= sign <= "~" else "_" for sign in text)[:most] or "-"


def _quoted(text: str) -> str:
    """Return a value of structured data, cut to ``MOST_VALUE_BYTES`` between two characters."""
    parts: list[str] = []
    size = 0
    for sign in text:
        part = _escaped(sign)
        size += len(part.encode())
        if size > MOST_VALUE_BYTES:
            return "".join(parts) + "…"
        parts.append(part)
    return "".join(parts)


def _escaped(sign: str) -> str:
    if sign in '"\\]':
        return "\\" + sign
    # Control, format and private characters, lone surrogates, and line separators.
    if unicodedata.category(sign)[0] == "C" or unicodedata.category(sign) in ("Zl", "Zp"):
        return f"\\\\u{{{ord(sign):x}}}"
    return sign
