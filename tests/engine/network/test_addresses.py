"""Addresses that people enter."""

import pytest

from dbops.engine.network.addresses import is_ip_address, is_loopback, split_address


@pytest.mark.parametrize(
    "text",
    [
        "https://",
        "https://:8443/",
        "https://siem:0/",
        "https://siem:70000/",
        "https://[::1/",
        "ftp://siem/",
        "siem",
        "",
    ],
)
def test_other_addresses_are_refused_without_a_part_of_them(text: str) -> None:
    with pytest.raises(ValueError, match="address") as error:
        split_address(text, ("https",))
    assert "siem" not in str(error.value)


@pytest.mark.parametrize("sign", [" ", "\t", "\n", "\x00", "\x7f", "\\", "ë", "\u2028"])
def test_characters_that_programs_read_in_different_ways_are_refused(sign: str) -> None:
    with pytest.raises(ValueError, match="address"):
        split_address(f"https://siem/{sign}", ("https",))


def test_any_scheme_is_split_where_none_is_named() -> None:
    parts = split_address("slack://a/b")
    assert (parts.scheme, parts.hostname, parts.port) == ("slack", "a", None)


@pytest.mark.parametrize(
    ("host", "address", "loopback"),
    [
        ("127.0.0.9", True, True),
        ("::1", True, True),
        ("10.0.0.8", True, False),
        ("localhost", False, False),
        ("", False, False),
    ],
)
def test_a_name_is_no_loopback(host: str, address: bool, loopback: bool) -> None:
    assert (is_ip_address(host), is_loopback(host)) == (address, loopback)
