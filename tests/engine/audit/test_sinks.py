"""Syslog messages of audit entries: whatever an entry has, it is one message with its hash."""

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.audit.chain import ChainEntry, hash_of, read_link
from dbops.engine.audit.sinks import read_address
from dbops.engine.audit.syslog import MOST_BYTES, framed, json_body, message_of

PREVIOUS, HASH = "a" * 64, "b" * 64
HEADER = re.compile(rb"<(\d{1,3})>1 (\S+) ([!-~]{1,255}) dbops - ([!-~]{1,32}) \[dbops@32473( .*)$", re.DOTALL)
PARAMETER = re.compile(r' ([a-z]+)="((?:[^"\\\]]|\\["\\\]])*)"')
HOSTILE = st.text(max_size=200) | st.sampled_from(
    ['"] <13>1 - - - - - - x', "x\n<13>1 -", "\r\n5 abcde", "\\", '\\"]', "\u2028", "\u202e", "\x85", "é" * 200]
)


def entry(**values: object) -> ChainEntry:
    at = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
    known = {"actor": "olga", "action": "rebuild.requested", "subject": "replica-1"}
    return ChainEntry(**{"sequence": 7, "previous": PREVIOUS, "hash": HASH, "at": at, **known, **values})


def parsed(message: bytes) -> tuple[re.Match[bytes], dict[str, str], str]:
    """Return header, structured data and text as a receiver reads them."""
    header = HEADER.fullmatch(message)
    assert header is not None
    rest, values, place = header[5].decode(), {}, 0
    while found := PARAMETER.match(rest, place):
        values[found[1]] = re.sub(r'\\(["\\\]])', r"\1", found[2])
        place = found.end()
    assert rest[place] == "]"
    return header, values, rest[place + 2 :]


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, st.dictionaries(st.text(max_size=20), HOSTILE, max_size=5))
def test_hostile_text_stays_one_message(
    actor: str, action: str, subject: str, reason: str, detail: dict[str, str]
) -> None:
    message = message_of(
        entry(actor=actor, action=action, subject=subject, reason=reason * 50, detail=detail), host=subject
    )
    assert len(message) <= MOST_BYTES
    text = message.decode()
    assert not [sign for sign in text if sign < " " or "\x7f" <= sign <= "\x9f" or sign in "\u2028\u2029\u202e"]
    _, values, _ = parsed(message)
    assert (values["sequence"], values["hash"], values["previous"]) == ("7", HASH, PREVIOUS)
    frames = framed(message) * 2
    for _ in range(2):
        length, _, frames = frames.partition(b" ")
        assert frames[: int(length)] == message
        frames = frames[int(length) :]
    assert frames == b""


@pytest.mark.parametrize("name", ["actor", "subject", "instance", "cluster", "outcome", "address"])
def test_plain_values_arrive_as_they_are(name: str) -> None:
    message = message_of(entry(**{name: 'Zoë "x" [1] \\ y'}), host="dash-1")
    header, values, _ = parsed(message)
    assert values[name] == 'Zoë "x" [1] \\ y'
    assert (header[2], header[3], header[4]) == (b"2026-11-22T09:30:00.000000Z", b"dash-1", b"rebuild.requested")


@pytest.mark.parametrize(("outcome", "priority"), [("done", b"109"), ("failed", b"108"), ("refused", b"108")])
def test_a_failure_is_a_warning(outcome: str, priority: bytes) -> None:
    assert parsed(message_of(entry(outcome=outcome), host="h"))[0][1] == priority


def test_the_text_verifies() -> None:
    written = entry(reason="é\n", detail={"rate": 1.5, "list": [1, None]})
    written = entry(reason="é\n", detail=written.detail, hash=hash_of(written))
    _, _, text = parsed(message_of(written, host="h"))
    assert hash_of(read_link(json.loads(text))) == json.loads(text)["hash"] == written.hash


@pytest.mark.parametrize(
    ("values", "left_out"),
    [
        ({"detail": {"x": "y" * MOST_BYTES}}, ["detail"]),
        ({"reason": "y" * MOST_BYTES}, ["detail", "reason"]),
    ],
)
def test_a_long_entry_keeps_its_hash(values: dict[str, object], left_out: list[str]) -> None:
    message = message_of(entry(**values), host="h" * 300)
    _, data, text = parsed(message)
    assert (len(message) <= MOST_BYTES, data["hash"], json.loads(text)["left_out"]) == (True, HASH, left_out)


def test_the_longest_structured_data_has_its_end() -> None:
    worst = dict.fromkeys(("actor", "subject", "instance", "cluster", "address", "outcome"), "\U000e0041" * 200)
    message = message_of(entry(action="\n" * 60, reason="r" * 9000, **worst), host="h")
    _, values, _ = parsed(message)
    assert (len(message) <= MOST_BYTES, values["hash"], values["subject"][-1]) == (True, HASH, "…")


def test_json_is_a_list_in_export_format() -> None:
    body = json.loads(json_body([entry(), entry(sequence=8)]))
    assert [(item["sequence"], item["hash"]) for item in body] == [(7, HASH), (8, HASH)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("syslog+tcp://log.corp", ("syslog+tcp", "log.corp", 514, "")),
        ("syslog+tls://10.0.0.8:7000", ("syslog+tls", "10.0.0.8", 7000, "")),
        ("https://siem/in?a=b", ("https", "siem", 443, "/in?a=b")),
        ("https://[fd00::1]:8443", ("https", "fd00::1", 8443, "/")),
        ("http://127.0.0.1:8088/x", ("http", "127.0.0.1", 8088, "/x")),
        ("http://[::1]/", ("http", "::1", 80, "/")),
    ],
)
def test_addresses(text: str, parts: tuple[str, str, int, str]) -> None:
    found = read_address(text)
    assert (found.scheme, found.host, found.port, found.path) == parts


@pytest.mark.parametrize(
    "text",
    [
        *("", "siem", "ftp://siem/", "syslog+udp://siem", "https://", "https://:443/", "https://siem:0/"),
        *(
            "https://siem:99999/",
            "https://u:p@siem/",
            "https://siem/#x",
            "syslog+tcp://siem/path",
            "syslog+tls://siem?x",
        ),
        *("http://siem/", "http://localhost/", "http://10.0.0.8/", "http://127.0.0.1.evil.org/", "https://[::1/"),
        *(
            "https://siem/a b",
            "https://siem/\r\nX: y",
            "https://siem\n",
            "https://sïem/",
            "https://siem/\x7f",
            "https://siem\\x/",
        ),
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|http"):
        read_address(text)
