"""What hosts write is cleaned before it is kept."""

import pytest

from dbops.cleaner import MAXIMUM_CHARACTERS, clean


def test_secrets_are_masked_wherever_they_stand() -> None:
    assert clean("-pSECRET x SECRET", ["SECRET", ""]) == "-p******** x ********"


def test_password_hashes_of_show_grants_are_masked() -> None:
    line = "GRANT USAGE ON *.* TO `b`@`%` IDENTIFIED BY PASSWORD '*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9'"
    assert "6BB48" not in clean(line)


@pytest.mark.parametrize("text", ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "red\x1b[2J"])
def test_terminal_sequences_are_taken_out(text: str) -> None:
    assert "\x1b" not in clean(text)
    assert "red" in clean(text)


def test_nul_and_other_control_characters_become_visible() -> None:
    assert clean("a\0b\x08c") == "a\ufffdb\ufffdc"


def test_a_flood_is_cut_in_the_middle_and_says_so() -> None:
    text = clean("a" * MAXIMUM_CHARACTERS + "END")
    assert text.endswith("END")
    assert "characters left out" in text
