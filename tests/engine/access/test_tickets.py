"""Patterns and addresses of change tickets."""

import time

import pytest

from dbops.engine.access.tickets import MOST_TICKET, pattern_problem, ticket_problem, ticket_url, url_problem

JIRA = "https://jira.example.com/browse/{ticket}"


@pytest.mark.parametrize(
    "pattern", ["", "CHG[0-9]+", r"CHG\d{7}", "[A-Z]{2,10}-[0-9]{1,6}", r"OPS-\d+|CHG\d+", "[A-Z-]+", "#[0-9]*"]
)
def test_pattern_is_accepted(pattern: str) -> None:
    assert pattern_problem(pattern) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(a+)+",
            "(?=x)",
            "a**",
            "a*+",
            "[^a]+",
            ".*",
            "^A$",
            "[",
            "[]",
            "[z-a]",
            "a{99}",
            "a{5,2}",
            "|a",
            "a|",
            "a||b",
        ),
        *(r"\1", r"\w+", "[0-9]*", "a|b*", "a\0", "a\n", "ä", "a*" * 4, "A" * 101),
    ],
)
def test_pattern_is_refused(pattern: str) -> None:
    assert pattern_problem(pattern)


def test_slowest_accepted_pattern_is_quick() -> None:
    pattern = "[0-9]*[0-9]*[0-9]*A"
    assert pattern_problem(pattern) == ""
    began = time.perf_counter()
    assert ticket_problem("1" * MOST_TICKET, pattern)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("ticket", ["CHG0001", "CHG1"])
def test_ticket_matches_as_a_whole(ticket: str) -> None:
    assert ticket_problem(ticket, "CHG[0-9]+") == ""


@pytest.mark.parametrize("ticket", ["", "CHG", "xCHG1", "CHG1x", "CHG1\n", "CHG1\0", "CHG١", "CHG" + "1" * MOST_TICKET])
def test_ticket_does_not_match(ticket: str) -> None:
    assert ticket_problem(ticket, "CHG[0-9]+")


def test_ticket_without_a_pattern_is_optional_and_plain() -> None:
    assert (ticket_problem("", ""), ticket_problem("OPS-7", "")) == ("", "")
    for ticket in ("<b>", "a\0", "a\n", "-x", "x" * 65):
        assert ticket_problem(ticket, ""), ticket


def test_address_of_a_ticket_is_quoted() -> None:
    assert ticket_url("OPS-7", JIRA) == "https://jira.example.com/browse/OPS-7"
    assert ticket_url("a/b?c#d e", JIRA) == "https://jira.example.com/browse/a%2Fb%3Fc%23d%20e"
    assert (ticket_url("", JIRA), ticket_url("OPS-7", "")) == ("", "")


@pytest.mark.parametrize(
    "template",
    [
        *(
            "http://jira/{ticket}",
            "javascript:alert({ticket})",
            "https://{ticket}.example/",
            "https://jira/",
            "jira/{ticket}",
        ),
        *(
            "https://jira/{ticket}/{ticket}",
            "https://jira/{ticket}{x}",
            "https://u:p@jira/{ticket}",
            "https://jira/ {ticket}",
        ),
        *(
            "https://[x/{ticket}",
            "https:///{ticket}",
            "https://jira/{ticket}\0",
            "https://jira?{ticket}@x",
            "https://j/" + "a" * 500,
        ),
    ],
)
def test_address_is_refused(template: str) -> None:
    assert url_problem(template)


@pytest.mark.parametrize(
    "template", ["", JIRA, "https://sn.example/nav_to.do?uri=change_request.do?sysparm_query=number={ticket}"]
)
def test_address_is_accepted(template: str) -> None:
    assert url_problem(template) == ""
