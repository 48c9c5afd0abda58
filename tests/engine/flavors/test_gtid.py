"""GTID arithmetic of both flavors."""

import pytest

from dbops.engine.errors import RemoteFailure
from dbops.engine.flavors import flavor_for, gtid

A = "8f84f270-e51e-11f1-9a6c-02fc00000001"
B = "1fc756c3-e51e-11f1-9a6c-02fc00000001"
mysql = flavor_for("8.4.10")
mariadb = flavor_for("10.11.19-MariaDB")


@pytest.mark.parametrize(
    ("wanted", "present", "missing", "count"),
    [
        ("", "", "", 0),
        (f"{A}:1-5", "", f"{A}:1-5", 5),
        (f"{A}:1-5", f"{A}:1-5", "", 0),
        (f"{A}:1-5", f"{A}:1-9", "", 0),
        (f"{A}:1-10", f"{A}:3-4:7", f"{A}:1-2:5-6:8-10", 7),
        (f"{A}:1-3:4-6", f"{A}:1-6", "", 0),
        (f"{A}:7", f"{A}:1-6:8-9", f"{A}:7", 1),
        (f"{B}:1,{A}:1-17", f"{A}:1-16", f"{B}:1,{A}:17", 2),
        (f"{A.upper()}:1-3", f"{A}:1-3", "", 0),
        (f"{A}:1-5:tag_1:1-3", f"{A}:1-5", f"{A}:tag_1:1-3", 3),
        (f"{A}:tag_1:1-3:tag_2:5,{A}:9", f"{A}:tag_1:2", f"{A}:9:tag_1:1:3:tag_2:5", 4),
    ],
)
def test_mysql_sets_are_subtracted_by_interval_uuid_and_tag(
    wanted: str, present: str, missing: str, count: int
) -> None:
    assert mysql.gtid_missing(wanted, present) == missing
    assert mysql.gtid_count_missing(wanted, present) == count


def test_gtid_sets_ignore_whitespace() -> None:
    assert mysql.gtid_missing(f"{B}:1,\n{A}:1 - 17", f"\n{A}:1-17 ,{B}:1\n") == ""


def test_gtid_set_survives_parsing_and_formatting() -> None:
    text = f"{B}:1:5-9,{A}:1-17:tag:2"
    assert gtid.format_set(gtid.parse_set(text)) == text
    assert gtid.parse_set("+" + text) == gtid.parse_set(text)


def test_subtraction_agrees_with_sets_of_numbers_on_every_small_case() -> None:
    def as_text(numbers: set[int]) -> str:
        return f"{A}:" + ":".join(map(str, sorted(numbers))) if numbers else ""

    for left in range(64):
        for right in range(64):
            wanted = {bit + 1 for bit in range(6) if left >> bit & 1}
            present = {bit + 1 for bit in range(6) if right >> bit & 1}
            result = gtid.parse_set(mysql.gtid_missing(as_text(wanted), as_text(present)))
            numbers = {n for intervals in result.values() for first, last in intervals for n in range(first, last + 1)}
            assert numbers == wanted - present
            assert mysql.gtid_count_missing(as_text(wanted), as_text(present)) == len(numbers)


@pytest.mark.parametrize("text", ["nonsense", f"{A}", f"{A}:x-y", f"{A}:1-5:BAD-TAG:1", "0-1-5"])
def test_gtid_missing_refuses_unreadable_text_in_mysql(text: str) -> None:
    with pytest.raises(RemoteFailure) as error:
        mysql.gtid_missing(text, "")
    assert error.value.code == "gtid.unreadable"


@pytest.mark.parametrize(
    ("wanted", "present", "missing", "count"),
    [
        ("", "", "", 0),
        ("0-101-12", "0-101-12", "", 0),
        ("0-101-12", "0-101-15", "", 0),
        ("0-101-15", "0-101-12", "0-101-15", 3),
        ("0-101-12", "", "0-101-12", 12),
        ("0-101-12,1-7-3", "0-101-12", "1-7-3", 3),
        ("0-101-12", "0-102-13", "", 0),
        ("0-102-12", "0-101-12", "0-102-12", 1),
        ("0-101-9,0-102-5", "0-101-9", "", 0),
        ("0-102-10", "0-101-20,0-102-9", "0-102-10", 1),
        ("0-103-10", "0-101-20,0-102-9", "0-103-10", 1),
        (" 0-101-12,\n 1-7-3 ", "1-7-3,0-101-12", "", 0),
    ],
)
def test_mariadb_positions_compare_by_domain_and_lists_by_server(
    wanted: str, present: str, missing: str, count: int
) -> None:
    assert mariadb.gtid_missing(wanted, present) == missing
    assert mariadb.gtid_count_missing(wanted, present) == count


@pytest.mark.parametrize("text", ["nonsense", "0-1", "0-1-2-3", f"{A}:1-5"])
def test_gtid_count_missing_refuses_unreadable_text_in_mariadb(text: str) -> None:
    with pytest.raises(RemoteFailure) as error:
        mariadb.gtid_count_missing("", text)
    assert error.value.code == "gtid.unreadable"
