"""What hosts write is cleaned before it is kept."""

import re
from typing import Any

import pytest

from dbops.security import redaction
from dbops.security.redaction import MAXIMUM_CHARACTERS, RecordRedactor, redact, redact_record


def test_redact_masks_secrets_anywhere() -> None:
    assert redact("-pSECRET x SECRET", ["SECRET", ""]) == "-p******** x ********"


def test_redact_masks_password_hashes_of_show_grants() -> None:
    line = "GRANT USAGE ON *.* TO `b`@`%` IDENTIFIED BY PASSWORD '*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9'"
    assert "6BB48" not in redact(line)


def test_redact_masks_overlapping_and_colored_secrets() -> None:
    assert redact("SECRET SECRETLY", ["SECRET", "SECRETLY"]) == "******** ********"
    assert redact("SEC\x1b[1mRET\x1b[0m", ["SECRET"]) == "********"


@pytest.mark.parametrize(
    "text",
    [
        "mariadb-dump --password=xyz9! --all-databases",
        "CHANGE MASTER TO MASTER_PASSWORD = 'xyz9!', MASTER_PORT=3306",
        'password="xyz9!"',
        "cannot connect to mysql://dbops:xyz9!@db-1:3306/",
    ],
)
def test_redact_masks_unknown_passwords_by_their_place(text: str) -> None:
    assert "xyz9" not in redact(text)
    assert redact(text).count("********") == 1
    assert redact(redact(text)) == redact(text)


def test_redact_keeps_the_using_password_note() -> None:
    line = "Access denied for user 'dbops'@'db-1' (using password: YES)"
    assert redact(line) == line


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "red\x1b[2J"])
def test_redact_removes_terminal_sequences(text: str) -> None:
    assert "\x1b" not in redact(text)
    assert "red" in redact(text)


def test_redact_shows_control_characters() -> None:
    assert redact("a\0b\x08c") == "a\ufffdb\ufffdc"


def test_redact_cuts_long_text_in_the_middle() -> None:
    text = redact("a" * MAXIMUM_CHARACTERS + "END")
    assert text.endswith("END")
    middle = text.strip("a\n").removesuffix("END").strip("a\n")
    assert re.findall(r"\d+", middle) == ["3"], "as many characters as were left out"


def test_clean_of_a_cleaned_record_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = redaction.redact
    monkeypatch.setattr(redaction, "redact", lambda text, *rest, **how: looked.append(text) or real(text, *rest, **how))
    record: dict[str, Any] = {"log": ["pw=SECRET", "a\0b", "a\0b"], "n": 1, "deep": {"x": ("SECRET", None)}}
    again = RecordRedactor(["SECRET"])
    assert again.clean(record) == redact_record(record, ["SECRET"], limit=None)
    record["log"].append("--password=x")
    looked.clear()
    assert again.clean(record) == redact_record(record, ["SECRET"], limit=None)
    assert looked.count("--password=x") == 2  # by both; what was there before by the other one alone
    assert looked.count("pw=SECRET") == 1
    record.clear()
    again.clean(record)
    assert not again._known
